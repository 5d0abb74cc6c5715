"""Measures several daemons on one database: the throughput that a second daemon adds, and how soon it runs the nodes of
a daemon that was killed or stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median

import anyio

from bench import daemon, fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.sweep import hurried

_TURNS = 3
_TURN_SECONDS = 4.0
_PATIENCE_SECONDS = 120
_LOOK_SECONDS = 0.02

_OWNERS = "SELECT count(*) AS shards FROM farrier.shards WHERE kind = 'node' AND owner IS NOT NULL GROUP BY owner"
_WAKE = "INSERT INTO farrier.wakes (kind, resource) SELECT 'node', id FROM farrier.nodes"
# This query is true when all shards belong to the remaining controller, and all enqueued resources were run.
_TAKEN_OVER = """
    SELECT count(DISTINCT owner) = 1 AND bool_and(owner IS NOT NULL) AND NOT EXISTS (SELECT FROM farrier.wakes)
           AND NOT bool_or(owner = $1)
      FROM farrier.shards WHERE kind = 'node'
"""
_FIRST = "SELECT id FROM farrier.controllers ORDER BY started_at LIMIT 1"


async def _until_shared(ground: Ground, owners: int) -> None:
    """Wait until this many daemons have the same number of shards."""
    with anyio.fail_after(_PATIENCE_SECONDS):
        while True:
            rows = await ground.pool.fetch(_OWNERS)
            shards = [row["shards"] for row in rows]
            if len(shards) == owners and min(shards) == max(shards) and sum(shards) == 64:
                return
            await anyio.sleep(_LOOK_SECONDS)


async def _until_taken_over(ground: Ground, former: object) -> None:
    with anyio.fail_after(_PATIENCE_SECONDS):
        while not await ground.pool.fetchval(_TAKEN_OVER, former):  # noqa: ASYNC110 - the database is asked
            await anyio.sleep(_LOOK_SECONDS)


async def _rate(processes: Sequence[daemon.Running]) -> float:
    """Return the runs per second of all daemons together."""
    before, began = [await process.node_runs() for process in processes], time.perf_counter()
    await anyio.sleep(_TURN_SECONDS)
    after = [await process.node_runs() for process in processes]
    return (sum(after) - sum(before)) / (time.perf_counter() - began)


@asynccontextmanager
async def _two(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    hurry = {"FARRIER_CONTROLLER_PERIOD": f"{hurried(nodes).total_seconds()}"}

    async def measure() -> Readings:
        shares = []
        async with daemon.running(ground.dsn, hurry) as first:
            await first.until_runs(2 * nodes)
            for _ in range(_TURNS):
                alone = await _rate([first])
                async with daemon.running(ground.dsn, hurry) as second:
                    await _until_shared(ground, 2)
                    await second.until_runs(2 * nodes)
                    both = await _rate([first, second])
                await _until_shared(ground, 1)
                await anyio.sleep(_TURN_SECONDS)  # the first daemon loads the shards of the second
                shares.append(both / ((alone + await _rate([first])) / 2))
        return {"of_one": Reading(median(shares))}

    yield measure


@asynccontextmanager
async def _takeovers(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def handed_over(how: signal.Signals) -> tuple[float, float]:
        """Return two durations in seconds: from the start of a second daemon until it owns its share of the shards, and
        from the signal to the first daemon until the second has run the nodes of the first."""
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(daemon.running(ground.dsn))
            await _until_shared(ground, 1)
            former = await ground.pool.fetchval(_FIRST)
            began = time.perf_counter()
            await stack.enter_async_context(daemon.running(ground.dsn))
            await _until_shared(ground, 2)
            joined = time.perf_counter() - began
            began = time.perf_counter()
            async with anyio.create_task_group() as group:
                group.start_soon(first.end, how)
                await ground.pool.execute(_WAKE)
                await _until_taken_over(ground, former)
            return joined, time.perf_counter() - began

    async def measure() -> Readings:
        joined, killed = await handed_over(signal.SIGKILL)
        joined_again, stopped = await handed_over(signal.SIGTERM)
        return {"kill": Reading(killed), "stop": Reading(stopped), "join": Reading(max(joined, joined_again))}

    yield measure


TWO = Benchmark(
    name="two",
    what="runs a second of two daemons over a fleet at rest in which each node is always due, "
    "divided by the runs a second of one daemon",
    nodes=100_000,
    goals=(Goal("of_one", "×", Bound.AT_LEAST, 1.7),),
    open=_two,
)
TAKEOVER = Benchmark(
    name="takeover",
    what="all nodes have a wake, and one of two daemons is killed or stopped: time until the "
    "other daemon owns all shards and has run all nodes; time from the start of a replica "
    "until it owns its share of the shards",
    nodes=2_000,
    goals=(
        Goal("kill", "s", Bound.AT_MOST, 13),
        Goal("stop", "s", Bound.AT_MOST, 1),
        Goal("join", "s", Bound.AT_MOST, 10),
    ),
    open=_takeovers,
)
