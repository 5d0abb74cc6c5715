"""Measures a server for agents: heartbeats over TLS, in batches and in one call each, and enrolments after a power cut.

The server is a separate `farrier serve --agents`. The clients in this process are agents, which share kept connections;
the machines that enrol are a process of their own (`machines`), so that the client of the loop waits only for the loop.
The CPU time of the server and of PostgreSQL counts; that of the clients does not.
"""

from __future__ import annotations

import random
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count, cycle
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import anyio
import msgspec

from bench import daemon, door, fleet, postgres, reaction
from bench.agent_calls import Connection, Server, beat, connected
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.model import bootstrap
from farrier.sim.certificates import Authority

_CONNECTIONS = 200
# Each agent has sent a heartbeat before, so that most heartbeats report nothing new, as in production.
_SECONDS = 6.0
_PACED_SECONDS = 15.0
_INTERVAL = 30.0
# The machines of a site need this time to boot, each a little longer or shorter.
_BOOTS_OVER = 50.0
_IDLE_INTENTS = 400
_PAUSE = 0.05
_PATIENCE = 300.0
_REGISTER = "SELECT farrier.register_node('late-' || substr(t, 5, 16), bootstrap_token => t) FROM unnest($1::text[]) t"
_NAMES = "SELECT name FROM farrier.nodes WHERE status = 'active' ORDER BY id LIMIT $1"
_ARRIVED = "SELECT count(*) FROM farrier.nodes WHERE name LIKE 'late-%' AND status = 'active'"


class Serving(msgspec.Struct, frozen=True):
    """A running server, its address, and the file of the CA that its clients trust."""

    process: daemon.Running
    at: Server
    ca: Path


@asynccontextmanager
async def serving(ground: Ground, program: Sequence[str] = ("farrier",)) -> AsyncIterator[Serving]:
    with tempfile.TemporaryDirectory(prefix="farrier-agents-") as directory:
        authority = Authority("bench", now=datetime.now(UTC))
        files = authority.issue(Path(directory), hosts=("localhost", "127.0.0.1"))
        ca = authority.write(Path(directory) / "ca.pem")
        settings = {
            "FARRIER_AGENTS_TLS_CERT": str(files.certificate),
            "FARRIER_AGENTS_TLS_KEY": str(files.key),
        }
        async with door.serving(ground, settings, program=program) as process:
            at = urlsplit(process.url)
            assert at.hostname is not None and at.port is not None, "the URL has an address"
            server = Server(at.hostname, at.port, ssl.create_default_context(cafile=ca))
            yield Serving(process, server, ca)


async def _busy(ground: Ground, server: Serving) -> Callable[[], float]:
    """Return a function that returns the CPU time of the server and of PostgreSQL."""
    postmaster = await postgres.postmaster(ground)
    return lambda: server.process.cpu_seconds() + postgres.seconds(postmaster)


async def _saturated(server: Serving, beats: Iterator[bytes], *, until: Callable[[], bool]) -> int:
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


async def _all_once(server: Serving, beats: Sequence[bytes]) -> None:
    """Send a heartbeat of each agent."""
    left = count(1)
    await _saturated(server, iter(beats), until=lambda: next(left) > len(beats))


async def _with_connection(server: Serving, work: Callable[[Connection], object]) -> None:
    async with connected(server.at) as connection:
        await work(connection)  # type: ignore[misc]


async def _per_core(ground: Ground, names: Sequence[str], program: Sequence[str]) -> float:
    """Return the heartbeats per second of CPU time."""
    beats = [beat(name) for name in names]
    async with serving(ground, program) as server:
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
    async with serving(ground) as server:
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


async def _power_cut(ground: Ground, nodes: int) -> Mapping[str, Reading]:
    """Let all machines of a fleet enroll, while a client measures the reaction of the loop."""
    tokens = [bootstrap.token(token_hex(32)) for _ in range(nodes)]
    await ground.pool.execute(_REGISTER, tokens, timeout=600)
    before_it = await ground.pool.fetchval(_ARRIVED)
    untouched = iter(await fleet.ids(ground))
    async with daemon.running(ground.dsn) as loop, serving(ground) as server, reaction.client(ground.dsn) as client:
        await loop.until_runs(await ground.pool.fetchval("SELECT count(*) FROM farrier.nodes"))
        idle = [await _asked(client, next(untouched)) for _ in range(_IDLE_INTENTS)]
        meanwhile: list[float] = []

        async def ask() -> None:
            while True:
                meanwhile.append(await _asked(client, next(untouched)))

        began = time.perf_counter()
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            took = await _enrolled(server, tokens)
            asking.cancel_scope.cancel()
        while (arrived := await ground.pool.fetchval(_ARRIVED) - before_it) < nodes:
            assert time.perf_counter() - began < _PATIENCE, f"{arrived} of {nodes} nodes are in service"
            await anyio.sleep(_PAUSE)
        active = time.perf_counter() - began
    before, during = reaction.percentiles(idle)["p99"], reaction.percentiles(meanwhile)["p99"]
    return {
        "enroll": Reading(took),
        "active": Reading(active),
        "reaction": Reading(during / before),
        "reaction_idle": Reading(before),
        "reaction_during": Reading(during),
    }


async def _enrolled(server: Serving, tokens: Sequence[str]) -> float:
    """Let a machine enrol with each token. Returns the seconds until the last one has."""
    command = [sys.executable, "-m", "bench.machines", server.at.host, str(server.at.port), str(server.ca)]
    done = await anyio.run_process([*command, str(_BOOTS_OVER)], input="\n".join(tokens).encode(), stderr=None)
    return float(done.stdout)


async def _asked(client: reaction.Client, node: int) -> float:
    await anyio.sleep(_PAUSE)
    return await client.ask(node)


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
            **await _power_cut(ground, nodes),
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
        Goal("reaction_idle", "ms"),
        Goal("reaction_during", "ms"),
    ),
    open=_agents,
)
