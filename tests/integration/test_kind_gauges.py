"""The gauges of registered kinds on the real database: also of a kind that the counting process does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from farrier.clock import MonotonicClock
from farrier.io.queries.lists import PostgresQueries
from farrier.metrics import gauges as names
from farrier.metrics.fleet import FleetGauges
from farrier.model.loop.controllers import SHARDS
from farrier.model.node.limits import Limits
from farrier.model.views.census import Rules
from farrier.model.views.resources import WantedResources, clocks_of
from tests.support import crates, figures, owners, pg, promtool
from tests.support.crates import Yard
from tests.support.figures import Samples

MINUTE = timedelta(minutes=1)
PACKING, EMPTYING = ("crate", "packing", ""), ("crate", "emptying", "unpack")
STATES = {PACKING, ("crate", "packed", ""), EMPTYING}
SLA, NAMED = "farrier_state_sla_seconds", "farrier_resource_above_sla_seconds"


@pytest.fixture
def prepared() -> pg.Install:
    return crates.install


@pytest.fixture
async def yard(every_db: pg.Database) -> AsyncIterator[Yard]:
    async with crates.opened(every_db, pool_size=3) as opened:
        yield opened


async def scraped(yard: Yard, limits: Limits | None = None) -> Samples:
    """The samples of a process that has just started and does not run crates."""
    rules = Rules(limits=limits or Limits(), offline_after=MINUTE, observation_ttl=MINUTE, name_at_most=10)
    gauges = FleetGauges(rules, MonotonicClock(), patience=60)
    async with figures.counted(gauges, PostgresQueries(yard.pool)):
        return await figures.scraped(gauges)


async def test_every_state_but_the_terminal_one_has_series_before_a_resource_is_in_it(yard: Yard) -> None:
    told = await scraped(yard)
    for name, states in (
        ("farrier_resources", STATES),
        ("farrier_oldest_in_state_seconds", STATES),
        ("farrier_resources_above_sla", {PACKING, EMPTYING}),  # no clock of another state can be above a limit
    ):
        there = {labels: value for (n, labels), value in told.items() if n == name and labels[0] == "crate"}
        assert there == dict.fromkeys(states, 0)
    limits = {labels: value for (name, labels), value in told.items() if name == SLA and labels[0] == "crate"}
    assert limits == {PACKING: 300, EMPTYING: 900}
    assert told["farrier_shards_unowned", ("crate",)] == SHARDS, "no controller has taken a shard"
    assert told["farrier_shard_oldest_sweep_seconds", ("crate",)] == 0
    assert not [labels for name, labels in told if name == "farrier_resources_failing"]


async def test_live_resources_are_counted_by_state_and_ended_ones_are_not(yard: Yard) -> None:
    for name in ("c-1", "c-2", "c-3"):
        await yard.create(name)
    async with yard.running():
        await yard.db.until("SELECT count(*) = 3 FROM farrier_crates.crates WHERE state = 'packed'")
        await yard.ask("delete", "c-1")
        await yard.db.until("SELECT count(*) = 2 FROM farrier_crates.crates WHERE ended_at IS NULL")
    await yard.create("c-4")
    await yard.db.advance(timedelta(minutes=2))
    told = await scraped(yard)
    assert told["farrier_resources", ("crate", "packed", "")] == 2
    assert told["farrier_resources", PACKING] == 1
    assert 120 <= told["farrier_oldest_in_state_seconds", PACKING] < 180
    assert not [labels for _, labels in told if "gone" in labels]


async def test_shards_of_another_kind_are_counted_by_the_controller_that_has_them(yard: Yard) -> None:
    controller = await owners.joined(yard.pool, "rack-1", {"crate": 45.0}, shards=range(10))
    told = await scraped(yard)
    assert told["farrier_shards", ("crate", f"rack-1 ({str(controller)[:8]})")] == 10
    assert told["farrier_shards_unowned", ("crate",)] == SHARDS - 10
    assert 45 <= told["farrier_shard_oldest_sweep_seconds", ("crate",)] < 105


async def test_the_limit_of_a_site_overrides_the_general_limit_which_overrides_the_kinds(yard: Yard) -> None:
    for name, site in (("c-1", "north"), ("c-2", "south"), ("c-3", None)):
        await yard.pool.execute("INSERT INTO farrier_crates.crates (name, site) VALUES ($1, $2)", name, site)
    await yard.db.advance(6 * MINUTE)
    own = await scraped(yard)
    assert own["farrier_resources_above_sla", PACKING] == 3
    held = Limits({"crate.packing": 10 * MINUTE}, sites={"north": {"crate.packing": 2 * MINUTE}})
    told = await scraped(yard, held)
    assert told["farrier_resources_above_sla", PACKING] == 1
    assert told[SLA, PACKING] == 600
    for_a_site = Limits(sites={"south": {"crate.packing": timedelta(hours=1)}})
    assert (await scraped(yard, for_a_site))["farrier_resources_above_sla", PACKING] == 2


async def test_a_setting_can_give_a_limit_to_a_state_without_one(yard: Yard) -> None:
    await yard.create("c-1")
    async with yard.running():
        await yard.db.until("SELECT count(*) = 1 FROM farrier_crates.crates WHERE state = 'packed'")
    await yard.db.advance(timedelta(hours=2))
    packed = ("crate", "packed", "")
    assert ("farrier_resources_above_sla", packed) not in await scraped(yard)
    for_a_site = Limits(sites={"south": {"crate.packed": timedelta(hours=1)}})
    assert (await scraped(yard, for_a_site))["farrier_resources_above_sla", packed] == 0
    told = await scraped(yard, Limits({"crate.packed": timedelta(hours=1)}))
    assert (told["farrier_resources_above_sla", packed], told[SLA, packed]) == (1, 3600)


@pytest.mark.matrix(keep=4)
@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits({"crate.packing": 3 * MINUTE}),
        Limits({"crate.packing": 9 * MINUTE}, sites={"north": {"crate.packing": MINUTE}}),
        Limits(sites={"south": {"crate.packing": timedelta(hours=1)}}),
        Limits(sites={"north": {"crate.packing": 2 * MINUTE}, "south": {"crate.packing": 8 * MINUTE}}),
        Limits({"crate.packing": MINUTE}, sites={"north": {"crate.packing": 4 * MINUTE}, "nowhere": {}}),
        Limits(models={"flat": {"crate.packing": MINUTE}, "tall": {"crate.packing": 8 * MINUTE}}),
        Limits(models={"flat": {"crate.packing": MINUTE}}, sites={"north": {"crate.packing": timedelta(hours=1)}}),
    ],
)
async def test_the_gauges_count_the_clocks_above_their_limit_that_the_list_shows(yard: Yard, limits: Limits) -> None:
    await yard.pool.execute("SELECT farrier.set_pool('slots', 1, 12)")
    await yard.pool.execute("ALTER TABLE farrier_crates.crates ADD model text")
    for number in range(12):
        site, model = ("north", "south", None)[number % 3], ("flat", "tall", None, "odd")[number % 4]
        await yard.pool.execute(
            "INSERT INTO farrier_crates.crates (name, site, model) VALUES ($1, $2, $3)", f"c-{number}", site, model
        )
        await yard.db.advance(MINUTE)
    queries = PostgresQueries(yard.pool)
    page = await queries.resources(WantedResources(kind="crate"))
    clocks = {each.name: clocks_of(each, page.now, limits)[0] for each in page.rows}
    shown = {name for name, clock in clocks.items() if clock.above is not None}
    late = await queries.late(limits)
    assert {each.name for each in late.rows} == shown
    excess = [late.now - each.since - timedelta(seconds=each.limit) for each in late.rows]
    assert excess == sorted(excess, reverse=True)
    assert (await scraped(yard, limits))["farrier_resources_above_sla", PACKING] == len(shown)


async def test_in_a_state_without_a_limit_only_resources_of_sites_that_set_one_are_late(yard: Yard) -> None:
    for name, site in (("c-1", "north"), ("c-2", "north"), ("c-3", "south"), ("c-4", None)):
        await yard.pool.execute("INSERT INTO farrier_crates.crates (name, site) VALUES ($1, $2)", name, site)
    async with yard.running():
        await yard.db.until("SELECT count(*) = 4 FROM farrier_crates.crates WHERE state = 'packed'")
    await yard.db.advance(timedelta(hours=2))
    limits = Limits(
        sites={"north": {"crate.packed": timedelta(hours=1)}, "south": {"crate.packed": timedelta(hours=3)}}
    )
    assert (await scraped(yard, limits))["farrier_resources_above_sla", ("crate", "packed", "")] == 2


async def named(yard: Yard, limits: Limits | None = None) -> dict[tuple[str, ...], float]:
    """The series that name resources, by their labels."""
    return {labels: value for (name, labels), value in (await scraped(yard, limits)).items() if name == NAMED}


async def test_a_late_resource_of_a_strangers_kind_is_named_by_the_gauge_and_by_the_alert(
    yard: Yard, tmp_path: Path
) -> None:
    await yard.create("c-1")
    await yard.db.advance(3 * MINUTE)
    await yard.create("c-2")
    await yard.db.advance(3 * MINUTE)
    ((labels, above),) = (await named(yard)).items()
    assert labels == ("c-1", "crate", *PACKING)
    assert 60 <= above < 120
    given = {label: value for label, value in zip(names.RESOURCE_ABOVE_SLA.labels, labels, strict=True) if value}
    expected = {
        "eval_time": "6m",
        "alertname": "FarrierResourceStuck",
        "exp_alerts": [
            {
                "exp_labels": {"severity": "ticket", **given},
                "exp_annotations": {
                    "summary": "c-1 is stuck in crate packing",
                    "description": "c-1 is 1m 30s above its limit. Run: farrier resource why crate c-1",
                    "runbook_url": "https://docs.example/operate/alerts/FarrierResourceStuck.md",
                },
            }
        ],
    }
    promtool.check(tmp_path, [promtool.Replica("a", {promtool.labelled(NAMED, **given): "90x20"})], expected)


async def test_many_late_resources_hide_neither_few_in_another_state_nor_a_late_node(yard: Yard) -> None:
    async with yard.db.connect() as conn:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(
            """
            INSERT INTO farrier_crates.crates (name, state, state_entered_at)
            SELECT 'c-' || n, CASE WHEN n > 2 THEN 'packing' ELSE 'emptying/unpack' END,
                   farrier.now() - n * interval '1 min'
              FROM generate_series(1, 30) n;
            INSERT INTO farrier.nodes (name, status, management) VALUES ('gpu-1', 'draining', 'unmanaged')
            """
        )
    await yard.db.advance(2 * MINUTE)
    limits = Limits({"crate.packing": MINUTE, "crate.emptying.unpack": MINUTE, "status.draining": MINUTE})
    few = {("c-1", "crate", *EMPTYING), ("c-2", "crate", *EMPTYING), ("gpu-1", "node", "node", "draining", "")}
    found = await named(yard, limits)
    assert found.keys() == few | {(f"c-{n}", "crate", *PACKING) for n in range(24, 31)}, "ten: few, then the worst"
    assert 31 * 60 <= found["c-30", "crate", *PACKING] < 32 * 60
    assert not await named(yard, Limits({"crate.packing": timedelta(hours=1)}))


async def test_the_limit_of_a_site_decides_which_of_its_resources_is_the_worst(yard: Yard) -> None:
    for name, site in (("c-1", None), ("c-2", "north")):
        await yard.pool.execute("INSERT INTO farrier_crates.crates (name, site) VALUES ($1, $2)", name, site)
        await yard.db.advance(2 * MINUTE)
    limits = Limits({"crate.packing": 3 * MINUTE}, sites={"north": {"crate.packing": MINUTE / 2}})
    found = await named(yard, limits)
    assert found["c-2", "crate", *PACKING] > found["c-1", "crate", *PACKING]


@pytest.mark.parametrize(
    "limits", [([], [], [], [], []), (["crate"], ["packing"], ["site"], ["north"], [timedelta(hours=3)])]
)
@pytest.mark.parametrize(
    "function", ["count_resources($1, $2, $3, $4, $5)", "late_resources($1, $2, $3, $4, $5, 1000)"]
)
async def test_the_clock_is_read_once_for_each_kind_and_not_for_each_resource(
    yard: Yard, function: str, limits: tuple[list[object], ...]
) -> None:
    await yard.pool.execute("SELECT farrier.set_pool('slots', 1, 100)")
    await yard.pool.execute(
        "INSERT INTO farrier_crates.crates (name, site) SELECT 'c-' || n, 'north' FROM generate_series(1, 100) n"
    )
    await yard.db.advance(timedelta(hours=2))
    async with yard.db.connect() as conn:
        await conn.execute("SET track_functions = 'all'")
        async with conn.transaction():
            await conn.fetch(f"SELECT * FROM farrier.{function}", *limits)
            calls = await conn.fetchval(
                "SELECT calls FROM pg_stat_xact_user_functions WHERE schemaname = 'farrier' AND funcname = 'now'"
            )
            assert calls <= await conn.fetchval("SELECT count(*) FROM farrier.kinds")


async def test_unanswered_intents_of_nodes_and_of_other_kinds_are_counted_together(yard: Yard) -> None:
    await yard.pool.execute("SELECT farrier.register_node('gpu-1')")
    await yard.pool.execute("SELECT farrier.intent('gpu-1', 'manage')")
    await yard.db.advance(3 * MINUTE)
    before = await scraped(yard)
    await yard.create("c-1")  # the database answers it at once
    assert (await scraped(yard))["farrier_intents_pending", ()] == before["farrier_intents_pending", ()] == 1
    await yard.ask("delete", "c-1")
    await yard.pool.execute("UPDATE farrier.intents SET status = 'rejected', answered_at = farrier.now()")
    await yard.db.advance(20 * MINUTE)
    told = await scraped(yard)
    assert told["farrier_intents_pending", ()] == 1
    assert 1200 <= told["farrier_intents_oldest_pending_seconds", ()] < 1300


async def test_a_kind_whose_table_was_dropped_does_not_hide_other_kinds(yard: Yard) -> None:
    await yard.pool.execute("DROP SCHEMA farrier_crates CASCADE")
    counted = {labels[0] for (name, labels) in await scraped(yard) if name == "farrier_resources"}
    assert "network_segment" in counted
    assert "crate" not in counted
    listed = {kind.kind for kind in await PostgresQueries(yard.pool).kinds()}
    assert listed == {"crate", "ib_partition", "maas_region", "network_segment", "node"}
