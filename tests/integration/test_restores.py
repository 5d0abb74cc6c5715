"""How farrier recognises a restored database, and what happens before a controller has recognised it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from farrier.errors import DatabaseUnreachable, HandlerGarbage, HeldAfterRestore
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections import pool, session
from farrier.model.loop.outcome import Step, Transition
from farrier.model.loop.restores import Hold
from farrier.model.node.layers import NODE
from farrier.protocols.permit import require_lease
from tests.support import loop, pg, toy
from tests.support.site import opened
from tests.support.toy import MADE, Answer, Scripted, Shape

UUIDS = uuid4(), uuid4()
IS_RESTORED = "SELECT farrier.is_restored()"
# Holding every resource of a large fleet takes longer than the time limit of the pool in the test.
SLOW = """
    CREATE OR REPLACE FUNCTION farrier.node_unseen(ids bigint[]) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(0.3)'
"""
HELD = "SELECT count(*) FROM farrier.restore_holds WHERE lifted_at IS NULL"


@asynccontextmanager
async def copied(server: pg.Server, original: pg.Database) -> AsyncIterator[pg.Database]:
    """A copy of a database, which no process has put into service."""
    original.leave()
    async with server.copy(urlsplit(original.dsn).path.strip("/")) as copy:
        yield copy


@pytest.fixture
async def original(every_server: pg.Server) -> AsyncIterator[pg.Database]:
    async with every_server.copy() as database:
        yield database


async def test_a_copy_is_recognised_once_and_the_original_and_its_restarts_are_not(
    every_server: pg.Server, original: pg.Database
) -> None:
    async with opened(original) as site:
        await site.active()
        assert not await site.conn.fetchval(IS_RESTORED)
    async with original.connect() as conn:
        await conn.execute("VACUUM FULL farrier.installation")
        assert not await conn.fetchval(IS_RESTORED)
    async with copied(every_server, original) as copy, copy.connect() as conn, copy.pool(2) as pool:
        assert await conn.fetchval(IS_RESTORED)
        controllers = PostgresControllers(pool)
        with capture_logs() as logs:
            for number in range(2):
                await controllers.join(UUIDS[number], "test", [NODE])
        assert [each["held"] for each in logs if each["event"] == "database.restored"] == [1]
        assert not await conn.fetchval(IS_RESTORED)
        assert await conn.fetchval(HELD) == 1


async def test_the_holds_of_a_large_fleet_may_take_longer_than_any_statement_of_the_loop(
    pg_server: pg.Server,
) -> None:
    async with pg_server.copy() as live, copied(pg_server, live) as copy, copy.connect() as conn:
        await conn.execute(SLOW)
        brief = pool.Timeouts(statement=timedelta(milliseconds=100))
        connections = await pool.open_pool(copy.dsn, size=2, patience=pg.PATIENCE, timeouts=brief)
        with pytest.raises(DatabaseUnreachable):
            await session.fetch(connections, "SELECT pg_sleep(0.3)")
        await PostgresControllers(connections).join(UUIDS[0], "test", [NODE])
        connections.terminate()
        assert not await conn.fetchval(IS_RESTORED)


async def test_before_a_controller_has_recognised_the_restore_no_agent_no_worker_and_no_commit_is_served(
    every_server: pg.Server, original: pg.Database
) -> None:
    async with opened(original, crash=True) as site:
        key = (await site.active()).key
        await site.conn.execute("SELECT farrier.grant_worker(session_user, '{node.drain}')")
        held = "SELECT cardinality(farrier.hold_shards('node', s.owner, ARRAY[s.shard], ARRAY[s.epoch]))"
        of_one = f"{held} FROM farrier.shards s WHERE s.kind = 'node' AND s.shard = 1"
        assert await site.conn.fetchval(of_one) == 1
    async with copied(every_server, original) as copy, copy.connect() as conn:
        for call in (
            f"SELECT farrier.heartbeat('gpu-1', '{{}}', '{key}')",
            f"SELECT farrier.claim_task('gpu-1', '{{node.drain}}', '{key}')",
            "SELECT farrier.claim_work()",
        ):
            with pytest.raises(pg.PostgresError, match="restored from a backup") as refused:
                await conn.execute(call)
            assert refused.value.sqlstate == "FR409"
        assert await conn.fetchval(of_one) == 0


async def test_a_running_controller_holds_everything_after_it_was_told_of_a_point_in_time_recovery(
    db: pg.Database,
) -> None:
    async with loop.opened(db) as shop:
        await shop.register(1)
        handler = Scripted()
        async with shop.running(handler) as (_, ledger), db.connect() as conn:
            await ledger.until(lambda: ledger.outcomes.total() > 0)
            await conn.fetchval("SELECT farrier.hold_restored()")
            handler.scripts[1] = lambda _widget, _now: MADE
            await shop.ask(1)
            await db.until(
                "SELECT EXISTS (SELECT FROM farrier.outcomes WHERE kind = 'widget' AND outcome ->> 'outcome' = 'wait')"
            )
            assert (await shop.widget(1))["state"] == "raw"
            assert "cannot compare" in (await shop.outcome(1))["reason"]

            await conn.execute("UPDATE farrier.restore_holds SET lifted_at = farrier.now()")
            await shop.ask(1)
            await db.until("SELECT state = 'made' FROM farrier_toy.widgets WHERE id = 1")


class Reckless(Scripted):
    """Observes with steps that try to change something."""

    def __init__(self, *, reads_only: bool) -> None:
        super().__init__()
        self._reads_only = reads_only
        self.began = 0
        self.sent = 0

    @override
    def observe(self, resource: toy.Widget, now: datetime, hold: Hold) -> toy.Decided:
        return Step(name="change", act=self.act, deadline=timedelta(seconds=5), reads_only=self._reads_only)

    async def act(self, _services: object) -> Transition[Shape, Answer]:
        self.began += 1
        require_lease()
        self.sent += 1
        return MADE


@pytest.mark.parametrize(("reads_only", "error"), [(True, HeldAfterRestore.label), (False, HandlerGarbage.label)])
async def test_no_step_of_a_held_resource_sends_a_change_even_if_its_handler_wants_to(
    db: pg.Database, reads_only: bool, error: str
) -> None:
    async with loop.opened(db) as shop:
        await shop.register(1)
        async with db.connect() as conn:
            await conn.execute("SELECT farrier.hold_restored()")
        handler = Reckless(reads_only=reads_only)
        async with shop.running(handler) as (_, ledger):
            await ledger.until(lambda: error in ledger.errors)
        assert (handler.began > 0) is reads_only
        assert handler.sent == 0
        assert (await shop.widget(1))["state"] == "raw"
