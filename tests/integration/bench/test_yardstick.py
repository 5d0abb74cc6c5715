"""The yardstick on a real PostgreSQL: it returns figures, and removes its schema also after a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from bench import yardstick
from farrier.errors import ConfigError
from tests.support import pg

# Benchmarks are tools for developers, and `make test` runs the tests of the product.
pytestmark = pytest.mark.full


@pytest.fixture
async def empty(pg_server: pg.Server) -> AsyncIterator[pg.Database]:
    """A database without farrier's schema."""
    async with pg_server.copy(pg.EMPTY) as database:
        yield database


async def has_schema(database: pg.Database) -> bool:
    async with database.connect() as conn:
        return bool(await conn.fetchval("SELECT to_regnamespace('yardstick') IS NOT NULL"))


async def test_both_speeds_can_be_measured_repeatedly(empty: pg.Database) -> None:
    for _ in range(2):
        speed = await yardstick.take(empty.dsn)
        assert speed.transitions_per_second > 0 and speed.reaction_p50_ms > 0
        assert not await has_schema(empty)


async def test_each_measured_reaction_is_a_completed_request(empty: pg.Database) -> None:
    """Each request moved one thing by one version, has one row of history, and was deleted."""
    async with yardstick.tables(empty.dsn):
        await yardstick.reaction_p50_ms(empty.dsn)
        async with empty.connect() as conn:
            moved = await conn.fetch("SELECT id, state, version FROM yardstick.things WHERE version > 0 ORDER BY id")
            kept = await conn.fetch("SELECT thing, state, version FROM yardstick.history ORDER BY thing")
            left = await conn.fetchval("SELECT count(*) FROM yardstick.requests")
    assert [tuple(row) for row in moved] == [(number, "elsewhere", 1) for number in range(1, len(moved) + 1)]
    assert moved and [tuple(row) for row in kept] == [tuple(row) for row in moved]
    assert left == 0


async def test_a_failure_inside_leaves_no_schema_behind(empty: pg.Database) -> None:
    async def measure_without_history() -> None:
        async with yardstick.tables(empty.dsn):
            async with empty.connect() as conn:
                await conn.execute("DROP TABLE yardstick.history")
            await yardstick.transitions_per_second(empty.dsn)

    with pytest.raises(pg.PostgresError, match="history"):
        await measure_without_history()
    assert not await has_schema(empty)


async def test_a_cancelled_measurement_leaves_no_schema_behind(empty: pg.Database) -> None:
    with anyio.CancelScope() as stopped:
        async with yardstick.tables(empty.dsn):
            assert await has_schema(empty)
            stopped.cancel()
            await yardstick.transitions_per_second(empty.dsn)
    assert stopped.cancelled_caught
    assert not await has_schema(empty)


async def test_an_existing_schema_is_refused_and_not_changed(empty: pg.Database) -> None:
    async with empty.connect() as conn:
        await conn.execute("CREATE SCHEMA yardstick")
    with pytest.raises(ConfigError, match="already has a schema yardstick"):
        await yardstick.take(empty.dsn)
    assert await has_schema(empty)
