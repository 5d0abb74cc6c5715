"""Measures how many transitions with their history farrier commits per second, and how long a thousand new nodes take
for their first four transitions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import fleet, yardstick
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import running

# The transitions are: an intent is accepted, the agent's enrollment is recorded, the onboarding begins, the onboarding
# ends and the node is in service.
_TRANSITIONS_OF_A_LIFE = 4


@asynccontextmanager
async def _there_and_back(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        took = 0.0
        async with running(ground) as work:
            await work.until_at_rest(await fleet.ids(ground))
            for number, befall in enumerate((fleet.silence, fleet.resound)):
                await befall(ground)
                await fleet.settle(ground)
                began = time.perf_counter()
                # As after a restart of the server, the controller loads all nodes, without wakes.
                work.loop.woken_all()
                await work.tally.until(transitions=(number + 1) * nodes)
                took += time.perf_counter() - began
        rate = 2 * nodes / took
        machine = yardstick.between(before, await yardstick.beside(ground.dsn))
        return {"of_yardstick": Reading(rate / machine.transitions_per_second), "transitions": Reading(rate)}

    yield measure


@asynccontextmanager
async def _lives(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        transitions = nodes * _TRANSITIONS_OF_A_LIFE
        present = await fleet.ids(ground)
        async with running(ground) as work:
            await work.until_at_rest(present)
            begun = work.tally.transitions
            await fleet.newborn(ground, nodes)
            began = time.perf_counter()
            await work.tally.until(transitions=begun + transitions)
            took = time.perf_counter() - began
        machine = yardstick.between(before, await yardstick.beside(ground.dsn))
        share = transitions / took / machine.transitions_per_second
        return {"of_yardstick": Reading(share), "life": Reading(took)}

    yield measure


TRANSITIONS = Benchmark(
    name="transitions",
    what="heartbeats stop and resume, so nodes go offline and return: transitions a second with "
    "their history, divided by the yardstick's transitions a second",
    nodes=20_000,
    goals=(Goal("of_yardstick", "×", Bound.AT_LEAST, 0.09), Goal("transitions", "/s")),
    open=_there_and_back,
)
LIFE = Benchmark(
    name="life",
    what="each new node makes 4 transitions, each in a separate commit: transitions a second, "
    "divided by the yardstick's transitions a second",
    nodes=1_000,
    goals=(Goal("of_yardstick", "×", Bound.AT_LEAST, 0.06), Goal("life", "s")),
    open=_lives,
)
