"""Fixtures of tests that write rows and read them through `protocols.Queries`. A test module assigns them to names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.io.connections.pool import Connection, Pool
from farrier.io.queries.lists import PostgresQueries
from tests.support import pg


@pytest.fixture
async def unguarded(db: pg.Database) -> AsyncIterator[Connection]:
    """A connection without guards, which writes states that the guards would refuse."""
    async with db.connect() as connection:
        await connection.execute("SET session_replication_role = replica")
        yield connection


@pytest.fixture
async def pool(db: pg.Database) -> AsyncIterator[Pool]:
    async with db.pool(size=2) as connections:
        yield connections


@pytest.fixture
def queries(pool: Pool) -> PostgresQueries:
    return PostgresQueries(pool)
