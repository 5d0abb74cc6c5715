"""The fleet's gauges on the real database: the same on all replicas, and complete after the first count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import cast

import anyio
import pytest

from farrier import config as settings
from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.metrics import gauges as names
from farrier.metrics.families import Gauge
from farrier.metrics.fleet import FleetGauges
from farrier.metrics.sink import PrometheusSink
from farrier.model.kinds import spec as kinds
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.doors import DoorKind, DoorState, LostPulse
from farrier.model.loop.outcome import EndsBy
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.node import edges, layers
from farrier.model.node.conditions import NAMES
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Layer
from farrier.model.node.limits import PLACES, Limits, places_of
from farrier.model.node.stages import DecommissionStage, OnboardingStage
from farrier.model.views.census import AgentHealth, Census, ObservationSource, Rules
from farrier.protocols import Queries
from farrier.wiring import storage
from farrier.wiring.vocabulary import census_rules, vocabulary
from tests.support import figures, pg, proxy, reading
from tests.support.figures import Samples, samples, scraped

RULES = Rules(
    limits=Limits({"status.offline": timedelta(hours=2)}),
    offline_after=timedelta(minutes=3),
    observation_ttl=timedelta(minutes=5),
    name_at_most=names.NAMED_AT_MOST,
)
NAMED = names.RESOURCE_ABOVE_SLA.name
LATE = """
    INSERT INTO farrier.nodes (name, status, management, status_entered_at)
    SELECT 'gpu-' || n, 'quarantined', 'unmanaged', farrier.now() - interval '25 h' - n * interval '1 min'
      FROM generate_series(1, $1::integer) n
"""
# pg_locks is current in every statement; pg_stat_activity is fixed within a transaction.
BLOCKED = """
    SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
     WHERE d.datname = current_database() AND NOT l.granted
"""

conn = reading.unguarded


class Watch:
    """A monotonic clock that advances with each call so much that every count has expired."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 3600
        return self._now


def process(*, patience: float = 60, give_up_after: float = 60) -> FleetGauges:
    """The gauges of a process that has just started."""
    return FleetGauges(RULES, Watch(), patience=patience, give_up_after=give_up_after)


def counts(found: Samples) -> Samples:
    """The samples without ages, which depend on the moment of the count."""
    return {key: value for key, value in found.items() if not key[0].endswith("_seconds")}


@pytest.fixture
async def replicas(db: pg.Database) -> AsyncIterator[tuple[FleetGauges, ...]]:
    """The gauges of three replicas, each with connections of its own."""
    async with AsyncExitStack() as stack:
        started = []
        for _ in range(3):
            gauges = process()
            queries = PostgresQueries(await stack.enter_async_context(db.pool(size=2)))
            await stack.enter_async_context(figures.counted(gauges, queries))
            started.append(gauges)
        yield tuple(started)


async def test_three_replicas_and_a_restarted_one_expose_the_same_figures(
    db: pg.Database, conn: Connection, replicas: tuple[FleetGauges, ...]
) -> None:
    await conn.execute(LATE, 7)
    told = [await scraped(gauges) for gauges in replicas]
    assert counts(told[0]) == counts(told[1]) == counts(told[2])
    assert {key for key, _ in told[0].items()} == {key for key, _ in told[1].items()}
    assert told[0]["farrier_resources", ("node", "quarantined", "")] == 7
    assert told[0]["farrier_resources_above_sla", ("node", "quarantined", "")] == 7
    restarted = process()
    async with db.pool(size=1) as connections, figures.counted(restarted, PostgresQueries(connections)):
        assert counts(await scraped(restarted)) == counts(told[0])


async def test_a_deleted_node_is_missing_from_the_next_scrape_of_every_replica(
    conn: Connection, replicas: tuple[FleetGauges, ...]
) -> None:
    await conn.execute(LATE, 2)
    for gauges in replicas:
        told = await scraped(gauges)
        assert (NAMED, ("gpu-1", "node", "node", "quarantined", "")) in told
    await conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE name = 'gpu-1'")
    for gauges in replicas:
        told = await scraped(gauges)
        assert told["farrier_resources", ("node", "quarantined", "")] == 1
        assert told["farrier_resources_above_sla", ("node", "quarantined", "")] == 1
        assert {labels[0] for name, labels in told if name == NAMED} == {"gpu-2"}
        assert not [labels for name, labels in told if "deleted" in labels]


async def test_in_an_outage_the_last_figures_stay_with_the_time_of_their_count(
    db: pg.Database, conn: Connection
) -> None:
    gauges = process()
    async with AsyncExitStack() as stack:
        async with proxy.before(db.dsn) as between:
            queries = PostgresQueries(await stack.enter_async_context(pg.Database(between.dsn).pool(size=1)))
            async with figures.counted(gauges, queries):
                await conn.execute(LATE, 3)
                before = await scraped(gauges)
        # The proxy has ended, so the database cannot be reached any more.
        async with figures.counted(gauges, queries):
            assert await scraped(gauges) == before
    assert before["farrier_resources", ("node", "quarantined", "")] == 3
    assert before["farrier_fleet_collected_timestamp_seconds", ()] > 0


async def test_a_scrape_does_not_wait_for_a_silent_database(db: pg.Database) -> None:
    gauges = process(patience=0.2)
    async with (
        proxy.before(db.dsn) as between,
        pg.Database(between.dsn).pool(size=1) as connections,
        figures.counted(gauges, PostgresQueries(connections)),
    ):
        while not (before := await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()]:
            continue  # a slow machine
        between.freeze()
        assert await scraped(gauges) == before
        assert await scraped(gauges) == before


class Slow:
    """Queries whose count waits until `go` is set, and then raises `failure` if that is set."""

    def __init__(self, queries: PostgresQueries) -> None:
        self._queries = queries
        self.begun = 0
        self.go = anyio.Event()
        self.failure: Exception | None = None

    async def census(self, rules: Rules) -> Census:
        self.begun += 1
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        return await self._queries.census(rules)


async def test_a_count_that_outlives_its_scrapes_is_served_by_the_next(db: pg.Database) -> None:
    gauges = process(patience=0)
    async with db.pool(size=1) as connections:
        slow = Slow(PostgresQueries(connections))
        async with figures.counted(gauges, cast(Queries, slow)):
            for _ in range(3):
                assert (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()] == 0
                await anyio.wait_all_tasks_blocked()
            assert slow.begun == 1, "all scrapes wait for the same count"
            slow.go.set()
            while not (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()]:
                continue


async def test_a_count_that_never_ends_is_given_up_and_another_one_begins(db: pg.Database) -> None:
    gauges = process(give_up_after=0.05)
    async with db.pool(size=1) as connections:
        slow = Slow(PostgresQueries(connections))
        async with figures.counted(gauges, cast(Queries, slow)):
            assert (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()] == 0
            assert (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()] == 0
    assert slow.begun == 2


async def test_after_any_failure_of_a_count_the_next_scrape_counts_again(db: pg.Database) -> None:
    gauges = process()
    async with db.pool(size=1) as connections:
        slow = Slow(PostgresQueries(connections))
        slow.go.set()
        async with figures.counted(gauges, cast(Queries, slow)):
            slow.failure = ZeroDivisionError("nobody foresaw this")
            assert (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()] == 0
            slow.failure = None
            assert (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()] > 0


class Taking:
    """Queries whose count takes `seconds` of a clock that only the count and the test move."""

    def __init__(self, queries: PostgresQueries) -> None:
        self._queries = queries
        self.now = 0.0
        self.seconds = 0.0
        self.counts = 0

    def monotonic(self) -> float:
        return self.now

    async def census(self, rules: Rules) -> Census:
        self.counts += 1
        self.now += self.seconds
        return await self._queries.census(rules)


@pytest.mark.parametrize(
    ("seconds", "kept"), [(0.05, 5.0), (0.1, 30.0), (0.155, 46.5), (3.0, 60.0)], ids=["cheap", "dear", "half", "awful"]
)
async def test_a_count_is_kept_the_longer_the_more_time_it_took(db: pg.Database, seconds: float, kept: float) -> None:
    async with db.pool(size=1) as connections:
        taking = Taking(PostgresQueries(connections))
        taking.seconds = seconds
        gauges = FleetGauges(RULES, taking)
        async with figures.counted(gauges, cast(Queries, taking)):
            await scraped(gauges)
            taking.now += kept - 0.01
            await scraped(gauges)
            assert taking.counts == 1
            taking.now += 0.02
            await scraped(gauges)
            assert taking.counts == 2


async def test_requests_for_long_lists_do_not_use_up_the_connection_of_the_count(db: pg.Database) -> None:
    config = settings.Config(database=settings.DatabaseConfig(dsn=db.dsn))
    gauges = process()
    async with (
        storage.database(config.database) as database,
        storage.backend(config, database, observer=PrometheusSink(vocabulary())) as backend,
        storage.counter(config.database, database) as counter,
        figures.counted(gauges, counter),
        db.connect() as conn,
        anyio.create_task_group() as readers,
        conn.transaction(),
    ):
        await conn.execute("LOCK TABLE farrier.node_tasks")
        for _ in range(5):
            readers.start_soon(backend.queries.tasks, None)
        while await conn.fetchval(BLOCKED) < 3:
            continue
        assert (await scraped(gauges))["farrier_fleet_collected_timestamp_seconds", ()] > 0


async def test_before_the_first_count_there_are_limits_and_no_figures() -> None:
    told = samples(process())
    assert told.pop(("farrier_fleet_collected_timestamp_seconds", ())) == 0
    assert {name for name, _ in told} == {"farrier_state_sla_seconds"}
    assert told["farrier_state_sla_seconds", ("node", "offline", "")] == 7200
    assert told["farrier_state_sla_seconds", ("node", "quarantined", "")] == 24 * 3600
    assert ("farrier_state_sla_seconds", ("node", "active", "")) not in told


def places() -> Iterator[tuple[str, str, str]]:
    """Every possible (kind, state, substate), from the model's own enumerations."""
    stages = {Layer.ONBOARDING: OnboardingStage, Layer.DECOMMISSION: DecommissionStage}
    for layer in Layer:
        for state in set(layers.STATES[layer]) - edges.TERMINAL[layer]:
            by_stage = state == "running" and layer in stages
            for stage in stages[layer] if by_stage else ("",):
                yield layers.LAYER_KIND[layer], str(state), str(stage)
    for spec in BUILT_IN:
        yield from ((spec.name, *kinds.label(state)) for state in set(spec.states) - spec.terminal)


async def test_a_fresh_process_on_an_empty_fleet_has_every_series_at_zero_and_no_other(
    replicas: tuple[FleetGauges, ...],
) -> None:
    told = await scraped(replicas[0])
    assert told.pop(("farrier_fleet_collected_timestamp_seconds", ())) > 0
    limited = [key for key in told if key[0] == "farrier_state_sla_seconds"]
    for key in limited:
        assert told.pop(key) > 0
    for kind in ("node", *(spec.name for spec in BUILT_IN)):
        assert told.pop((names.SHARDS_UNOWNED.name, (kind,))) == SHARDS, "no controller has taken a shard"
    whole = {("onboarding", "end_to_end", ""), ("decommission", "end_to_end", "")}
    everywhere = ("node", *(spec.name for spec in BUILT_IN))
    expected: dict[Gauge, set[tuple[str, ...]]] = {
        names.RESOURCES: set(places()),
        names.OLDEST_IN_STATE: set(places()),
        names.ABOVE_SLA: {labels for _, labels in limited} | whole,
        names.RESOURCE_ABOVE_SLA: set(),
        names.MANUAL_INTERVENTION: {(str(failure),) for failure in FailureClass},
        names.SHARDS: set(),
        names.OLDEST_SWEEP: {(kind,) for kind in everywhere},
        names.WAKES_PENDING: {()},
        names.RESOURCES_FAILING: set(),
        names.RESOURCES_WAITING: {("node", str(word)) for word in EndsBy},
        names.INTENTS_PENDING: {()},
        names.INTENTS_OLDEST_PENDING: {()},
        names.NODES_BY_HEALTH: {(str(word),) for word in AgentHealth},
        names.NODES_BY_ALERT: {("other",)},
        names.NODES_BY_POWER: {(str(word),) for word in PowerState},
        names.NODES_SAME_MACHINE: {()},
        names.NODES_PAUSED: {()},
        names.RESOURCES_RESTORED: {(kind,) for kind in everywhere},
        names.BRAKES_HOLDING: {()},
        names.HEARTBEATS_STALE: {()},
        names.DOORS: {(kind, state) for kind in DoorKind for state in DoorState},
        names.DOORS_DEAD: {(lost,) for lost in LostPulse},
        names.AGENT_REACHED: {()},
        names.OBSERVATIONS_STALE: {(str(word),) for word in ObservationSource},
        names.CONDITION_NOTES_DROPPED: set(),
        names.MONITOR_CONDITIONS: set(),
        names.MONITOR_REFUSED: set(),
        names.MAAS_STATUS_UNKNOWN: {()},
        names.NODE_CONDITIONS: {(name,) for name in NAMES},
        names.POWER_SYNC_FAILING: {(str(word),) for word in BmcFailure},
    }
    assert set(told) == {(gauge.name, labels) for gauge, every in expected.items() for labels in every}
    assert set(told.values()) == {0}
    others = {
        names.SHARDS_UNOWNED,
        names.STATE_SLA,
        names.COLLECTED,
        names.BUILD_INFO,
        names.BMC_TLS_INSECURE,
        names.BMC_TLS_CIPHERS,
    }
    assert set(expected) | others == {value for value in vars(names).values() if isinstance(value, Gauge)}


async def test_a_fleet_in_every_state_has_only_series_that_an_empty_one_has(
    conn: Connection, replicas: tuple[FleetGauges, ...]
) -> None:
    empty = set(await scraped(replicas[0]))
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management, status_entered_at, management_entered_at)
        SELECT s || '-' || m, s, m, farrier.now() - interval '100 h', farrier.now() - interval '100 h'
          FROM unnest($1::text[]) s, unnest($2::text[]) m
        """,
        list(map(str, layers.STATES[Layer.STATUS])),
        list(map(str, layers.STATES[Layer.MANAGEMENT])),
    )
    for kind, stages in (("onboarding", OnboardingStage), ("decommission", DecommissionStage)):
        await conn.execute(
            f"""
            INSERT INTO farrier.node_{kind}s (node_id, mode, status, stage, mode_given_at, failure_class)
            SELECT 1000000 + row_number() OVER (), 'x', s, t, farrier.now() - interval '100 h', 'timeout'
              FROM unnest($1::text[]) s, unnest($2::text[]) t
            """,
            list(map(str, layers.STATES[Layer.ONBOARDING])),
            list(map(str, stages)),
        )
    full = await scraped(replicas[0])
    assert {key for key in full if key[0] != NAMED} == empty
    others = {place.kind for place in places_of(BUILT_IN)}  # have tests of their own
    resources = [v for (name, labels), v in full.items() if name == "farrier_resources" and labels[0] not in others]
    assert min(resources) > 0
    assert len(PLACES) + len(tuple(places_of(BUILT_IN))) == len(set(places())) + 2


def test_naming_resources_can_be_switched_off() -> None:
    on = settings.Config()
    off = settings.Config(metrics=settings.MetricsConfig(name_resources=False))
    assert [census_rules(config).name_at_most for config in (on, off)] == [100, 0]
