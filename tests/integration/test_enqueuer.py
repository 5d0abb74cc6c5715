"""Wake-ups from Python and their arrival: at once by notification, a poll later without, never not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from farrier.enqueuer.enqueuer import Enqueuer
from farrier.enqueuer.listener import Listener
from farrier.errors import RefusedByModel
from farrier.io.notifications import PostgresNotifications
from farrier.io.pool import open_pool
from farrier.io.wakes import PostgresWakes
from tests.support import loop, pg, pgbouncer, proxy, toy
from tests.support.loop import BRISK, Shop

BRIEF = timedelta(milliseconds=200)
# Nothing is found by polling: what arrives was notified.
NO_POLL = msgspec.structs.replace(BRISK, poll_interval=timedelta(hours=1))


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[Shop]:
    """Three widgets, none of them due."""
    async with loop.opened(db) as shop:
        await shop.register(1, 2, 3)
        await shop.pool.execute("UPDATE farrier.schedule SET due_at = farrier.now() + interval '30 s'")
        yield shop


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = 0
        self._changed = anyio.Event()

    def ring(self) -> None:
        self.rung += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, rung: int) -> None:
        with anyio.fail_after(loop.PATIENCE):
            while self.rung < rung:
                await self._changed.wait()


@asynccontextmanager
async def listening(
    dsn: str, *, silence: timedelta = timedelta(seconds=10), patience: timedelta = pg.PATIENCE
) -> AsyncIterator[Bell]:
    """A listener that has begun; its first ring is spent."""
    bell = Bell()
    listener = Listener(PostgresNotifications(dsn, patience=patience), wake={toy.KIND: bell.ring}, silence=silence)
    async with anyio.create_task_group() as group:
        group.start_soon(listener.run)
        await bell.until(1)
        yield bell
        group.cancel_scope.cancel()


async def test_enqueueing_wakes_each_resource_once(shop: Shop) -> None:
    await Enqueuer(PostgresWakes(shop.pool)).enqueue("widget", 3, 1, 3)
    assert [(await shop.row(id_))["wake_seq"] for id_ in (1, 2, 3)] == [1, 0, 1]


async def test_enqueueing_what_is_not_scheduled_is_refused_and_wakes_nothing(shop: Shop) -> None:
    with pytest.raises(RefusedByModel, match="no widget with id 404 is scheduled"):
        await Enqueuer(PostgresWakes(shop.pool)).enqueue("widget", 1, 404)
    assert (await shop.row(1))["wake_seq"] == 0


async def test_a_thousand_and_more_are_woken_in_several_transactions(shop: Shop) -> None:
    await shop.register(*range(4, 2501))
    await Enqueuer(PostgresWakes(shop.pool)).enqueue_all("widget", range(1, 2501))
    assert await shop.pool.fetchval("SELECT count(*) FROM farrier.schedule WHERE wake_seq = 1") == 2500


async def test_a_listener_rings_when_it_begins_and_for_a_wake(shop: Shop) -> None:
    async with listening(shop.db.dsn) as bell:
        await shop.ask(1)
        await bell.until(2)


async def test_a_wake_rings_for_its_kind_alone_and_one_without_a_kind_for_all(shop: Shop) -> None:
    widgets, others = Bell(), Bell()
    listener = Listener(
        PostgresNotifications(shop.db.dsn, patience=pg.PATIENCE), wake={toy.KIND: widgets.ring, "other": others.ring}
    )
    async with anyio.create_task_group() as group:
        group.start_soon(listener.run)
        await widgets.until(1)
        await shop.ask(1)
        await widgets.until(2)
        assert others.rung == 1, "it rang when listening began"
        await shop.pool.execute("NOTIFY farrier_wake")  # as a schema of before said it
        await others.until(2)
        await widgets.until(3)
        group.cancel_scope.cancel()


async def test_an_insert_reaches_the_loop_without_a_poll(shop: Shop) -> None:
    handler = toy.Scripted()
    async with shop.running(handler, config=NO_POLL) as (processor, ledger), anyio.create_task_group() as group:
        listener = Listener(PostgresNotifications(shop.db.dsn), wake={processor.kind: processor.wake})
        group.start_soon(listener.run)
        await ledger.until(lambda: ledger.woken_by["notify"] > 0)
        await shop.ask(2)
        await ledger.until(lambda: ledger.outcomes.total() == 1)
        group.cancel_scope.cancel()
    assert handler.order == [2]


async def kill_listener(shop: Shop) -> None:
    await shop.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )


async def test_a_lost_listener_is_back_and_rings_for_what_it_may_have_missed(shop: Shop) -> None:
    with capture_logs() as logs:
        async with listening(shop.db.dsn) as bell:
            await kill_listener(shop)
            await bell.until(2)
            await shop.ask(1)
            await bell.until(3)
    assert [line["event"] for line in logs] == ["listen.begun", "listen.lost", "listen.begun"]


async def test_a_connection_that_is_dead_without_saying_so_is_noticed_and_replaced(shop: Shop) -> None:
    async with (
        proxy.before(shop.db.dsn) as between,
        listening(between.dsn, silence=BRIEF, patience=BRIEF) as bell,
    ):
        between.freeze()
        await bell.until(2)
        await shop.ask(1)
        await bell.until(3)


async def test_without_a_listener_the_poll_finds_what_was_asked(shop: Shop) -> None:
    async with shop.running(toy.Scripted()) as (_, ledger):
        await shop.ask(1)
        await ledger.until(lambda: ledger.outcomes.total() == 1)
    assert ledger.woken_by["notify"] == 0


@pytest.fixture
def pooler(db: pg.Database) -> Iterator[str]:
    """The DSN of the database by way of PgBouncer in transaction mode; skipped where that is not installed."""
    with pgbouncer.before(db.dsn) as dsn:
        yield dsn


async def test_through_a_pooler_listening_is_found_useless_and_the_poll_does_the_work(shop: Shop, pooler: str) -> None:
    """Eight processors' worth of sessions on three of the server's: none may count on having one to itself."""
    await shop.register(*range(4, 201))
    opened = await open_pool(pooler, size=8, patience=pg.PATIENCE, pgbouncer=True)
    lines: list[str] = []
    try:
        io = shop.io(pool=opened)
        with capture_logs() as logs:
            async with shop.running(toy.Scripted(), io=io) as (processor, ledger), anyio.create_task_group() as group:
                listener = Listener(
                    PostgresNotifications(pooler, patience=BRIEF), wake={processor.kind: processor.wake}
                )
                group.start_soon(listener.run)
                await ledger.until(lambda: ledger.outcomes.total() >= 197)
                for id_ in (1, 2, 3):
                    await shop.ask(id_)
                await ledger.until(lambda: ledger.outcomes.total() >= 200)
                await ledger.until(lambda: any(line["event"] == "listen.lost" for line in logs))
                group.cancel_scope.cancel()
        lines = [line["event"] for line in logs]
    finally:
        opened.terminate()
    assert "listen.begun" not in lines
    assert await shop.answers() == [1, 1, 1]
