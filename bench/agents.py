"""Measures a server for agents: heartbeats over TLS, in batches and in one call each, and enrolments after a power cut.

The server is a separate `farrier serve --agents`. The clients in this process are agents, which share kept connections.
The CPU time of the server and of PostgreSQL counts; that of the clients does not.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count, cycle
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit
from uuid import UUID

import anyio
import msgspec

from bench import daemon, door, fleet, postgres, reaction
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.model import bootstrap
from farrier.sim.certificates import Authority

_CONNECTIONS = 100
# Each agent has sent a heartbeat before, so that most heartbeats report nothing new, as in production.
_SECONDS = 6.0
_PACED_SECONDS = 15.0
_INTERVAL = 30.0
# The machines of a site need this time to boot, each a little longer or shorter.
_BOOTS_OVER = 50.0
_ENROLMENTS_AT_ONCE = 64
_IDLE_INTENTS = 400
_PAUSE = 0.05
_PATIENCE = 300.0
_REGISTER = "SELECT farrier.register_node('late-' || substr(t, 5, 16), bootstrap_token => t) FROM unnest($1::text[]) t"
_NAMES = "SELECT name FROM farrier.nodes WHERE status = 'active' ORDER BY id LIMIT $1"
_ARRIVED = "SELECT count(*) FROM farrier.nodes WHERE name LIKE 'late-%' AND status = 'active'"


class _Server(msgspec.Struct, frozen=True):
    """A running server, and the TLS of its clients."""

    process: daemon.Running
    host: str
    port: int
    tls: ssl.SSLContext


class _Connection:
    """A kept connection of agents."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, request: bytes) -> int:
        """Send a request, and return the status of the response."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(head[9:12])

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def _connected(server: _Server) -> AsyncIterator[_Connection]:
    reader, writer = await asyncio.open_connection(
        server.host, server.port, ssl=server.tls, server_hostname="localhost"
    )
    connection = _Connection(reader, writer)
    try:
        yield connection
    finally:
        connection.close()


@asynccontextmanager
async def _serving(ground: Ground, program: Sequence[str] = ("farrier",)) -> AsyncIterator[_Server]:
    with tempfile.TemporaryDirectory(prefix="farrier-agents-") as directory:
        authority = Authority("bench", now=datetime.now(UTC))
        files = authority.issue(Path(directory), hosts=("localhost", "127.0.0.1"))
        tls = ssl.create_default_context(cafile=authority.write(Path(directory) / "ca.pem"))
        settings = {
            "FARRIER_AGENTS_TLS_CERT": str(files.certificate),
            "FARRIER_AGENTS_TLS_KEY": str(files.key),
        }
        async with door.serving(ground, settings, program=program) as process:
            at = urlsplit(process.url)
            assert at.hostname is not None and at.port is not None, "the URL has an address"
            yield _Server(process, at.hostname, at.port, tls)


def _request(path: str, body: Mapping[str, object], key: str | None = None) -> bytes:
    content = json.dumps(body).encode()
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST /agent/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _beat(name: str) -> bytes:
    """A heartbeat of a node of the generated fleet, whose key is its name."""
    body = {"boot_id": str(UUID(int=1)), "uptime": 86400.5, "version": "0.1.0", "ok": True, "conditions": []}
    return _request("heartbeat", body, name)


async def _busy(ground: Ground, server: _Server) -> Callable[[], float]:
    """Return a function that returns the CPU time of the server and of PostgreSQL."""
    postmaster = await postgres.postmaster(ground)
    return lambda: server.process.cpu_seconds() + postgres.seconds(postmaster)


async def _saturated(server: _Server, beats: Iterator[bytes], *, until: Callable[[], bool]) -> int:
    """Send heartbeats as fast as the server answers, and return how many were answered."""
    answered = count()

    async def work(connection: _Connection) -> None:
        while not until():
            assert await connection.send(next(beats)) == 200, "each agent is known"
            next(answered)

    async with anyio.create_task_group() as tasks:
        for _ in range(_CONNECTIONS):
            tasks.start_soon(_with_connection, server, work)
    return next(answered)


async def _all_once(server: _Server, beats: Sequence[bytes]) -> None:
    """Send a heartbeat of each agent."""
    left = count(1)
    await _saturated(server, iter(beats), until=lambda: next(left) > len(beats))


async def _with_connection(server: _Server, work: Callable[[_Connection], object]) -> None:
    async with _connected(server) as connection:
        await work(connection)  # type: ignore[misc]


async def _per_core(ground: Ground, names: Sequence[str], program: Sequence[str]) -> float:
    """Return the heartbeats per second of CPU time."""
    beats = [_beat(name) for name in names]
    async with _serving(ground, program) as server:
        await _all_once(server, beats)
        busy = await _busy(ground, server)
        random.shuffle(beats)
        began, ends = busy(), time.perf_counter() + _SECONDS
        answered = await _saturated(server, cycle(beats), until=lambda: time.perf_counter() > ends)
        return answered / (busy() - began)


async def _cores(ground: Ground, names: Sequence[str]) -> float:
    """Return the cores that a fleet occupies which sends a heartbeat in each interval."""
    every = [_beat(name) for name in names]
    beats = cycle(every)
    pause = _INTERVAL / len(names) * _CONNECTIONS
    async with _serving(ground) as server:
        await _all_once(server, every)
        busy = await _busy(ground, server)
        ends = time.perf_counter() + _PACED_SECONDS

        async def work(connection: _Connection) -> None:
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
    async with daemon.running(ground.dsn) as loop, _serving(ground) as server, reaction.client(ground.dsn) as client:
        await loop.until_runs(await ground.pool.fetchval("SELECT count(*) FROM farrier.nodes"))
        idle = [await _asked(client, next(untouched)) for _ in range(_IDLE_INTENTS)]
        meanwhile: list[float] = []
        began = time.perf_counter()
        slots = anyio.Semaphore(_ENROLMENTS_AT_ONCE)

        async def enroll(token: str) -> None:
            await anyio.sleep(random.uniform(0, _BOOTS_OVER))
            body = {"token": token, "key_digest": sha256(token.encode()).hexdigest(), "boot_id": str(UUID(int=1))}
            async with slots, _connected(server) as connection:
                assert await connection.send(_request("enroll", body)) == 200, "each token is valid"
                assert await connection.send(_beat(token)) == 200, "each key is known"

        async def ask() -> None:
            while True:
                meanwhile.append(await _asked(client, next(untouched)))

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            async with anyio.create_task_group() as tasks:
                for token in tokens:
                    tasks.start_soon(enroll, token)
            took = time.perf_counter() - began
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
