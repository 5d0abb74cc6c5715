"""Prepares the PostgreSQL of a benchmark, which is an embedded server in a new directory, or the server of a given DSN.

As in production, fsync is on. A given database must not have a schema `farrier`: the benchmarks create this schema,
fill it with generated nodes, and drop it. The same applies to the schema `yardstick`, which has no nodes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec

from farrier.errors import ConfigError
from farrier.io.connections import pool
from farrier.io.connections.embedded import EmbeddedServer
from farrier.io.schema import catalog, migrate

PATIENCE = timedelta(seconds=20)
# The daemon's default number of connections.
POOL_SIZE = 8

_EXISTS = "SELECT to_regnamespace($1::text) IS NOT NULL"
_DROP = "DROP SCHEMA farrier CASCADE"
_SETTINGS = """
    SELECT name, current_setting(name) AS value
      FROM unnest(ARRAY['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers']) AS name
"""


class Ground(msgspec.Struct, frozen=True):
    """A migrated database without nodes, and connections to it."""

    dsn: str
    pool: pool.Pool


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    """Yield the DSN of a running server: `dsn`, or the DSN of an embedded server that is removed after the block."""
    if dsn is not None:
        yield dsn
        return
    directory = Path(tempfile.mkdtemp(prefix="farrier-bench-"))
    embedded = EmbeddedServer(directory)
    try:
        yield embedded.start()
    finally:
        embedded.stop()
        shutil.rmtree(directory)


@asynccontextmanager
async def ground(dsn: str) -> AsyncIterator[Ground]:
    """Create a new schema for one benchmark, and drop it after the block. Raises ConfigError if the schema already
    exists."""
    connections = await pool.open_pool(dsn, size=POOL_SIZE, patience=PATIENCE)
    try:
        async with connections.acquire() as conn:
            await refuse_if_there(conn, "farrier")
            await migrate.migrate(conn, after=catalog.sync)
        try:
            yield Ground(dsn, connections)
        finally:
            await connections.execute(_DROP)
    finally:
        connections.terminate()


async def refuse_if_there(conn: pool.Connection, schema: str) -> None:
    """Raise ConfigError if the database has this schema, because the schema belongs to another program, and the
    benchmark would drop it."""
    if await conn.fetchval(_EXISTS, schema):
        raise ConfigError(
            f"the database already has a schema {schema}; use a database without it, because the "
            "benchmarks create this schema and drop it"
        )


async def settings(dsn: str) -> dict[str, str]:
    """Return the settings of the server that affect the figures."""
    conn = await pool.connect(dsn, patience=PATIENCE)
    try:
        return {record["name"]: record["value"] for record in await conn.fetch(_SETTINGS)}
    finally:
        await conn.close()
