"""Opens the database for a single command: the server, the pool, a check of the schema, queries and requests.

If the embedded server does not run, the module starts it, and its last user stops it. The module migrates an
embedded database that has an old schema; it only checks the schema of any other database.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import asyncpg
import msgspec

from farrier.config import DatabaseConfig
from farrier.errors import ConfigError, SchemaMissing, SchemaUnrecorded
from farrier.io.calls.requests import PostgresRequests
from farrier.io.calls.retention import PostgresRetention
from farrier.io.connections import pool, refusals
from farrier.io.connections.embedded import EmbeddedServer, default_directory, wheel_binaries
from farrier.io.connections.pool import Pool, Single
from farrier.io.queries.lists import PostgresQueries
from farrier.io.schema import catalog, migrate

# Long enough for a server that restarts. Because a user waits, a server that is down is reported soon.
_PATIENCE = timedelta(seconds=5)
# One connection for a listing, and one for the queries that the listing causes.
_CONNECTIONS = 2
_OWNER_HINT = (
    "this requires the owner of the schema farrier; creating the schema requires the right CREATE on the database"
)


class Client(msgspec.Struct, frozen=True):
    """A connected database whose schema fits this program."""

    queries: PostgresQueries
    requests: PostgresRequests
    retention: PostgresRetention


@asynccontextmanager
async def client(config: DatabaseConfig, *, requested_by: str) -> AsyncIterator[Client]:
    """Connect to the configured database, for a client with this name. Raises DatabaseUnreachable, SchemaMissing,
    SchemaTooNew or ConfigError."""
    _require_directory(config)
    async with server(config) as dsn:
        patience = min(_PATIENCE, config.db_timeout)
        timeouts = pool.Timeouts(config.connect_timeout, config.read_timeout)
        connections = await pool.open_pool(
            dsn, size=_CONNECTIONS, patience=patience, pgbouncer=config.pgbouncer, timeouts=timeouts
        )
        try:
            await _require_schema(connections, embedded=not config.dsn)
            requests = PostgresRequests(connections, dsn, pgbouncer=config.pgbouncer, requested_by=requested_by)
            yield Client(PostgresQueries(connections), requests, PostgresRetention(connections))
        finally:
            connections.terminate()


@asynccontextmanager
async def administrator(config: DatabaseConfig) -> AsyncIterator[Single]:
    """Open one connection with a separate session, for work on a schema at any version. Raises the same errors as
    `client`, and RefusedByModel for statements that this user may not run."""
    async with server(config) as dsn:
        conn = await pool.connect(dsn, patience=min(_PATIENCE, config.db_timeout))
        try:
            with refusals.translated(no_right=_OWNER_HINT):
                yield conn
        finally:
            await conn.close()


@asynccontextmanager
async def server(config: DatabaseConfig) -> AsyncIterator[str]:
    """Yield the DSN of the configured server. The server runs until the context ends."""
    if config.dsn:
        yield config.dsn
        return
    own = EmbeddedServer(Path(config.embedded) if config.embedded else _usual_directory())
    user = await anyio.to_thread.run_sync(own.join)
    try:
        yield own.dsn
    except SchemaUnrecorded:
        raise SchemaUnrecorded(directory=str(own.directory)) from None
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(own.leave, user)


def _require_directory(config: DatabaseConfig) -> None:
    """Refuse a directory that does not exist: its name may be misspelt, and clients create no database."""
    if not config.dsn and config.embedded and not os.path.isdir(config.embedded):
        wheel_binaries()  # if the extra is missing, this error is reported first
        raise ConfigError(
            f"--embedded: {config.embedded} is not a directory; farrier run --embedded creates a database"
        )


def _usual_directory() -> Path:
    """Return the daemon's default directory. Raises ConfigError where no daemon ran: clients create no database."""
    usual = default_directory()
    if not usual.is_dir():
        raise ConfigError(
            "no database is configured; use --dsn URL or --embedded DIR, set FARRIER_DATABASE_DSN, or use --config "
            f"FILE (the embedded server's default directory {usual} does not exist)"
        )
    return usual


async def _require_schema(connections: Pool, *, embedded: bool) -> None:
    async with connections.acquire() as conn:
        try:
            status = await migrate.check(conn)
        except asyncpg.InsufficientPrivilegeError:
            return  # the role may not read the schema's version, so the version cannot be checked
        try:
            status.require_current()
        except SchemaMissing:
            if not embedded:
                raise
            await migrate.migrate(conn, after=catalog.sync)
