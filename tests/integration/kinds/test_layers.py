"""A kind with a second layer: guarded, recorded, counted and shown like its state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec
import pytest
from typing_extensions import override

from farrier.cli.resource import view
from farrier.errors import ConfigError, RefusedByModel
from farrier.io.connections.pool import Connection
from farrier.io.kinds import packages
from farrier.io.queries.lists import PostgresQueries
from farrier.library import (
    Decided,
    DoNothing,
    Extension,
    Handler,
    KindEdge,
    KindLayer,
    KindSpec,
    KindState,
    Resource,
    Transition,
    Wait,
)
from farrier.model.advice.explanation import explain_resource
from farrier.model.node.limits import Limits, keys_of, places_of
from farrier.model.views.census import Rules
from farrier.model.views.resources import WantedResources, clocks_of
from farrier.wiring.kinds import installable, loop_of
from tests.support import loop, pg
from tests.support.owner import Owner
from tools import model_reference

MINUTE = timedelta(minutes=1)
POWER = KindLayer(
    name="power",
    states={"off": KindState(limit=MINUTE), "on": KindState(why_none="this is where a rack belongs")},
    edges=(KindEdge("off", "on", "its feed is there"),),
    initial="off",
)
SPEC = KindSpec(
    name="rack",
    what="a rack",
    relation="racks.racks",
    states={
        "empty": KindState(why_none="it may stay so"),
        "filled": KindState(why_none="it may stay so"),
        "gone": KindState(why_none="it has ended"),
    },
    edges=(KindEdge("empty", "filled", "x"), KindEdge("filled", "gone", "x")),
    initial="empty",
    terminal=frozenset({"gone"}),
    layers=(POWER,),
)
SQL = """
    CREATE SCHEMA racks;
    CREATE TABLE racks.racks (
        LIKE farrier.resources INCLUDING ALL,
        power text NOT NULL, power_entered_at timestamptz NOT NULL);
"""


class Rack(Resource, frozen=True, kw_only=True):
    power: str
    power_entered_at: datetime


class RackHandler(Handler[Rack, Any]):
    @override
    def handle(self, resource: Rack, now: datetime) -> Decided[Rack, Any]:
        match resource.state, resource.power:
            case "empty", "off":
                return Wait(reason="no resource is in", rests=True)
            case "filled", "off" if resource.power_entered_at <= now:
                return Transition(to=resource.but(power="on"), reason="its feed is there", cause="feed")
            case _:
                return DoNothing()


Racks: TypeAlias = Extension[Rack, Any, Any]


def racks(**changes: Any) -> Racks:
    made: Racks = Extension(spec=SPEC, snapshot=Rack, handler=RackHandler(), sql=SQL)
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
async def conn(every_db: pg.Database) -> AsyncIterator[Connection]:
    async with every_db.connect() as conn:
        await packages.install(conn, installable(racks()))
        await conn.execute("INSERT INTO racks.racks (name) VALUES ('r-1')")
        yield conn


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ({"initial": "lost"}, "layer power: its initial state lost is not one of its states; expected one of off, on"),
        ({"edges": ()}, "layer power: on: not reachable by edges from off"),
        ({"name": "site"}, "layer site: its name must match [a-z][a-z0-9_]{0,39}, and must not be one of the reserved"),
        ({"name": "run"}, "and must not be one of the reserved names created_at, "),
    ],
)
def test_an_inconsistent_layer_is_refused(layer: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        msgspec.structs.replace(SPEC, layers=(msgspec.structs.replace(POWER, **layer),))
    assert told in str(refused.value)


def test_a_kind_with_a_reserved_name_or_a_snapshot_without_its_layers_is_refused() -> None:
    for name in ("node", "status", "management", "onboarding_stage"):
        with pytest.raises(ConfigError, match="its name must not be one of"):
            racks(spec=msgspec.structs.replace(SPEC, name=name))
    with pytest.raises(ConfigError, match="its snapshot Resource lacks the fields power, power_entered_at"):
        racks(snapshot=Resource)


def test_the_model_shows_the_states_of_each_layer_under_the_name_of_the_layer() -> None:
    shown = model_reference.of_kind(SPEC)
    assert ("| state | limit | note |" in shown, "| power | limit | note |" in shown) == (True, True)


async def test_a_table_without_the_layers_columns_is_refused(every_db: pg.Database) -> None:
    short = racks(sql="CREATE SCHEMA racks; CREATE TABLE racks.racks (LIKE farrier.resources INCLUDING ALL)")
    async with every_db.connect() as conn:
        with pytest.raises(RefusedByModel, match="lacks columns: power, power_entered_at"):
            await packages.install(conn, installable(short))


async def test_a_kind_with_limits_by_model_needs_a_column_for_the_model(every_db: pg.Database) -> None:
    by_model = racks(spec=msgspec.structs.replace(SPEC, by_model=True))
    async with every_db.connect() as conn:
        with pytest.raises(RefusedByModel, match="lacks columns: model"):
            await packages.install(conn, installable(by_model))


async def test_each_layer_begins_in_its_initial_state_and_is_recorded(conn: Connection) -> None:
    recorded = await conn.fetch("SELECT layer, to_value FROM farrier.history WHERE kind = 'rack' ORDER BY layer")
    assert [tuple(row) for row in recorded] == [("power", "off"), ("state", "empty")]
    assert await conn.fetchval("SELECT power_entered_at = state_entered_at FROM racks.racks")
    with pytest.raises(pg.PostgresError, match="a new rack cannot have the state on in layer power"):
        await conn.execute("INSERT INTO racks.racks (name, power) VALUES ('r-2', 'on')")


async def test_each_layer_has_its_edges_and_its_own_clock(conn: Connection, every_db: pg.Database) -> None:
    await every_db.advance(MINUTE)
    await conn.execute("UPDATE racks.racks SET power = 'on'")
    assert await conn.fetchval("SELECT power_entered_at - state_entered_at FROM racks.racks") >= MINUTE
    with pytest.raises(pg.PostgresError, match="rack r-1: the model has no edge on -> off in layer power"):
        await conn.execute("UPDATE racks.racks SET power = 'off'")


async def test_in_a_layer_without_edges_any_state_may_follow_any_other(conn: Connection) -> None:
    free = racks(spec=msgspec.structs.replace(SPEC, layers=(msgspec.structs.replace(POWER, edges=None),)))
    assert not await packages.install(conn, installable(free))
    for power in ("on", "off"):
        await conn.execute("UPDATE racks.racks SET power = $1", power)
    with pytest.raises(pg.PostgresError, match="no edge off -> dim in layer power"):
        await conn.execute("UPDATE racks.racks SET power = 'dim'")


async def test_a_run_moves_a_layer_and_each_layer_is_counted_by_its_label(
    every_db: pg.Database, conn: Connection
) -> None:
    await conn.execute("UPDATE racks.racks SET state = 'filled'")
    async with every_db.pool(5) as pool:
        made = loop_of(racks(), None)
        ledger = loop.Ledger()
        owner = Owner(pool, config=loop.BRISK)
        owner.add(made.kind, made.handler, made.rows, services=None, sink=ledger)
        async with owner.running():
            await every_db.until("SELECT power = 'on' FROM racks.racks")
    moved = "SELECT cause FROM farrier.history WHERE kind = 'rack' AND layer = 'power' AND from_value = 'off'"
    assert await conn.fetchval(moved) == "feed"
    assert [(layer.label, layer.entered, layer.left) for layer in SPEC.every_layer] == [
        ("rack", ("filled", "gone"), ("empty", "filled")),
        ("rack_power", ("on",), ("off",)),
    ]


async def test_each_layer_has_separate_limits_that_a_site_may_change(every_db: pg.Database, conn: Connection) -> None:
    assert keys_of([SPEC]) == {"rack.empty", "rack.filled", "rack_power.off", "rack_power.on"}
    assert {place.kind for place in places_of([SPEC])} == {"rack", "rack_power"}
    await conn.execute("INSERT INTO racks.racks (name, site) VALUES ('r-2', 'north')")
    await every_db.advance(5 * MINUTE)
    limits = Limits(sites={"north": {"rack_power.off": timedelta(hours=1)}})
    async with every_db.pool(2) as pool:
        queries = PostgresQueries(pool)
        late = await queries.late(limits)
        assert [(each.name, each.layer, each.state) for each in late.rows] == [("r-1", "power", "off")]
        page = await queries.resources(WantedResources(kind="rack"))
        above = {
            each.name: [clock.above is not None for clock in clocks_of(each, page.now, limits)] for each in page.rows
        }
        assert above == {"r-1": [False, True], "r-2": [False, False]}
        await conn.execute("UPDATE racks.racks SET power = 'on' WHERE name = 'r-2'")
        on = await queries.resources(WantedResources(kind="rack", states=("on",)))
        assert [each.name for each in on.rows] == ["r-2"]
        detail = await queries.resource("rack", "r-1")
        why = dict(view.in_words(explain_resource(detail.rows[0], detail.now, limits), detail.now))
        assert "power off" in str(why["SLA"])
        (has,) = (each for each in view.columns(limits) if each.heading == "HAS")
        assert has.cell(detail.rows[0].resource, detail.now) == "power=off"
        rules = Rules(limits=limits, offline_after=MINUTE, observation_ttl=MINUTE, name_at_most=9)
        census = await PostgresQueries(pool).census(rules)
    assert ("rack_power", "off", "", 1) in [msgspec.structs.astuple(each) for each in census.above]
    (named,) = census.worst
    assert (named.resource_kind, named.name, named.kind, named.state) == ("rack", "r-1", "rack_power", "off")


DOOR = KindLayer(
    name="door",
    states={"shut": KindState(why_none="x"), "open": KindState(why_none="x")},
    edges=(KindEdge("shut", "open", "x"),),
    initial="shut",
)


async def add_door(conn: Connection) -> bool:
    """Install the kind with one more layer."""
    columns = frozenset({"door", "door_entered_at"})
    more = packages.Installable(spec=msgspec.structs.replace(SPEC, layers=(POWER, DOOR)), sql="", columns=columns)
    return await packages.install(conn, more)


async def test_a_layer_that_another_release_adds_is_guarded_from_then_on(conn: Connection) -> None:
    await conn.execute("""
        ALTER TABLE racks.racks ADD COLUMN door text NOT NULL DEFAULT 'shut',
            ADD COLUMN door_entered_at timestamptz NOT NULL DEFAULT farrier.now()
    """)
    assert not await add_door(conn)
    await conn.execute("UPDATE racks.racks SET door = 'open'")
    with pytest.raises(pg.PostgresError, match="no edge open -> shut in layer door"):
        await conn.execute("UPDATE racks.racks SET door = 'shut'")
    await conn.execute("UPDATE racks.racks SET state = 'filled'")
    await conn.execute("UPDATE racks.racks SET state = 'gone'")
    await packages.remove(conn, "rack")
    await conn.execute("UPDATE racks.racks SET door = 'shut'")


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("clock", ["timestamptz", "timestamptz DEFAULT farrier.now()"])
async def test_a_new_layer_without_values_in_existing_rows_is_refused_with_a_statement_to_run(
    conn: Connection, clock: str, ended: bool
) -> None:
    if ended:
        await conn.execute("UPDATE racks.racks SET state = 'filled'")
        await conn.execute("UPDATE racks.racks SET state = 'gone'")
    await conn.execute(f"ALTER TABLE racks.racks ADD COLUMN door text, ADD COLUMN door_entered_at {clock}")
    with pytest.raises(RefusedByModel, match="have NULL in column door or door_entered_at") as refused:
        await add_door(conn)
    await conn.execute(refused.value.hint[refused.value.hint.index("UPDATE") :])
    assert not await add_door(conn)
    assert await conn.fetchval("SELECT door = 'shut' AND door_entered_at IS NOT NULL FROM racks.racks")


async def test_a_new_layer_whose_rows_have_unknown_states_is_refused_with_the_known_states(
    conn: Connection,
) -> None:
    await conn.execute("""
        ALTER TABLE racks.racks ADD COLUMN door text NOT NULL DEFAULT 'ajar',
            ADD COLUMN door_entered_at timestamptz NOT NULL DEFAULT farrier.now()
    """)
    told = "states that the kind does not have in layer door: ajar .* write one of open, shut into column door"
    with pytest.raises(RefusedByModel, match=told):
        await add_door(conn)
