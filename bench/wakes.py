"""Measures the wakes per second that a primary commits with a synchronous standby, and without a standby.

A NOTIFY serializes commits, and each commit waits for the confirmation of the standby. The benchmark runs two servers
on one machine, in new directories that are removed afterwards. Between two machines, each commit would also take a
round trip on the network.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from bench import fleet
from bench.figures import Benchmark, Goal, Measure, Reading, Readings
from bench.ground import PATIENCE, Ground, ground
from farrier.io.connections import pool, system_account
from farrier.io.connections.embedded import SUPERUSER, EmbeddedServer, wheel_binaries

# More clients than can commit at the same time. With fewer clients, the benchmark would measure their round trips.
_CLIENTS = 16
_SECONDS = 2.0
_LOOK_SECONDS = 0.05

_ENQUEUE = "SELECT farrier.enqueue('node', $1)"
_STATE = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"


@contextmanager
def standby_of(
    primary: EmbeddedServer, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[EmbeddedServer]:
    """Create and run a streaming copy of the primary in this new directory. The copy is stopped after the block, and
    the directory stays."""
    owner = system_account.for_server(primary.directory / "data")
    directory.mkdir(mode=0o700)
    owner.take(directory)
    login = ("--host", str(primary.directory), "--username", SUPERUSER)
    copy = [wheel_binaries() / "pg_basebackup", *login, "--pgdata", directory / "data", "--write-recovery-conf"]
    subprocess.run([*map(str, copy), "--checkpoint=fast"], check=True, cwd=directory, **owner.identity())
    standby = EmbeddedServer(directory, settings=settings)
    standby.start()
    try:
        yield standby
    finally:
        standby.stop()


@contextmanager
def _primary() -> Iterator[EmbeddedServer]:
    directory = Path(tempfile.mkdtemp(prefix="farrier-bench-pair-"))
    server = EmbeddedServer(directory / "primary")
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


async def _rate(clients: Sequence[pool.Connection], ids: Sequence[int]) -> float:
    """Return the wakes per second of several clients. Each client enqueues one wake after another, each in a separate
    transaction."""
    left, committed, began = itertools.cycle(ids), 0, time.perf_counter()

    async def enqueue(client: pool.Connection) -> None:
        nonlocal committed
        while time.perf_counter() - began < _SECONDS:
            await client.execute(_ENQUEUE, next(left))
            committed += 1

    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(enqueue, client)
    return committed / (time.perf_counter() - began)


@asynccontextmanager
async def _waiting_for_standby(conn: pool.Connection) -> AsyncIterator[None]:
    """Let commits wait for the standby, but only within the block, because otherwise the drop of the schema would also
    wait."""
    await _apply(conn, "ALTER SYSTEM SET synchronous_standby_names = '*'", "sync")
    try:
        yield
    finally:
        await _apply(conn, "ALTER SYSTEM RESET synchronous_standby_names", "async")


async def _apply(conn: pool.Connection, setting: str, state: str) -> None:
    await conn.execute(setting)
    await conn.execute("SELECT pg_reload_conf()")
    with anyio.fail_after(PATIENCE.total_seconds()):
        while await conn.fetchval(_STATE) != state:  # noqa: ASYNC110 - the database is asked
            await anyio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def _wakes(_: Ground, nodes: int) -> AsyncIterator[Measure]:
    async with AsyncExitStack() as stack:
        primary = stack.enter_context(_primary())
        own = await stack.enter_async_context(ground(primary.dsn))
        await fleet.fill(own, nodes)
        ids = await fleet.ids(own)
        stack.enter_context(standby_of(primary, primary.directory.with_name("standby")))
        connections = [await pool.connect(own.dsn, patience=PATIENCE) for _ in range(_CLIENTS + 2)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        admin, listening, *clients = connections
        await listening.add_listener("farrier_wake", lambda *_: None)

        async def measure() -> Readings:
            alone = await _rate(clients, ids)
            async with _waiting_for_standby(admin):
                standby = await _rate(clients, ids)
                await admin.execute("ALTER TABLE farrier.wakes DISABLE TRIGGER USER")
                unnotified = await _rate(clients, ids)
                await admin.execute("ALTER TABLE farrier.wakes ENABLE TRIGGER USER")
            await admin.execute("TRUNCATE farrier.wakes")
            rates = {"alone": alone, "standby": standby, "unnotified": unnotified, "of_alone": standby / alone}
            return {name: Reading(rate) for name, rate in rates.items()}

        yield measure


WAKES = Benchmark(
    name="wakes",
    what=f"{_CLIENTS} clients call farrier.enqueue, each call a transaction: wakes a second on a "
    "primary alone, with a synchronous standby on the same machine, and with this standby "
    "but without notifications",
    nodes=1_000,
    goals=(Goal("alone", "/s"), Goal("standby", "/s"), Goal("unnotified", "/s"), Goal("of_alone", "×")),
    open=_wakes,
)
