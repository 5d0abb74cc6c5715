"""Measures values that must stay bounded: the memory of a daemon with the whole fleet, and the cost of a wake while
another session keeps an old snapshot open."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median

import anyio

from bench import daemon, fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import PATIENCE, Work, running
from farrier.handlers.node.kind import NODE_KIND
from farrier.io.calls.controllers import PostgresControllers

_WAKES = 200_000
_AT_ONCE = 1_000
# A single poll or load varies too much on a busy machine.
_LOOKS = 200
_LOADED = 10
_LOOK_SECONDS = 0.02

_LOOK = "SELECT count(*) FROM farrier.nodes"
_WAKE = "INSERT INTO farrier.wakes (kind, resource) SELECT 'node', unnest($1::bigint[])"
_WOKEN = "SELECT EXISTS (SELECT FROM farrier.wakes)"


async def _cost_of_a_wake(ground: Ground, work: Work, ids: Sequence[int]) -> float:
    """Return the seconds of a poll and of a load of some nodes."""
    controllers, some = PostgresControllers(ground.pool), ids[:_LOADED]
    floor = (await controllers.poll([NODE_KIND.name], "0")).floor
    took = []
    for _ in range(_LOOKS):
        began = time.perf_counter()
        floor = (await controllers.poll([NODE_KIND.name], floor)).floor
        await work.loop.io.load(some)
        took.append(time.perf_counter() - began)
    return median(took)


async def _wake_all(ground: Ground, ids: Sequence[int]) -> None:
    """Insert wakes in batches, and wait until the controller has deleted each batch."""
    for number in range(_WAKES // _AT_ONCE):
        first = number * _AT_ONCE % len(ids)
        await ground.pool.execute(_WAKE, ids[first : first + _AT_ONCE])
        with anyio.fail_after(PATIENCE.total_seconds()):
            while await ground.pool.fetchval(_WOKEN):  # noqa: ASYNC110 - the database is asked
                await anyio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def _under_a_snapshot(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    ids = await fleet.ids(ground)

    async def measure() -> Readings:
        await fleet.settle(ground)
        async with (
            running(ground) as work,
            ground.pool.acquire() as conn,
            conn.transaction(isolation="repeatable_read"),
        ):
            await conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await work.until_at_rest(ids)
            await conn.fetchval(_LOOK)
            first = await _cost_of_a_wake(ground, work, ids)
            await _wake_all(ground, ids)
            last = await _cost_of_a_wake(ground, work, ids)
        return {"wake": Reading(last / first), "first": Reading(first * 1000), "last": Reading(last * 1000)}

    yield measure


@asynccontextmanager
async def _memory(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        async with daemon.running(ground.dsn) as process:
            await process.until_runs(nodes)
            return {"rss": Reading(process.memory("VmRSS")), "peak": Reading(process.memory("VmHWM"))}

    yield measure


RSS = Benchmark(
    name="rss",
    what="memory of a daemon that has the snapshots of the whole fleet: resident memory at the end, and its maximum",
    nodes=100_000,
    goals=(Goal("rss", "MB", Bound.AT_MOST, 350), Goal("peak", "MB")),
    open=_memory,
)
OLD_SNAPSHOT = Benchmark(
    name="old_snapshot",
    what="another transaction stays open during 200,000 wakes: the cost of a poll and a load at "
    "the end, divided by their cost at the beginning",
    nodes=20_000,
    goals=(Goal("wake", "×", Bound.AT_MOST, 1.1), Goal("first", "ms"), Goal("last", "ms")),
    open=_under_a_snapshot,
)
