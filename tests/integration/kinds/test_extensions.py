"""Kinds of other packages: named in the settings, refused with a message, installed once, run beside farrier's own."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio
import msgspec
import pytest

from farrier.config import BmcConfig, Config, ControllerConfig, DatabaseConfig, MetricsConfig
from farrier.daemon import Daemon
from farrier.errors import ConfigError, RefusedByModel
from farrier.handlers.resource.extension import Extension, ServiceContext
from farrier.io.connections.pool import Connection
from farrier.io.kinds import packages
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.intents.params import Params
from farrier.model.kinds.resource import Answer
from farrier.model.kinds.spec import KindEdge, KindLayer, KindState
from farrier.model.loop.runs import CommitVerdict, Due, Finished
from farrier.process import foreseen
from farrier.wiring import storage
from farrier.wiring.kinds import extensions, installable, loop_of, require_kinds
from tests.support import crates, loop, pg
from tests.support import fence as fences
from tests.support.crates import SPEC, Crate, CrateHandler, Hand

NAME = "tests.support.crates:CRATE"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
NOWHERE = BmcConfig(allowed_networks=("192.0.2.0/24",))
PACKED = Crate(
    id=1, version=1, name="c", state="packed", state_entered_at=NOW, created_at=NOW, size=1, labels=(), slot=1
)
CRATES = "SELECT to_regclass('farrier_crates.crates') IS NOT NULL"


def extension(**changes: Any) -> Extension[Crate, Answer, Hand]:
    crate: Extension[Crate, Answer, Hand] = Extension(
        spec=SPEC, snapshot=Crate, handler=CrateHandler(), columns=("labels",), sql=crates.CREATE
    )
    return msgspec.structs.replace(crate, **changes)


@pytest.fixture
async def conn(every_db: pg.Database) -> AsyncIterator[Connection]:
    async with every_db.connect() as conn:
        yield conn


async def install(conn: Connection, **changes: Any) -> bool:
    return await packages.install(conn, installable(extension(**changes)))


def changed(**changes: Any) -> Any:
    return msgspec.structs.replace(SPEC, **changes)


# --- named


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("volumes", "expected the name of a kind as package.module:NAME, not 'volumes'"),
        (":VOLUME", "expected the name of a kind as package.module:NAME"),
        ("volumes:", "expected the name of a kind as package.module:NAME"),
        ("..volumes:VOLUME", "expected the name of a kind as package.module:NAME"),
        ("no_such_package.volumes:VOLUME", "cannot be imported: No module named 'no_such_package'; install it"),
        ("tests.support.crates:BARREL", "tests.support.crates has no BARREL"),
        ("tests.support.crates:SPEC", "is not an Extension of farrier.library, but a KindSpec"),
    ],
)
def test_a_name_that_leads_to_no_extension_is_refused_with_the_reason(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        extensions([name])


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (changed(name="network_segment"), "two kinds have the name network_segment"),
        (changed(relation="farrier.network_segments"), "two kinds have the table farrier.network_segments"),
    ],
)
def test_a_kind_that_farrier_has_already_is_refused(monkeypatch: pytest.MonkeyPatch, spec: Any, told: str) -> None:
    monkeypatch.setattr(crates, "CRATE", extension(spec=spec), raising=False)
    with pytest.raises(ConfigError, match=told):
        extensions([NAME])


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crates, "CRATE", extension(), raising=False)
    monkeypatch.setattr(crates, "BOX", extension(spec=changed(relation="boxes.boxes")), raising=False)
    with pytest.raises(ConfigError, match="two kinds have the name crate"):
        extensions([NAME, "tests.support.crates:BOX"])


def layer(name: str, **changes: Any) -> KindLayer:
    return KindLayer(name=name, states={"off": KindState(why_none="x")}, edges=(), initial="off", **changes)


class Layered(Crate, frozen=True, kw_only=True):
    power: str
    power_entered_at: datetime


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ([layer("power", label="box")], "two layers have the metrics label box"),
        ([layer("power", label="management")], "two layers have the metrics label management"),
        ([layer("power", key="box")], "two layers have the limits key box"),
        ([layer("power"), layer("power")], "two layers have the metrics label crate_power"),
    ],
)
def test_layers_that_metrics_or_limits_could_not_tell_apart_are_refused(
    monkeypatch: pytest.MonkeyPatch, layers: list[KindLayer], told: str
) -> None:
    layered = extension(spec=changed(layers=tuple(layers)), snapshot=Layered)
    monkeypatch.setattr(crates, "CRATE", layered, raising=False)
    monkeypatch.setattr(crates, "BOX", extension(spec=changed(name="box", relation="boxes.boxes")), raising=False)
    with pytest.raises(ConfigError, match=told):
        extensions([NAME, "tests.support.crates:BOX"])


class Other(msgspec.Struct):
    id: int


class Running(Crate, frozen=True, kw_only=True):
    run: int = 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"snapshot": Other}, "its snapshot Other is not a Resource"),
        ({"columns": ("labels", "colour")}, "`columns` has colour, but its snapshot Crate has no such fields"),
        ({"writer": "farrier_crates.write"}, "`writer` and `section` require each other"),
        ({"snapshot": Running, "columns": ("run",)}, "`columns` must not have run: these columns are reserved"),
        ({"columns": ("labels", "version", "id")}, "`columns` must not have id, version"),
        ({"columns": ("requests",)}, "`columns` must not have requests"),
    ],
)
def test_an_extension_that_does_not_fit_together_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        extension(**changes)


# --- installed


async def test_a_kind_is_installed_once_and_brought_up_to_date_after_that(conn: Connection) -> None:
    assert await install(conn)
    await conn.execute("INSERT INTO farrier_crates.crates (name) VALUES ('c-1')")
    states = {**SPEC.states, "packing": KindState(why_none="it takes as long as it takes")}
    assert not await install(conn, spec=changed(states=states, actions={}), sql="SELECT 1 / 0")
    known = "SELECT sla IS NULL FROM farrier.kind_states WHERE kind = 'crate' AND state = 'packing'"
    assert await conn.fetchval(known)
    assert await conn.fetchval("SELECT array_agg(action) FROM farrier.kind_actions WHERE kind = 'crate'") == ["create"]
    assert await conn.fetchval("SELECT count(*) FROM farrier_crates.crates") == 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sql": "CREATE TABLE x (y nonsense)"}, "the SQL of kind crate fails: .*nonsense"),
        ({"sql": ""}, "farrier_crates"),
        ({"sql": f"{crates.CREATE} COMMIT; SELECT 1 / 0"}, "If the SQL has BEGIN, COMMIT, ROLLBACK or SAVEPOINT"),
        (
            {"sql": f"{crates.CREATE} COMMIT; BEGIN; SELECT 1 / 0"},
            "If the SQL has BEGIN, COMMIT, ROLLBACK or SAVEPOINT",
        ),
        ({"sql": f"BEGIN; {crates.CREATE} COMMIT"}, "If the SQL has BEGIN, COMMIT, ROLLBACK or SAVEPOINT"),
        ({"sql": f"{crates.CREATE} DO 'BEGIN COMMIT; END'"}, "If the SQL has BEGIN, COMMIT, ROLLBACK or SAVEPOINT"),
        ({"spec": changed(relation="farrier_crates.boxes")}, "farrier_crates.boxes"),
        (
            {"sql": crates.CREATE.replace("labels text", "tags text").replace("NOT labels", "NOT tags")},
            "lacks columns: labels",
        ),
    ],
)
async def test_an_installation_that_fails_leaves_nothing(conn: Connection, changes: dict[str, Any], told: str) -> None:
    with pytest.raises((RefusedByModel, pg.PostgresError), match=told):
        await install(conn, **changes)
    assert not await conn.fetchval(CRATES)
    assert not await conn.fetchval("SELECT count(*) FROM farrier.kinds WHERE kind = 'crate'")


async def test_a_name_that_another_package_has_taken_is_refused(conn: Connection) -> None:
    await install(conn)
    with pytest.raises(RefusedByModel, match=r"installed with table farrier_crates.crates, not boxes.boxes"):
        await install(conn, spec=changed(relation="boxes.boxes"))


async def test_a_label_that_a_layer_of_an_installed_kind_has_is_refused(conn: Connection) -> None:
    await install(conn)
    box = changed(name="box", relation="boxes.boxes", layers=(layer("power", label="crate"),))
    sql = """
        CREATE SCHEMA boxes;
        CREATE TABLE boxes.boxes (LIKE farrier_crates.crates INCLUDING ALL, power text, power_entered_at timestamptz);
    """
    with pytest.raises(RefusedByModel, match="has a layer with the label crate, which layer state of kind crate"):
        await install(conn, spec=box, snapshot=Layered, sql=sql)


async def test_a_state_that_a_resource_is_in_cannot_be_removed(conn: Connection) -> None:
    await install(conn)
    await conn.execute("INSERT INTO farrier_crates.crates (name) VALUES ('c-1')")
    renamed = {("wrapping" if name == "packing" else name): state for name, state in SPEC.states.items()}
    edges = tuple(msgspec.structs.replace(e, source="wrapping") if e.source == "packing" else e for e in SPEC.edges)
    other = changed(states=renamed, edges=edges, initial="wrapping")
    with pytest.raises(RefusedByModel, match="in states that the kind does not have in layer state: packing"):
        await install(conn, spec=other)
    for state in ("packed", "emptying/unpack", "gone"):
        await conn.execute("UPDATE farrier_crates.crates SET state = $1", state)
    assert not await install(conn, spec=other)


async def test_a_state_is_replaced_by_keeping_it_with_its_edges_until_no_resource_is_in_it(conn: Connection) -> None:
    await install(conn)
    await conn.execute("INSERT INTO farrier_crates.crates (name) VALUES ('c-1')")
    await conn.execute("UPDATE farrier_crates.crates SET state = 'packed'")
    renamed = {name: name for name in SPEC.states} | {"packed": "stored"}
    edges = tuple(KindEdge(renamed[edge.source], renamed[edge.target], edge.trigger) for edge in SPEC.edges)
    states = {renamed[name]: state for name, state in SPEC.states.items()}
    other = changed(states=states, edges=edges, steady="", actions={})
    with pytest.raises(RefusedByModel) as refused:
        await install(conn, spec=other)
    assert "Keep each of these states with its edges" in refused.value.hint
    kept = changed(
        states={**SPEC.states, **states},
        edges=(*SPEC.edges, *(edge for edge in edges if edge not in SPEC.edges), KindEdge("packed", "stored", "moved")),
        steady="",
        actions={},
    )
    await install(conn, spec=kept)
    await conn.execute("UPDATE farrier_crates.crates SET state = 'stored'")
    await install(conn, spec=other)


async def test_a_state_that_a_resource_is_in_cannot_become_terminal(conn: Connection) -> None:
    """A resource ends by entering a terminal state, so one that is in the state already would never end."""
    await install(conn)
    await conn.execute("INSERT INTO farrier_crates.crates (name) VALUES ('c-1'), ('c-2')")
    await conn.execute("UPDATE farrier_crates.crates SET state = 'packed' WHERE name = 'c-1'")
    edges = (KindEdge("packing", "packed", "x"), KindEdge("packing", "gone", "x"))
    states = {name: each for name, each in SPEC.states.items() if name != "emptying/unpack"}
    other = changed(states=states, edges=edges, terminal=frozenset({"packed", "gone"}), steady="", actions={})
    with pytest.raises(RefusedByModel, match="in states that the new spec makes terminal: packed"):
        await install(conn, spec=other)
    for state in ("emptying/unpack", "gone"):
        await conn.execute("UPDATE farrier_crates.crates SET state = $1 WHERE name = 'c-1'", state)
    assert not await install(conn, spec=other)


class Unreadable(Params, frozen=True, kw_only=True):
    labels: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=9, pattern="(?P<a>x)")], ...], msgspec.Meta(max_length=2)
    ] = ()


async def test_a_pattern_that_postgresql_rejects_is_refused_at_installation(conn: Connection) -> None:
    with pytest.raises(RefusedByModel, match="create has a pattern for labels that PostgreSQL rejects"):
        await install(conn, spec=changed(create=Unreadable))
    assert not await conn.fetchval(CRATES)


async def test_of_two_installations_at_once_one_makes_the_table(db: pg.Database) -> None:
    new: list[bool] = []

    async def installer() -> None:
        async with db.connect() as conn:
            new.append(await install(conn))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(installer)
    assert sorted(new) == [False, True]


async def test_a_missing_or_outdated_kind_is_refused_with_the_command_that_installs_it(conn: Connection) -> None:
    named = [(NAME, SPEC)]
    with pytest.raises(
        ConfigError, match=f"kind crate is not installed in this database; run: farrier kind install {NAME}"
    ):
        await packages.require(conn, named)
    await install(conn)
    await packages.require(conn, named)
    with pytest.raises(
        ConfigError, match=f"in this database differ from this program's; run: farrier kind install {NAME}"
    ):
        await packages.require(conn, [(NAME, changed(actions={}))])


@pytest.mark.parametrize("embedded", [True, False])
async def test_only_an_embedded_database_gets_kinds_without_a_command(db: pg.Database, embedded: bool) -> None:
    async with db.pool(1) as pool:
        database = storage.Database(db.dsn, pool, embedded)
        if embedded:
            await require_kinds(database, {NAME: extension()})
        else:
            with pytest.raises(ConfigError, match="is not installed in this database"):
                await require_kinds(database, {NAME: extension()})
        assert await pool.fetchval(CRATES) is embedded


async def test_an_embedded_database_keeps_a_kind_that_differs_from_the_program_s(db: pg.Database) -> None:
    """The program may be the older one."""
    async with db.pool(1) as pool, db.connect() as conn:
        await install(conn)
        database = storage.Database(db.dsn, pool, True)
        await require_kinds(database, {NAME: extension()})
        with pytest.raises(ConfigError, match=f"differ from this program's; run: farrier kind install {NAME}"):
            await require_kinds(database, {NAME: extension(spec=changed(actions={}))})
        await packages.require(conn, [(NAME, SPEC)])


# --- run


class Services:
    """The services of crates, which count how often they were opened and closed."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.opened = 0
        self.closed = 0

    @asynccontextmanager
    async def __call__(self, surroundings: ServiceContext) -> AsyncIterator[Hand]:
        assert surroundings.credentials is not None
        self.opened += 1
        yield self.hand
        self.closed += 1


def config(dsn: str) -> Config:
    return Config(
        database=DatabaseConfig(dsn=dsn),
        metrics=MetricsConfig(port=0),
        bmc=NOWHERE,
        # Polls are so rare that a wake which is handled in time came by notification.
        controller=msgspec.structs.replace(loop.BRISK, kinds=(NAME,), poll_interval=ControllerConfig().period),
    )


async def test_a_daemon_runs_an_extension_enqueues_its_resources_at_once_and_drains_it(
    db: pg.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, stop = Services(), anyio.Event()
    monkeypatch.setattr(crates, "CRATE", extension(services=services), raising=False)
    async with db.pool(4) as pool, db.connect() as conn:
        await install(conn)
        yard = crates.Yard(db, pool)
        async with anyio.create_task_group() as group:
            await group.start(Daemon(config(db.dsn), stop).run)
            assert services.opened == 1
            made = await yard.create()
            await yard.db.until("SELECT state = 'packed' FROM farrier_crates.crates WHERE id = $1", made)
            services.hand.hold()
            await yard.ask("delete")
            with anyio.fail_after(loop.PATIENCE):
                await services.hand.begun.wait()
            stop.set()
            assert not services.closed
            services.hand.free.set()
        assert (await yard.crate(made))["state"] == "gone"
    assert (services.opened, services.closed) == (1, 1)


async def test_a_daemon_does_not_start_with_a_kind_that_its_database_lacks(
    db: pg.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crates, "CRATE", extension(services=Services()), raising=False)
    with pytest.raises(ExceptionGroup) as failed:
        await Daemon(config(db.dsn), anyio.Event()).run()
    known = foreseen(failed.value)
    assert isinstance(known, ConfigError)
    assert "kind crate is not installed in this database" in str(known)


@asynccontextmanager
async def of_an_unset_variable(_context: ServiceContext) -> AsyncIterator[Hand]:
    assert os.environ["UNSET_OF_CRATES"]
    yield Hand()


async def test_a_daemon_whose_services_fail_at_the_start_names_their_kind(
    db: pg.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crates, "CRATE", extension(services=of_an_unset_variable), raising=False)
    async with db.connect() as conn:
        await install(conn)
    with pytest.raises(ExceptionGroup) as failed:
        await Daemon(config(db.dsn), anyio.Event()).run()
    known = foreseen(failed.value)
    assert isinstance(known, ConfigError)
    assert str(known) == "kind crate: its services failed: KeyError: 'UNSET_OF_CRATES'"


# --- writes of its own

WRITER = """
    CREATE TABLE farrier_crates.weights (id bigint, kg integer);
    CREATE FUNCTION farrier_crates.write(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
        stale bigint[];
    BEGIN
        SELECT coalesce(array_agg(w.run), '{}') INTO stale FROM farrier.write_resources(changes) w;
        RETURN QUERY SELECT s.run, interval '0' FROM unnest(stale) s (run);
        INSERT INTO farrier_crates.weights
        SELECT c.run, c.kg FROM jsonb_to_recordset(changes -> 'weights') c (run bigint, kg integer)
         WHERE c.run <> ALL (stale);
    END $$;
"""


class Weighed(msgspec.Struct, frozen=True):
    kg: int


async def test_writes_of_an_extension_are_committed_with_its_run_or_not_at_all(db: pg.Database) -> None:
    weighing = extension(
        sql=crates.CREATE + WRITER,
        writer="farrier_crates.write",
        section=lambda write: ("weights", msgspec.structs.asdict(write)),
    )
    async with db.pool(2) as pool, pool.acquire() as conn:
        await packages.install(conn, installable(weighing))
        yard = crates.Yard(db, pool)
        fresh, stale = await yard.create("c-1"), await yard.create("c-2")
        io: PostgresStateIO[Crate, Crate, Any] = PostgresStateIO(pool, loop_of(weighing, None).rows)
        fence = await fences.owned(pool, "crate")
        loaded = await io.load([fresh, stale])
        await pool.execute("UPDATE farrier_crates.crates SET version = version + 1 WHERE id = $1", stale)
        results = await io.commit(
            [weighed(loaded.resources[id_], fence.epoch(id_)) for id_ in (fresh, stale)], fence.controller
        )
        assert (results[fresh].verdict, results[stale].verdict) == (CommitVerdict.COMMITTED, CommitVerdict.CONFLICT)
        assert [tuple(row) for row in await pool.fetch("SELECT * FROM farrier_crates.weights")] == [(fresh, 70)]


async def test_a_run_with_a_write_that_no_section_takes_is_refused_with_the_reason(db: pg.Database) -> None:
    async with crates.opened(db) as yard:
        made, fence = await yard.create(), await fences.owned(yard.pool, "crate")
        crate = (await yard.io().load([made])).resources[made]
        run: Any = weighed(crate, fence.epoch(made))
        results = await yard.io().commit([run], fence.controller)
    told = "a run of a crate wrote a Weighed, for which its writer has no section"
    assert str(results[made].error) == f"farrier cannot encode what the handler returned: TypeError: {told}"


def weighed(crate: Crate, epoch: int) -> Finished[Crate, Any]:
    return Finished(
        id=crate.id,
        epoch=epoch,
        version=crate.version,
        due=Due.PERIODIC,
        outcome="update",
        to=crate,
        writes=(Weighed(70),),
    )


def test_no_write_can_name_another_run() -> None:
    """A field `run` in the data of a section's row would make the row count as that of another run."""
    weighing = extension(writer="x.y", section=lambda write: ("weights", {"kg": write.kg, "run": 2}))
    run = weighed(PACKED, 1)
    (changes,) = loop_of(weighing, None).rows.written([run])
    assert msgspec.json.decode(changes)["weights"] == [{"kg": 70, "run": 1}]
