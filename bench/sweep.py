"""Measures the handler runs per second of one process with a fleet at rest, as a share of the rate of the handler
alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from statistics import median

import anyio
import msgspec

from bench import fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import CONTROLLER, Work, running
from farrier.handlers.node.handler import NodeHandler
from farrier.model.node.snapshot import Node

# This is more than any process can run, so that some node is always due.
_RUNS_WANTED = 1_000_000
# The benchmark alternates between the loop and the handler, so that both run at the same speed of the machine.
_TURNS = 7
_TURN_SECONDS = 1.0
# This takes the handler alone half a second. A turn must end long before the controller has to renew its row.
_AT_A_TIME = 50_000


def hurried(nodes: int) -> timedelta:
    """Return a period too short to run a fleet of this size, so that nodes are always due."""
    return timedelta(seconds=nodes / _RUNS_WANTED)


async def _turn_of_loop(work: Work) -> float:
    began, before = time.perf_counter(), work.tally.runs
    await anyio.sleep(_TURN_SECONDS)
    return (work.tally.runs - before) / (time.perf_counter() - began)


def _turn_of_handler(handler: NodeHandler, snapshots: Sequence[Node]) -> float:
    """Return the runs of the handler per second. Nothing else runs in this process at the same time."""
    now, handle = datetime.now(UTC), handler.handle
    began = time.perf_counter()
    for snapshot in snapshots:
        handle(snapshot, now)
    return len(snapshots) / (time.perf_counter() - began)


@asynccontextmanager
async def _sweep(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    ids = await fleet.ids(ground)
    config = msgspec.structs.replace(CONTROLLER, period=hurried(nodes))
    async with running(ground, config=config) as work:
        await work.until_at_rest(ids)
        entries = [work.loop.agenda.entry(id_) for id_ in ids]
        snapshots = [entry.snapshot for entry in entries if entry is not None and entry.snapshot is not None]
        assert len(snapshots) == nodes, "every node at rest has its snapshot in memory"
        again = itertools.cycle(snapshots)

        async def measure() -> Readings:
            rates, shares = [], []
            for _ in range(_TURNS):
                before = _turn_of_handler(work.handler, list(itertools.islice(again, _AT_A_TIME)))
                rates.append(await _turn_of_loop(work))
                after = _turn_of_handler(work.handler, list(itertools.islice(again, _AT_A_TIME)))
                shares.append(rates[-1] / ((before + after) / 2))
            return {"of_handler": Reading(median(shares)), "runs": Reading(median(rates))}

        yield measure


SWEEP = Benchmark(
    name="sweep",
    what="nodes at rest are in memory, and a run of each is always due: runs a second of the loop, divided by direct "
    "calls of the handler a second over the same snapshots; the benchmark alternates between the two",
    nodes=100_000,
    goals=(Goal("of_handler", "×", Bound.AT_LEAST, 0.5), Goal("runs", "/s")),
    open=_sweep,
)
