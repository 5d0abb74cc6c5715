"""The connections of a daemon have planned the statements of a wake before they serve."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from farrier.config import Config, DatabaseConfig
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.metrics.sink import PrometheusSink
from farrier.wiring import loops, storage
from farrier.wiring.vocabulary import vocabulary
from tests.support import again, pg
from tests.support.loop import BRISK, PATIENCE

QUARANTINE = """
    WITH made AS (SELECT farrier.register_node('gpu-' || $1))
    INSERT INTO farrier.intents (node, action, params)
    SELECT 'gpu-' || $1, 'quarantine', '{"reason": "a test"}' FROM made
"""
QUARANTINED = "SELECT count(*) FROM farrier.nodes WHERE status = 'quarantined'"
PLANNED = "SELECT statement FROM pg_prepared_statements WHERE generic_plans > 0"
OF_ROUNDS = {PLANNED, *(statements.load(f"loop/{name}") for name in ("list", "take", "collapse", "forget"))}


@asynccontextmanager
async def at_work(db: pg.Database) -> AsyncIterator[Pool]:
    """A controller of all kinds that is ready. Yields its pool."""
    config = Config(database=DatabaseConfig(dsn=db.dsn, pool_max=4), controller=BRISK)
    sink, stop = PrometheusSink(vocabulary()), anyio.Event()
    async with (
        storage.database(config.database) as database,
        loops.runtime(config, database, sink=sink, observer=sink) as runtime,
        anyio.create_task_group() as group,
    ):
        group.start_soon(runtime.controller.run, stop)
        with anyio.fail_after(PATIENCE):
            await runtime.controller.ready.wait()
        yield database.pool
        stop.set()


async def plans(connections: Pool) -> dict[int, set[str]]:
    """The statements that each session of the pool has planned, except those that belong to no wake."""
    async with AsyncExitStack() as held:
        every = [
            await held.enter_async_context(session.borrowed(connections)) for _ in range(connections.get_max_size())
        ]
        return {
            conn.get_server_pid(): {row["statement"] for row in await conn.fetch(PLANNED)} - OF_ROUNDS for conn in every
        }


async def quarantine(db: pg.Database, name: str) -> None:
    """Register a node, and wait until its quarantine is committed."""
    async with db.connect() as conn:
        before = await conn.fetchval(QUARANTINED)
        await conn.execute(QUARANTINE, name)
        with anyio.fail_after(PATIENCE):
            while await conn.fetchval(QUARANTINED) == before:
                await again.later()


async def test_a_wake_finds_all_its_statements_planned_on_every_connection(db: pg.Database) -> None:
    async with at_work(db) as connections:
        before = await plans(connections)
        await quarantine(db, "1")
        assert await plans(connections) == before


async def test_a_connection_that_replaces_another_has_planned_the_statements_before_it_serves(db: pg.Database) -> None:
    async with at_work(db) as connections:
        before = await plans(connections)
        await connections.expire_connections()
        after = await plans(connections)
    assert not after.keys() & before.keys()
    assert set.intersection(*after.values()) == set.intersection(*before.values()) != set()


async def test_a_refused_rehearsal_delays_nothing_but_the_first_use(db: pg.Database) -> None:
    async with db.connect() as owner:
        await owner.execute("ALTER FUNCTION farrier.end_commit RENAME TO of_another_release")
        async with at_work(db) as connections:
            assert all((await plans(connections)).values())
            await owner.execute("ALTER FUNCTION farrier.of_another_release RENAME TO end_commit")
            await quarantine(db, "1")


@pytest.mark.full
async def test_a_lock_of_a_table_keeps_no_connection_from_work_that_needs_another_table(db: pg.Database) -> None:
    async with at_work(db) as connections, db.connect() as somebody, somebody.transaction():
        await somebody.execute("LOCK TABLE farrier.nodes")
        await connections.expire_connections()
        assert await session.fetch(connections, "SELECT FROM farrier.settings")
