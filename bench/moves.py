"""Measures how many transitions with their history farrier commits per second, and how long a thousand new nodes take
for their first four transitions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from bench import fleet, floors, postgres, yardstick
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import Work, running

# The transitions are: an intent is accepted, the agent's enrollment is recorded, the onboarding begins, the onboarding
# ends and the node is in service.
_TRANSITIONS_OF_A_LIFE = 4


class _Spent(msgspec.Struct):
    """The time that transitions took: on the clock, and of the processors of this process, which runs the loop, and of
    PostgreSQL."""

    clock: float = 0.0
    daemon: float = 0.0
    server: float = 0.0

    async def on(self, work: Work, postmaster: int, *, transitions: int) -> None:
        """Add the time until this many transitions have ended since the start of the loop."""
        clock, daemon, server = time.perf_counter(), time.process_time(), postgres.seconds(postmaster)
        await work.tally.until(transitions=transitions)
        self.clock += time.perf_counter() - clock
        self.daemon += time.process_time() - daemon
        self.server += postgres.seconds(postmaster) - server

    def each(self, transitions: int, floor: float) -> Readings:
        """Return the microseconds of processor time for each transition. `floor` is the least that PostgreSQL takes."""
        server = self.server / transitions * 1e6
        return {
            "cpu_us": Reading(self.daemon / transitions * 1e6),
            "pg_cpu_us": Reading(server, floor / server),
            "pg_floor_us": Reading(floor),
        }


@asynccontextmanager
async def _there_and_back(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        postmaster, spent = await postgres.postmaster(ground), _Spent()
        async with running(ground) as work:
            await work.until_at_rest(await fleet.ids(ground))
            for number, befall in enumerate((fleet.silence, fleet.resound)):
                await befall(ground)
                await fleet.settle(ground)
                # As after a restart of the server, the controller loads all nodes, without wakes.
                work.loop.woken_all()
                await spent.on(work, postmaster, transitions=(number + 1) * nodes)
        floor = await floors.of_moves(ground, postmaster)
        rate = 2 * nodes / spent.clock
        machine = yardstick.between(before, await yardstick.beside(ground.dsn))
        return {
            "of_yardstick": Reading(rate / machine.transitions_per_second),
            "transitions": Reading(rate),
            **spent.each(2 * nodes, floor),
        }

    yield measure


@asynccontextmanager
async def _lives(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        postmaster, spent = await postgres.postmaster(ground), _Spent()
        transitions = nodes * _TRANSITIONS_OF_A_LIFE
        present = await fleet.ids(ground)
        async with running(ground) as work:
            await work.until_at_rest(present)
            begun = work.tally.transitions
            await fleet.newborn(ground, nodes)
            await spent.on(work, postmaster, transitions=begun + transitions)
        floor = await floors.of_lives(ground, postmaster, nodes)
        machine = yardstick.between(before, await yardstick.beside(ground.dsn))
        share = transitions / spent.clock / machine.transitions_per_second
        return {"of_yardstick": Reading(share), "life": Reading(spent.clock), **spent.each(transitions, floor)}

    yield measure


_CPU = (Goal("cpu_us", "µs"), Goal("pg_cpu_us", "µs"), Goal("pg_floor_us", "µs"))

TRANSITIONS = Benchmark(
    name="transitions",
    what="heartbeats stop and resume, so nodes go offline and return: transitions a second with "
    "their history, divided by the yardstick's transitions a second",
    nodes=20_000,
    goals=(
        Goal("of_yardstick", "×", Bound.AT_LEAST, 0.055),
        Goal("transitions", "/s"),
        *_CPU,
    ),
    open=_there_and_back,
)
LIFE = Benchmark(
    name="life",
    what="each new node makes 4 transitions, each in a separate commit: transitions a second, "
    "divided by the yardstick's transitions a second",
    nodes=1_000,
    goals=(Goal("of_yardstick", "×", Bound.AT_LEAST, 0.04), Goal("life", "s"), *_CPU),
    open=_lives,
)
