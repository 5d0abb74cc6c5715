"""Measures a server for agents: heartbeats over TLS, in batches and in one call each, and enrolments after a power cut.

The server is a separate `farrier serve --agents`. The clients in this process are agents, which share kept connections;
the machines that enrol are a process of their own (`machines`), so that the client of the loop waits only for the loop.
The CPU time of the server and of PostgreSQL counts; that of the clients does not.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, cycle

import anyio

from bench import fleet, postgres
from bench.agent_calls import Connection, beat, connected
from bench.door import OverTls, over_tls
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.power_cut import power_cut

_CONNECTIONS = 200
# Each agent has sent a heartbeat before, so that most heartbeats report nothing new, as in production.
_SECONDS = 6.0
_PACED_SECONDS = 15.0
_INTERVAL = 30.0
_NAMES = "SELECT name FROM farrier.nodes WHERE status = 'active' ORDER BY id LIMIT $1"


async def _busy(ground: Ground, server: OverTls) -> Callable[[], float]:
    """Return a function that returns the CPU time of the server and of PostgreSQL."""
    postmaster = await postgres.postmaster(ground)
    return lambda: server.process.cpu_seconds() + postgres.seconds(postmaster)


async def _saturated(server: OverTls, beats: Iterator[bytes], *, until: Callable[[], bool]) -> int:
    """Send heartbeats as fast as the server answers, and return how many were answered."""
    answered = count()

    async def work(connection: Connection) -> None:
        while not until():
            assert await connection.send(next(beats)) == 200, "each agent is known"
            next(answered)

    async with anyio.create_task_group() as tasks:
        for _ in range(_CONNECTIONS):
            tasks.start_soon(_with_connection, server, work)
    return next(answered)


async def _all_once(server: OverTls, beats: Sequence[bytes]) -> None:
    """Send a heartbeat of each agent."""
    left = count(1)
    await _saturated(server, iter(beats), until=lambda: next(left) > len(beats))


async def _with_connection(server: OverTls, work: Callable[[Connection], object]) -> None:
    async with connected(server.at) as connection:
        await work(connection)  # type: ignore[misc]


async def _per_core(ground: Ground, names: Sequence[str], program: Sequence[str]) -> float:
    """Return the heartbeats per second of CPU time."""
    beats = [beat(name) for name in names]
    async with over_tls(ground, program) as server:
        await _all_once(server, beats)
        busy = await _busy(ground, server)
        random.shuffle(beats)
        began, ends = busy(), time.perf_counter() + _SECONDS
        answered = await _saturated(server, cycle(beats), until=lambda: time.perf_counter() > ends)
        return answered / (busy() - began)


async def _cores(ground: Ground, names: Sequence[str]) -> float:
    """Return the cores that a fleet occupies which sends a heartbeat in each interval."""
    every = [beat(name) for name in names]
    beats = cycle(every)
    pause = _INTERVAL / len(names) * _CONNECTIONS
    async with over_tls(ground) as server:
        await _all_once(server, every)
        busy = await _busy(ground, server)
        ends = time.perf_counter() + _PACED_SECONDS

        async def work(connection: Connection) -> None:
            await anyio.sleep(random.uniform(0, pause))
            while time.perf_counter() < ends:
                due = time.perf_counter() + pause
                assert await connection.send(next(beats)) == 200, "each agent is known"
                await anyio.sleep(max(0.0, due - time.perf_counter()))

        async with anyio.create_task_group() as tasks:
            for _ in range(_CONNECTIONS):
                tasks.start_soon(_with_connection, server, work)
            await anyio.sleep(1)
            began, at = busy(), time.perf_counter()
            await anyio.sleep(_PACED_SECONDS - 2)
            return (busy() - began) / (time.perf_counter() - at)
    raise AssertionError


@asynccontextmanager
async def _agents(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    names = [record[0] for record in await ground.pool.fetch(_NAMES, nodes)]

    async def measure() -> Readings:
        each = await _per_core(ground, names, ("bench.unbatched",))
        batched = await _per_core(ground, names, ("farrier",))
        cores = await _cores(ground, names)
        return {
            "times_each": Reading(batched / each),
            "per_core": Reading(batched),
            "per_core_each": Reading(each),
            "cores": Reading(cores),
            **await power_cut(ground, nodes),
        }

    yield measure


AGENTS = Benchmark(
    name="agents",
    what="heartbeats that a server for agents takes over TLS per second of CPU time (server and PostgreSQL), in "
    "batches and in one call each; the cores of a fleet that sends one every 30 s; and the enrolment of a whole fleet "
    "after a power cut, with the p99 of the loop's reaction meanwhile, divided by that of an idle loop",
    nodes=10_000,
    goals=(
        Goal("times_each", "×", Bound.AT_LEAST, 3),
        Goal("per_core", "/s"),
        Goal("per_core_each", "/s"),
        Goal("cores", "cores", Bound.AT_MOST, 0.15),
        Goal("enroll", "s", Bound.AT_MOST, 60),
        Goal("active", "s"),
        Goal("reaction", "×", Bound.AT_MOST, 2),
        Goal("reaction_floor", "×"),
        Goal("reaction_idle", "ms"),
        Goal("reaction_during", "ms"),
        Goal("enroll_cores", "cores"),
    ),
    open=_agents,
)
