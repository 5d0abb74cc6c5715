"""How many handler runs a second one process makes over a fleet at rest, and how that holds up as the fleet grows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import fleet, floor
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import running

_SMALL = 10_000


async def _sweep(ground: Ground, nodes: int) -> tuple[float, float]:
    """One run of every node by the loop and then by the floor: runs a second, and their share of the floor's."""
    await fleet.make_all_due(ground)
    async with running(ground) as tally:
        began = time.perf_counter()
        await tally.until(runs=nodes)
        took = time.perf_counter() - began
    await fleet.make_all_due(ground)
    rate = nodes / took
    return rate, rate / await floor.runs_a_second(ground, nodes)


@asynccontextmanager
async def _sweep_of(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        return {"runs": Reading(*await _sweep(ground, nodes))}

    yield measure


@asynccontextmanager
async def _as_it_grows(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        await fleet.fill(ground, _SMALL)
        _, small = await _sweep(ground, _SMALL)
        await fleet.fill(ground, nodes)
        _, large = await _sweep(ground, nodes)
        await fleet.clear(ground)
        return {"share": Reading(large / small, large)}

    yield measure


SWEEP = Benchmark(
    name="sweep",
    what="every node at rest and due: handler runs a second through the full loop, one process",
    nodes=100_000,
    goals=(Goal("runs", "/s", Bound.AT_LEAST, 20_000),),
    open=_sweep_of,
)
SCALE = Benchmark(
    name="scale",
    what="the sweep's share of the raw-SQL floor in a large fleet, against its share at 10,000 nodes",
    nodes=1_000_000,
    goals=(Goal("share", "×", Bound.AT_LEAST, 0.8),),
    open=_as_it_grows,
)
