"""Deadlocks with a migration, which locks tables in its own order: the loop tries again, and no run gets an error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.loop.runs import CommitVerdict, Loaded
from tests.support import loop, pg
from tests.support.held import hold
from tests.support.loop import Shop
from tests.support.toy import MADE, State, Widget

# The deadlock_timeout of all sessions but the migration's, so that the server ends one of theirs.
FOUND_OUT = "500ms"


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[Shop]:
    await db.set_default("deadlock_timeout", FOUND_OUT)
    async with loop.opened(db) as opened:
        yield opened


@asynccontextmanager
async def migrating(db: pg.Database, table: str) -> AsyncIterator[Connection]:
    """A migration that holds a table, and whose session is not the one that the server ends."""
    async with db.connect() as conn:
        await conn.execute("SET deadlock_timeout = '1h'")
        async with conn.transaction():
            await conn.execute(f"LOCK TABLE {table}")
            yield conn


async def test_a_load_ended_by_a_deadlock_is_repeated(db: pg.Database, shop: Shop) -> None:
    await shop.register(1)
    loaded: list[Loaded[Widget]] = []

    async def load() -> None:
        loaded.append(await shop.io().load([1]))

    async with anyio.create_task_group() as group, migrating(db, "farrier_toy.requests") as migration:
        group.start_soon(load)
        await db.until_blocked()
        await migration.execute("LOCK TABLE farrier_toy.widgets")
    assert loaded[0].unreadable == {}
    assert loaded[0].resources[1].state is State.RAW


async def test_a_commit_gives_way_to_a_migration_before_a_deadlock_and_no_run_gets_an_error(
    db: pg.Database, shop: Shop
) -> None:
    held = await hold(shop, 1)
    async with migrating(db, "farrier_toy.widgets") as migration:
        assert await held.commit(held.finish(1, MADE)) == {1: CommitVerdict.LOCKED}
        await migration.execute("LOCK TABLE farrier.shards")
    assert await shop.outcome(1) == {}
    assert await held.commit(held.finish(1, MADE)) == {1: CommitVerdict.COMMITTED}
    assert await shop.history(1) == [("raw", "made")]
    assert (await shop.outcome(1))["reason"] == "it was raw"
