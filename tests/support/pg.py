"""A PostgreSQL server for the tests, and a separate database for each test.

Used by the fixtures in conftest.py. The server runs in Docker if an engine responds; otherwise it is the
embedded one. The schema is migrated once per server into a template; each test gets its own copy. In the
copy `farrier.now()` adds an offset that the test moves, so that no test has to sleep until a lease runs out.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import tempfile
from asyncio import wrap_future
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from farrier.config import NodeConfig
from farrier.io import catalog, migrate, pool
from farrier.io.embedded import EmbeddedServer
from tests.support import again

PostgresError = asyncpg.PostgresError

PATIENCE = timedelta(seconds=20)
TEMPLATE = "farrier_template"
# All nodes of a test may leave service at once; only tests of the brake use its default.
NO_BRAKE = NodeConfig(brake_share=1)

# Moves the database's clock, also for later statements of the same transaction.
ADVANCE = "UPDATE farrier_test.clock SET shift = shift + $1"
_FREEZE = "UPDATE farrier_test.clock SET frozen = statement_timestamp()"

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 4 << 30

# A crash of the machine may lose the tests' data; these settings do not change the semantics of transactions.
FAST = {"fsync": "off", "full_page_writes": "off", "max_connections": "300"}

MOVABLE_CLOCK = """
    CREATE SCHEMA farrier_test;
    CREATE TABLE farrier_test.clock (shift interval NOT NULL, frozen timestamptz);
    INSERT INTO farrier_test.clock VALUES ('0');
    GRANT USAGE ON SCHEMA farrier_test TO PUBLIC;
    GRANT SELECT ON farrier_test.clock TO PUBLIC;
    CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
        RETURN (SELECT coalesce(frozen, statement_timestamp()) + shift FROM farrier_test.clock);
    -- Recorded as unedited, so that the next migration leaves it as it is.
    UPDATE farrier.schema_objects SET definition = md5(pg_get_functiondef('farrier.now'::regproc)) WHERE name = 'now';
"""

_numbers = itertools.count(1)


class Database:
    """One test's database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        # Moving the clock is the most frequent statement of all tests. With a new connection each time, it would take
        # ten times as long.
        self._clock: pool.Single | None = None
        self._moving = anyio.Lock()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[pool.Single]:
        """A new connection, as a client program opens."""
        conn = await pool.connect(self.dsn, patience=PATIENCE)
        try:
            yield conn
        finally:
            await conn.close()

    @asynccontextmanager
    async def pool(self, size: int = 8) -> AsyncIterator[pool.Pool]:
        """A pool like the daemon's."""
        opened = await pool.open_pool(self.dsn, size=size, patience=PATIENCE)
        try:
            yield opened
        finally:
            opened.terminate()

    async def advance(self, by: timedelta) -> None:
        """Move the database's clock; every statement that starts from now on sees it."""
        await self._set_clock(ADVANCE, by)

    async def freeze(self) -> None:
        """Stop the database's clock, so that ages are exact on a slow machine, too; `advance` still moves it."""
        await self._set_clock(_FREEZE)

    async def _set_clock(self, statement: str, *arguments: object) -> None:
        async with self._moving:
            if self._clock is not None:
                try:
                    await self._clock.execute(statement, *arguments)
                    return
                except pool.CONNECTION_ERRORS:  # a test may end every session of its database
                    self._clock.terminate()
            self._clock = await pool.connect(self.dsn, patience=PATIENCE)
            await self._clock.execute(statement, *arguments)

    def leave(self) -> None:
        """Close the connection that moves the clock."""
        if self._clock is not None:
            self._clock.terminate()

    async def until_blocked(self, sessions: int = 1) -> None:
        """Return once this many sessions wait for a lock."""
        async with self.connect() as conn:
            with anyio.fail_after(PATIENCE.total_seconds()):
                while await conn.fetchval(BLOCKED) < sessions:
                    await again.later()

    async def now(self) -> datetime:
        """The database's time."""
        async with self.connect() as conn:
            moment: datetime = await conn.fetchval("SELECT farrier.now()")
            return moment


class Server:
    """A running server that makes and drops databases. It does so in a thread with a connection of its own, which
    outlives the event loops of tests: while a test runs, it makes the next database and drops the previous one.
    """

    def __init__(self, dsn_of: Callable[[str], str], portal: BlockingPortal) -> None:
        self.dsn_of = dsn_of
        self._portal = portal
        self._one_at_a_time = portal.call(anyio.Lock)
        self._connection: pool.Single | None = None
        self._has_template = False
        self._next: Future[str] | None = None
        self._drops: list[Future[None]] = []

    @asynccontextmanager
    async def database(self, template: str | None = TEMPLATE) -> AsyncIterator[Database]:
        """A fresh copy of the migrated template (`None`: an empty database), gone after the block."""
        if template is None:
            name = await wrap_future(self._portal.start_task_soon(self._make, "template0"))
        else:
            name = await wrap_future(self._next or self._portal.start_task_soon(self._make, template))
            self._next = self._portal.start_task_soon(self._make, template)
        made = Database(self.dsn_of(name))
        try:
            yield made
        finally:
            made.leave()
            self._drops.append(self._portal.start_task_soon(self._execute, f"DROP DATABASE {name} WITH (FORCE)"))

    def close(self) -> None:
        """Wait until the thread has finished its work."""
        for drop in self._drops:
            drop.result()
        if self._next is not None:
            self._next.exception()
        if self._connection is not None:
            self._portal.call(self._connection.close)

    async def _make(self, template: str) -> str:
        if template == TEMPLATE and not self._has_template:
            await self._make_template()
        name = f"test_{os.getpid()}_{next(_numbers)}"
        # With the data in memory a copy of files takes 15 ms, half of the time of a copy through the WAL.
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    async def _make_template(self) -> None:
        await self._execute(f"DROP DATABASE IF EXISTS {TEMPLATE}")
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        async with Database(self.dsn_of(TEMPLATE)).connect() as conn:
            await migrate.migrate(conn, after=catalog.sync)
            await catalog.set_settings(conn, NO_BRAKE)
            await conn.execute(MOVABLE_CLOCK)
        # The first session after a change of the schema writes a cache file of the catalogs; copies contain it, too.
        async with Database(self.dsn_of(TEMPLATE)).connect():
            pass
        self._has_template = True

    async def _execute(self, statement: str) -> None:
        async with self._one_at_a_time:
            if self._connection is None or self._connection.is_closed():  # a test may stop the server in between
                self._connection = await pool.connect(self.dsn_of("postgres"), patience=PATIENCE)
            await self._connection.execute(statement)


@contextmanager
def served(dsn_of: Callable[[str], str]) -> Iterator[Server]:
    """A running server whose databases are dropped when the block ends."""
    with start_blocking_portal("asyncio", {"use_uvloop": True}) as portal:
        server = Server(dsn_of, portal)
        try:
            yield server
        finally:
            server.close()


@asynccontextmanager
async def database_of(dsn_of: Callable[[str], str]) -> AsyncIterator[Database]:
    """A migrated database on a server that the test has started for itself."""
    with served(dsn_of) as server:
        async with server.database() as database:
            yield database


@contextmanager
def running() -> Iterator[Server]:
    """The server that most tests use."""
    with containerised() if docker_answers() else embedded() as server:
        yield server


@contextmanager
def embedded(binaries: Path | None = None) -> Iterator[Server]:
    """A server of PostgreSQL's own programs in a new directory, stopped and removed after the block."""
    directory = Path(tempfile.mkdtemp(prefix="farrier-test-pg-", dir=_scratch()))
    server = EmbeddedServer(directory, binaries=binaries, settings=FAST)
    try:
        server.start()
        with served(server.dsn_of) as databases:
            yield databases
    finally:
        server.stop()
        shutil.rmtree(directory)


def _scratch() -> Path | None:
    """A directory in memory if there is plenty, since each new database has three hundred files; else None."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return MEMORY if usable and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY_BYTES else None


@contextmanager
def containerised() -> Iterator[Server]:
    """A server in a container."""
    from testcontainers.community.postgres import PostgresContainer

    settings = [part for item in FAST.items() for part in ("-c", "=".join(item))]
    with (
        PostgresContainer("postgres:18", driver=None).with_command(["postgres", *settings]) as container,
        served(lambda name: container.get_connection_url().rpartition("/")[0] + "/" + name) as databases,
    ):
        yield databases


def docker_answers() -> bool:
    """Whether a container engine responds on its local socket."""
    scheme, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if scheme != "unix":
        return False
    with socket.socket(socket.AF_UNIX) as engine:
        engine.settimeout(5)
        try:
            engine.connect(path)
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in engine.recv(64)
        except OSError:
            return False
