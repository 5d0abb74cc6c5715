"""How fast nodes move: transitions with their history a second, and the first four transitions of a thousand nodes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import fleet, floor
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import running

# A request accepted, the agent's enrolment taken up, the onboarding begun, the onboarding completed and in service.
_TRANSITIONS_OF_A_LIFE = 4


async def _seconds_for(ground: Ground, transitions: int) -> float:
    """How long the loop takes for so many transitions."""
    async with running(ground) as tally:
        began = time.perf_counter()
        await tally.until(transitions=transitions)
        return time.perf_counter() - began


@asynccontextmanager
async def _there_and_back(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        took = 0.0
        for befall in (fleet.silence, fleet.resound):
            await befall(ground)
            await fleet.make_all_due(ground)
            took += await _seconds_for(ground, nodes)
        await fleet.make_all_due(ground)
        rate = 2 * nodes / took
        return {"transitions": Reading(rate, rate / await floor.runs_a_second(ground, nodes))}

    yield measure


@asynccontextmanager
async def _lives(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        await fleet.newborn(ground, nodes)
        transitions = nodes * _TRANSITIONS_OF_A_LIFE
        took = await _seconds_for(ground, transitions)
        await fleet.make_all_due(ground)
        return {"life": Reading(took, transitions / took / await floor.runs_a_second(ground, nodes))}

    yield measure


TRANSITIONS = Benchmark(
    name="transitions",
    what="nodes go offline and come back, by their agents' heartbeats: transitions committed with history a second",
    nodes=20_000,
    goals=(Goal("transitions", "/s", Bound.AT_LEAST, 8_000),),
    open=_there_and_back,
)
LIFE = Benchmark(
    name="life",
    what="new nodes through 4 transitions each, every one committed and retryable on its own",
    nodes=1_000,
    goals=(Goal("life", "s", Bound.AT_MOST, 1.0),),
    open=_lives,
)
