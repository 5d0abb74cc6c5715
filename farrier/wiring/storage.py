"""Connects to the database, checks or migrates it, and opens connections for queries outside the loop.

The daemon, the servers and simulations call this module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

import anyio
import msgspec
import structlog

from farrier import config as settings
from farrier.errors import ConfigError, CredentialError, DatabaseUnreachable
from farrier.io.calls.monitors import PostgresMonitorCalls
from farrier.io.calls.requests import PostgresRequests
from farrier.io.connections import command_session, pool, refusals
from farrier.io.connections.embedded import default_directory
from farrier.io.connections.hosts import Renewable
from farrier.io.connections.rehearsal import Rehearsal
from farrier.io.queries.lists import PostgresQueries
from farrier.io.schema import catalog, migrate
from farrier.protocols import ServerQueries, ServiceObserver
from farrier.services.credentials.resolver import Credentials
from farrier.web.server.backend import Backend
from farrier.wiring.secrets import credentials

T = TypeVar("T")

_log = structlog.stdlib.get_logger(__name__)

# When the connections are closed, those in use are dropped after this many seconds.
_CLOSE_SECONDS = 5
_WEB_CONNECTIONS = 3
# Fewest characters of http.bearer_token. Nothing limits how often a client may guess the token.
_SHORTEST_TOKEN = 16
# Only an operator writes the reference of a DSN into the settings, so the reference may name any file.
_ANY_FILE = settings.CredentialsConfig(file_roots=("/",))


class Database(msgspec.Struct, frozen=True):
    """A database server to which this process has connected."""

    dsn: str
    pool: pool.Pool
    embedded: bool
    rehearsal: Rehearsal = msgspec.field(default_factory=Rehearsal)


def brief(config: settings.DatabaseConfig) -> pool.Timeouts:
    """Return the time limits of the loop's statements."""
    return pool.Timeouts(config.connect_timeout, config.statement_timeout)


@asynccontextmanager
async def connections(
    config: settings.DatabaseConfig, dsn: str, *, size: int, timeouts: pool.Timeouts, init: Rehearsal | None = None
) -> AsyncIterator[pool.Pool]:
    """Open connections of their own for a part of the process, so that no other part delays it."""
    opened = await pool.open_pool(
        dsn, size=size, patience=config.db_timeout, pgbouncer=config.pgbouncer, timeouts=timeouts, init=init
    )
    try:
        yield opened
    finally:
        opened.terminate()


def _reading(config: settings.DatabaseConfig, dsn: str, *, size: int) -> AbstractAsyncContextManager[pool.Pool]:
    timeouts = pool.Timeouts(config.connect_timeout, config.read_timeout)
    return connections(config, dsn, size=size, timeouts=timeouts)


@asynccontextmanager
async def database(config: settings.DatabaseConfig) -> AsyncIterator[Database]:
    """Connect to the configured server, and retry for at most `db_timeout`. If the server is embedded, start it; its
    last user stops it at the end. Raises DatabaseUnreachable or ConfigError."""
    rehearsal = Rehearsal()
    async with (
        command_session.server(await _chosen(config)) as dsn,
        connections(config, dsn, size=config.pool_max, timeouts=brief(config), init=rehearsal) as opened,
    ):
        try:
            yield Database(dsn, opened, not config.dsn, rehearsal)
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await opened.close()


async def _chosen(config: settings.DatabaseConfig) -> settings.DatabaseConfig:
    """Return the configuration with its DSN, or the directory of the embedded server. Raises ConfigError."""
    if config.dsn or config.embedded:
        return await located(config)
    return msgspec.structs.replace(config, embedded=str(default_directory()))


async def located(config: settings.DatabaseConfig) -> settings.DatabaseConfig:
    """Return the configuration. If its DSN is a reference, the reference is resolved, and each new connection reads it
    again. Raises ConfigError."""
    if not config.refers:
        return config
    try:
        dsn = await _read(config.dsn)
    except CredentialError as error:
        raise ConfigError(f"database.dsn: {error}") from None
    return msgspec.structs.replace(config, dsn=Renewable.of(dsn, _Renewal(config.dsn, dsn)))


async def _read(reference: str) -> str:
    return await Credentials(_ANY_FILE).token(reference)


class _Renewal:
    """Reads the reference of the DSN for each new connection. While it cannot be read, or has no valid DSN, the last
    valid DSN remains."""

    def __init__(self, reference: str, dsn: str) -> None:
        self._reference = reference
        self._dsn = dsn

    async def __call__(self) -> str:
        try:
            found = await _read(self._reference)
            if found != self._dsn:
                await pool.require_valid(found)
        except (CredentialError, ConfigError) as error:
            _log.warning("database.dsn_refused", error=f"database.dsn: {error}")
        else:
            self._dsn = found
        return self._dsn


async def persistently(work: Callable[[], Awaitable[T]], *, patience: timedelta) -> T:
    """Return the result of `work`. While the database is unreachable, repeat `work` for `patience`. Raises the errors
    of `work`."""
    deadline = anyio.current_time() + patience.total_seconds()
    pause = pool.FIRST_PAUSE.total_seconds()
    while True:
        try:
            return await work()
        except DatabaseUnreachable as error:
            if anyio.current_time() + pause > deadline:
                raise
            _log.warning("database.unreachable", reason=str(error), next_try_in=round(pause, 2))
        await anyio.sleep(pause)
        pause = min(pause * 2, pool.LONGEST_PAUSE.total_seconds())


async def prepare(database: Database, config: settings.Config) -> int:
    """Make sure that schema and program match, and write the settings that SQL functions read to the database. Returns
    the schema's version. An embedded database is migrated. Any other database belongs to an operator, so an old schema
    raises SchemaMissing. Raises SchemaTooNew or DatabaseUnreachable. May be repeated."""
    if database.embedded:
        async with administrator(database) as conn:
            await migrate.migrate(conn, after=catalog.sync)
            await migrate.create_embedded_logins(conn)
    async with refusals.borrowed(database.pool) as conn:
        status = await migrate.check(conn)
        status.require_current()
        await catalog.set_settings(conn, config.node)
        await catalog.set_limits(conn, config.sla)
    return status.found


async def schema_version(database: Database) -> int:
    """Return the version of the database's tables; 0 without a schema. Raises DatabaseUnreachable."""
    async with refusals.borrowed(database.pool) as conn:
        return await migrate.version(conn)


def known_schemas() -> Sequence[int]:
    """Return the versions with which the servers of this release work: the previous one, so that they can be upgraded
    before the database, and the release's own."""
    newest = migrate.carried().version
    return range(max(1, newest - 1), newest + 1)


@asynccontextmanager
async def administrator(database: Database) -> AsyncIterator[pool.Single]:
    """Open a session for work on the schema, without a time limit for statements."""
    async with command_session.administrator(settings.DatabaseConfig(dsn=database.dsn)) as conn:
        yield conn


@asynccontextmanager
async def backend(config: settings.Config, database: Database, *, observer: ServiceObserver) -> AsyncIterator[Backend]:
    """Open the backend of the web application. The backend has its own connections, so that a long listing does not
    delay the loop."""
    async with (
        _reading(config.database, database.dsn, size=_WEB_CONNECTIONS) as opened,
        credentials(config, observer=observer) as store,
    ):
        reference = config.http.bearer_token
        yield Backend(
            PostgresQueries(opened),
            PostgresRequests(opened, database.dsn, pgbouncer=config.database.pgbouncer),
            config.sla,
            partial(_api_token, store, reference) if reference else None,
            PostgresMonitorCalls(opened),
            config.node.patience,
            config.controller.period,
            config.node.bootstrap_ttl,
            config.http.dashboards_url,
        )


async def _api_token(store: Credentials, reference: str) -> str:
    """Return the present secret of `http.bearer_token`. Raises CredentialError, also if it could be guessed."""
    token = await store.token(reference)
    if len(token) < _SHORTEST_TOKEN:
        expected = f"expected a token of at least {_SHORTEST_TOKEN} characters, such as from openssl rand -hex 32"
        raise CredentialError(reference, f"{expected}; the token has {len(token)}")
    return token


@asynccontextmanager
async def counter(config: settings.DatabaseConfig, database: Database) -> AsyncIterator[ServerQueries]:
    """Open the connection that counts the fleet. The connection is separate, so that long listings cannot occupy it."""
    async with _reading(config, database.dsn, size=1) as opened:
        yield PostgresQueries(opened)
