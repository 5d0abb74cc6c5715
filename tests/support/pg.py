"""A PostgreSQL server for the tests, and a database for each test.

Used by the fixtures in conftest.py. The server runs in Docker if an engine responds; otherwise it is the
embedded one. The schema is migrated once per server into a template. A test gets a copy of the template, or the
database of an earlier test that was returned to the state of the template (reset.sql). In the database
`farrier.now()` adds an offset that the test moves, so that no test has to sleep until a lease runs out.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import tempfile
from asyncio import wrap_future
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import anyio
import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import override

from farrier.config import NodeConfig
from farrier.errors import DatabaseUnreachable
from farrier.io.connections import pool
from farrier.io.connections.embedded import EmbeddedServer
from farrier.io.schema import catalog, migrate
from tests.support import again

PostgresError = asyncpg.PostgresError
Single: TypeAlias = pool.Single
Install: TypeAlias = Callable[[pool.Connection], Awaitable[None]]

PATIENCE = timedelta(seconds=20)
TEMPLATE = "farrier_template"
EMPTY = "template0"
# All nodes of a test may leave service at once; only tests of the brake use its default.
NO_BRAKE = NodeConfig(brake_share=1)

# Moves the database's clock, also for later statements of the same transaction. Pulses go on while time passes, as
# those of daemons do.
ADVANCE = """
    WITH moved AS (
        UPDATE farrier_test.clock SET shift = shift + $1
        RETURNING coalesce(frozen, statement_timestamp()) + shift AS now)
    UPDATE farrier.pulse p SET at = greatest(p.at, m.now) FROM moved m WHERE $1 > interval '0'
"""
_OF_CONTROLLERS = f"{ADVANCE} AND p.name = 'controllers'"
_WITHOUT_PULSES = "UPDATE farrier_test.clock SET shift = shift + $1"
_FREEZE = "UPDATE farrier_test.clock SET frozen = statement_timestamp()"

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 4 << 30

# A crash of the machine may lose the tests' data; these settings do not change the semantics of transactions.
FAST = {"fsync": "off", "full_page_writes": "off", "max_connections": "300", "autovacuum": "off"}

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

_RESTORABLE = Path(__file__).with_name("reset.sql").read_text()
# Resets what the driver's reset leaves unchanged, and reports the session's statistics at once.
_FORGET = "RESET SESSION AUTHORIZATION; RESET ROLE; SELECT pg_stat_force_next_flush()"

_numbers = itertools.count(1)


class Database:
    """A database of a test."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        # Moving the clock is the most frequent statement of all tests. With a new connection each time, it would take
        # ten times as long.
        self._clock: Single | None = None
        self._moving = anyio.Lock()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Single]:
        """A connection whose session has the state of a new one."""
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

    async def prepare(self, install: Install) -> None:
        """Run `install`, for tests that need more than the schema of farrier."""
        async with self.connect() as conn:
            await install(conn)

    async def advance(self, by: timedelta, *, pulses: bool = True, doors: bool = True) -> None:
        """Move the database's clock; every statement that starts from now on sees it. Without `pulses`, the time passes
        as in an outage of the database or of all daemons; without `doors`, as if no door reached an agent, apart from
        the pulses and heartbeats that the database has."""
        await self._set_clock((ADVANCE if doors else _OF_CONTROLLERS) if pulses else _WITHOUT_PULSES, by)

    async def freeze(self) -> None:
        """Stop the database's clock, so that ages are exact on a slow machine, too; `advance` still moves it."""
        await self._set_clock(_FREEZE)

    async def _set_clock(self, statement: str, *arguments: object) -> None:
        async with self._moving:
            try:
                await (await self._session()).execute(statement, *arguments)
            except pool.CONNECTION_ERRORS:  # a test may end every session of its database
                self.leave()
                await (await self._session()).execute(statement, *arguments)

    async def _session(self) -> Single:
        if self._clock is None or self._clock.is_closed():
            self._clock = await pool.connect(self.dsn, patience=PATIENCE)
        return self._clock

    def leave(self) -> None:
        """Close all connections that are not in use, so that the next ones begin new sessions."""
        if self._clock is not None:
            self._clock.terminate()
            self._clock = None

    async def set_default(self, setting: str, value: str) -> None:
        """Change the default of a setting for later sessions."""
        async with self.connect() as conn:
            name = await conn.fetchval("SELECT quote_ident(current_database())")
            await conn.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
        self.leave()

    async def until(self, query: str, *arguments: object) -> None:
        """Return once the query returns true."""
        async with self.connect() as conn:
            with anyio.fail_after(PATIENCE.total_seconds()):
                while not await conn.fetchval(query, *arguments):
                    await again.later()

    async def until_blocked(self, sessions: int = 1) -> None:
        """Return once this many sessions wait for a lock."""
        await self.until(f"SELECT ({BLOCKED}) >= $1", sessions)

    async def now(self) -> datetime:
        """The database's time."""
        async with self.connect() as conn:
            moment: datetime = await conn.fetchval("SELECT farrier.now()")
            return moment


class _Restorable(Database):
    """A database that one test uses after another. Its connections stay open, because a new session has to read the
    catalogs and plan each statement, which takes longer than most tests."""

    def __init__(self, name: str, dsn: str) -> None:
        super().__init__(dsn)
        self.name = name
        self.prepared: Install | None = None
        self._idle: list[Single] = []
        self._idle_pools: defaultdict[int, list[pool.Pool]] = defaultdict(list)

    @asynccontextmanager
    @override
    async def connect(self) -> AsyncIterator[Single]:
        conn = await self._idle_or_new()
        try:
            yield conn
        finally:
            try:
                if conn.is_closed() or conn.is_in_transaction():
                    await conn.close()
                else:
                    await conn.reset()
                    await conn.execute(_FORGET)
                    self._idle.append(conn)
            except BaseException:  # the test is cancelled, or has broken the connection
                conn.terminate()
                raise

    async def _idle_or_new(self) -> Single:
        while self._idle:
            conn = self._idle.pop()
            try:
                await conn.execute("SELECT 1")
                return conn
            except BaseException as error:  # a test may end every session of its database
                conn.terminate()
                if not isinstance(error, pool.CONNECTION_ERRORS):
                    raise
        return await pool.connect(self.dsn, patience=PATIENCE)

    @asynccontextmanager
    @override
    async def pool(self, size: int = 8) -> AsyncIterator[pool.Pool]:
        idle = self._idle_pools[size]
        opened = idle.pop() if idle else await pool.open_pool(self.dsn, size=size, patience=PATIENCE)
        try:
            yield opened
        finally:
            if opened.is_closing() or opened.get_idle_size() < opened.get_size():
                opened.terminate()
            else:
                self._idle_pools[size].append(opened)

    @override
    async def prepare(self, install: Install) -> None:
        if install is not self.prepared:
            await super().prepare(install)

    async def remember(self, prepared: Install) -> None:
        """Prepare the database for this test and for later tests that need the same."""
        await self.prepare(prepared)
        await (await self._session()).execute("SELECT farrier_test.remember()")
        self.prepared = prepared

    async def restore(self) -> bool:
        """Return the database to its first state, for the next test. Returns False if this is impossible."""
        try:
            sessions = [conn.get_server_pid() for conn in self._idle]
            for opened in itertools.chain(*self._idle_pools.values()):
                async with AsyncExitStack() as stack:
                    for _ in range(opened.get_idle_size()):
                        conn = await stack.enter_async_context(opened.acquire())
                        await conn.execute(f"{_FORGET}; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all()")
                        sessions.append(conn.get_server_pid())
            own = await self._session()
            await own.execute("SET session_replication_role = replica")
            changed = await own.fetchval("SELECT farrier_test.restore($1)", sessions)
        except (*pool.CONNECTION_ERRORS, DatabaseUnreachable):
            return False
        return changed is None

    @override
    def leave(self) -> None:
        super().leave()
        for conn in self._idle:
            conn.terminate()
        for opened in itertools.chain(*self._idle_pools.values()):
            opened.terminate()
        self._idle.clear()
        self._idle_pools.clear()


class Server:
    """A running server that makes and drops databases. It does so in a thread with a connection of its own, which
    outlives the event loops of tests: while a test runs, it makes the next database and drops the previous one. If a
    test leaves its database in a state that can be restored, the next test gets this database.
    """

    def __init__(self, dsn_of: Callable[[str], str], portal: BlockingPortal) -> None:
        self.dsn_of = dsn_of
        self._portal = portal
        self._one_at_a_time = portal.call(anyio.Lock)
        self._connection: pool.Single | None = None
        self._has_template = False
        self._next: Future[str] | None = None
        self._drops: list[Future[None]] = []
        self._free: list[_Restorable] = []

    @asynccontextmanager
    async def database(self, *, prepared: Install | None = None) -> AsyncIterator[Database]:
        """A database in the state of the migrated template, or in the state after `prepared`. No other test uses it
        during the block. All blocks must run on one event loop."""
        found = next((each for each in reversed(self._free) if each.prepared is prepared), None)
        if found is None:
            name = await self._new_copy()
            found = _Restorable(name, self.dsn_of(name))
        else:
            self._free.remove(found)
        is_restored = False
        try:
            if prepared is not None and found.prepared is None:
                await found.remember(prepared)
            yield found
            is_restored = await found.restore()
        finally:
            if is_restored:
                self._free.append(found)
            else:
                self._drop(found, found.name)

    @asynccontextmanager
    async def copy(self, template: str = TEMPLATE) -> AsyncIterator[Database]:
        """A new copy of a database, gone after the block. Its connections are new, too."""
        name = await wrap_future(self._portal.start_task_soon(self._make, template))
        made = Database(self.dsn_of(name))
        try:
            yield made
        finally:
            self._drop(made, name)

    async def _new_copy(self) -> str:
        name = await wrap_future(self._next or self._portal.start_task_soon(self._make, TEMPLATE))
        self._next = self._portal.start_task_soon(self._make, TEMPLATE)
        return name

    def _drop(self, database: Database, name: str) -> None:
        database.leave()
        self._drops.append(self._portal.start_task_soon(self._execute, f"DROP DATABASE {name} WITH (FORCE)"))

    def close(self) -> None:
        """Wait until the thread has finished its work."""
        for database in self._free:
            database.leave()
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
        if template == TEMPLATE:
            await self._settle(name)
        return name

    async def _settle(self, name: str) -> None:
        """Put a copy into service. Without this, farrier would take the copy for a restored database."""
        conn = await pool.connect(self.dsn_of(name), patience=PATIENCE)
        await conn.execute("SELECT farrier.settle_here(false)")
        await conn.close()

    async def _make_template(self) -> None:
        await self._execute(f"DROP DATABASE IF EXISTS {TEMPLATE}")
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        async with Database(self.dsn_of(TEMPLATE)).connect() as conn:
            await migrate.migrate(conn, after=catalog.sync)
            await catalog.set_settings(conn, NO_BRAKE)
            await conn.execute(MOVABLE_CLOCK)
            await conn.execute(_RESTORABLE)
        # The first session after a change of the schema writes a cache file of the catalogs; copies contain it, too.
        async with Database(self.dsn_of(TEMPLATE)).connect():
            pass
        self._has_template = True

    async def _execute(self, statement: str) -> None:
        async with self._one_at_a_time:
            if self._connection is None or self._connection.is_closed():  # a test may stop the server in between
                self._connection = await pool.connect(self.dsn_of("postgres"), patience=PATIENCE)
            await self._connection.execute(statement)


async def act(client: pool.Connection, role: str, statement: str) -> None:
    """Execute a client's statement, which may be refused; its locks are held until the transaction ends."""
    await client.execute(f"SET LOCAL ROLE farrier_{role}")
    try:
        async with client.transaction():
            await client.execute(statement)
    except PostgresError as refused:
        if not (refused.sqlstate or "").startswith("FR"):
            raise


@contextmanager
def served(dsn_of: Callable[[str], str]) -> Iterator[Server]:
    """A running server. When the block ends, no test uses its databases."""
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
