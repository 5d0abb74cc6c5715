"""What must not grow: the daemon's memory with the fleet, and a claim's cost with the age of a snapshot elsewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from statistics import median
from uuid import uuid4

import anyio
import msgspec
from typing_extensions import override

from bench import daemon, fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import CONTROLLER, PATIENCE, running
from farrier.io.node import NodeRows
from farrier.io.state import PostgresStateIO
from farrier.model.node import Node
from farrier.model.runs import Claim, Lane
from farrier.model.writes import Write

_RUNS_UNDER_SNAPSHOT = 200_000
# So few nodes that each is run many times while the snapshot is open: none of its old rows can be removed.
_BRISK = msgspec.structs.replace(CONTROLLER, period=timedelta(seconds=1))
# One claim says little on a busy machine: the first and the last are the medians of so many.
_CLAIMS = 20

_LOOK_SECONDS = 0.2

_SWEPT = "SELECT NOT EXISTS (SELECT FROM farrier.schedule WHERE due_at < $1)"
_LOOK = "SELECT count(*) FROM farrier.schedule"


class _TimedIO(PostgresStateIO[Node, Node, Write]):
    """Storage of nodes that keeps how long each claim of the sweep took."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground.pool, NodeRows(), owner=uuid4(), lease=CONTROLLER.lease)
        self.seconds: list[float] = []

    @override
    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        began = time.perf_counter()
        claim = await super().claim(lane, limit, floor)
        if len(claim.rows) == limit and lane is Lane.PERIODIC:
            self.seconds.append(time.perf_counter() - began)
        return claim


@asynccontextmanager
async def _under_a_snapshot(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        await fleet.make_all_due(ground)
        io = _TimedIO(ground)
        async with ground.pool.acquire() as conn, conn.transaction(isolation="repeatable_read"):
            await conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await conn.fetchval(_LOOK)
            async with running(ground, io=io, config=_BRISK) as tally:
                await tally.until(runs=_RUNS_UNDER_SNAPSHOT)
        return {"claim": Reading(median(io.seconds[-_CLAIMS:]) / median(io.seconds[:_CLAIMS]))}

    yield measure


@asynccontextmanager
async def _memory(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        await fleet.make_all_due(ground)
        began = await ground.pool.fetchval("SELECT farrier.now()")
        async with daemon.running(ground.dsn) as process:
            await _until_swept(ground, began)
            return {"rss": Reading(process.memory("VmRSS")), "peak": Reading(process.memory("VmHWM"))}

    yield measure


async def _until_swept(ground: Ground, began: datetime) -> None:
    """Return once every node was run since `began`. The daemon tells nobody, so the table is looked at."""
    with anyio.fail_after(PATIENCE.total_seconds()):
        while True:
            if await ground.pool.fetchval(_SWEPT, began):
                return
            await anyio.sleep(_LOOK_SECONDS)


RSS = Benchmark(
    name="rss",
    what="memory of the daemon after a sweep of the whole fleet: resident then, and the most it ever was",
    nodes=100_000,
    goals=(Goal("rss", "MB", Bound.AT_MOST, 300), Goal("peak", "MB", Bound.AT_MOST, 300)),
    open=_memory,
)
OLD_SNAPSHOT = Benchmark(
    name="old_snapshot",
    what="a transaction is held open through 200,000 runs: how many times the first claims the last ones cost",
    nodes=20_000,
    goals=(Goal("claim", "×", Bound.AT_MOST, 3.0),),
    open=_under_a_snapshot,
)
