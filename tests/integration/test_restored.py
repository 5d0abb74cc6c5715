"""The databases of tests: a test finds no trace of an earlier test that had the same database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.config import NodeConfig
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog
from tests.support import pg

_TABLES = """
    SELECT c.oid::regclass::text FROM pg_class c
     WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'r' ORDER BY 1
"""
_NUMBERS = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'farrier' ORDER BY 1"
_SESSION = "SELECT current_user, current_setting('lock_timeout'), farrier.now() - statement_timestamp()"


async def contents(conn: Connection) -> object:
    """Every row and every number of farrier's schema, and the state of the session and of the clock."""
    tables = [row[0] for row in await conn.fetch(_TABLES)]
    rows = {name: await conn.fetch(f"SELECT t::text FROM {name} t ORDER BY 1") for name in tables}
    return rows, await conn.fetch(_NUMBERS), await conn.fetchrow(_SESSION)


async def test_rows_numbers_sessions_and_the_clock_are_those_of_a_new_database(every_server: pg.Server) -> None:
    async with every_server.database() as first, first.connect() as conn:
        new = await contents(conn)
        await conn.execute("SELECT farrier.register_node('gpu-1', site => 'north')")
        await conn.execute("UPDATE farrier.shards SET epoch = 7")
        await conn.execute("DELETE FROM farrier.edges")
        await catalog.set_settings(conn, NodeConfig())
        await conn.execute("SET lock_timeout = '7s'; SET ROLE farrier_reader")
        await first.advance(timedelta(hours=1))
    async with every_server.database() as second, second.connect() as conn:
        assert second is first
        assert await contents(conn) == new


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE farrier.left_behind ()",
        "ALTER TABLE farrier.nodes DISABLE TRIGGER USER",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''1MB''', current_database()); END $$",
        "SELECT farrier.register_node('gpu-1'); ANALYZE farrier.nodes",
    ],
    ids=["schema", "trigger", "settings", "statistics"],
)
async def test_a_database_that_cannot_be_restored_is_not_used_again(every_server: pg.Server, change: str) -> None:
    async with every_server.database() as first, first.connect() as conn:
        await conn.execute(change)
    async with every_server.database() as second:
        assert second is not first
