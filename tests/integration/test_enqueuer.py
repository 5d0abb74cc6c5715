"""Wakes from Python and their arrival: at once by notification, or else with the next poll, but always."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest
from structlog.testing import capture_logs

from farrier.enqueuer.enqueuer import Enqueuer
from farrier.enqueuer.listener import Listener
from farrier.errors import RefusedByModel
from farrier.io.connections.pool import open_pool
from tests.support import loop, pg, pgbouncer, proxy, toy
from tests.support.loop import QUIET, Shop

BRIEF = timedelta(milliseconds=200)


@pytest.fixture
def prepared() -> pg.Install:
    return toy.install


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[Shop]:
    """Three widgets without a wake."""
    async with loop.opened(db) as shop:
        await shop.register(1, 2, 3)
        await shop.pool.execute("DELETE FROM farrier.wakes")
        yield shop


class Bell:
    """Records wakes and reports of missed ones."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Sequence[int] | None]] = []
        self.missed = 0
        self._changed = anyio.Event()

    def wake(self, kind: str, ids: Sequence[int] | None) -> None:
        self.heard.append((kind, ids))
        self._ring()

    def miss(self) -> None:
        self.missed += 1
        self._ring()

    async def until_heard(self, number: int) -> None:
        with anyio.fail_after(loop.PATIENCE):
            while len(self.heard) < number:
                await self._changed.wait()

    async def until_missed(self, times: int) -> None:
        with anyio.fail_after(loop.PATIENCE):
            while self.missed < times:
                await self._changed.wait()

    def _ring(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def listening(
    dsn: str, *, test_every: timedelta = timedelta(seconds=10), patience: timedelta = pg.PATIENCE
) -> AsyncIterator[Bell]:
    """A running listener; gives the bell that records its calls."""
    bell = Bell()
    listener = Listener(dsn, wake=bell.wake, missed=bell.miss, patience=patience, test_every=test_every)
    async with anyio.create_task_group() as group:
        group.start_soon(listener.run)
        await bell.until_missed(1)
        yield bell
        group.cancel_scope.cancel()


async def test_enqueue_inserts_a_wake_for_each_resource(shop: Shop) -> None:
    await Enqueuer(shop.pool).enqueue("widget", 3, 1, 3)
    assert [await shop.wakes(id_) > 0 for id_ in (1, 2, 3)] == [True, False, True]


async def test_enqueueing_a_missing_resource_is_refused_and_inserts_no_wake(shop: Shop) -> None:
    with pytest.raises(RefusedByModel, match="no widget has ID 404"):
        await Enqueuer(shop.pool).enqueue("widget", 1, 404)
    assert await shop.wakes(1) == 0


async def test_thousands_of_resources_are_enqueued_in_several_transactions(shop: Shop) -> None:
    await shop.register(*range(4, 2501))
    await shop.pool.execute("DELETE FROM farrier.wakes")
    await Enqueuer(shop.pool).enqueue("widget", *range(1, 2501))
    assert await shop.pool.fetchval("SELECT count(DISTINCT resource) FROM farrier.wakes") == 2500
    assert await shop.pool.fetchval("SELECT count(DISTINCT xact) FROM farrier.wakes") > 1


async def test_a_listener_passes_on_the_ids_in_a_notification(shop: Shop) -> None:
    async with listening(shop.db.dsn) as bell:
        await shop.ask(1)
        await bell.until_heard(1)
    assert bell.heard == [("widget", [1])]


async def test_a_malformed_notification_does_not_end_the_listener(shop: Shop) -> None:
    malformed = ["widget:one", "widget:1,9223372036854775808", "widget:-1"]
    with capture_logs() as logs:
        async with listening(shop.db.dsn) as bell:
            for text in malformed:
                await shop.pool.execute("SELECT pg_notify('farrier_wake', $1)", text)
            await shop.ask(1)
            await bell.until_heard(1)
    assert bell.heard == [("widget", [1])]
    assert [line["text"] for line in logs if line["event"] == "listen.malformed"] == malformed


async def test_a_listener_keeps_nothing_of_the_notifications_on_the_channel_of_its_tests(shop: Shop) -> None:
    """Any login may send notifications there, so a controller that kept them could be made to use any amount of
    memory."""
    async with listening(shop.db.dsn) as bell:
        tracemalloc.start()
        try:
            await shop.pool.execute(
                "SELECT pg_notify('farrier_probe', repeat('x', 7000) || i) FROM generate_series(1, 2000) i"
            )
            await shop.ask(1)
            await bell.until_heard(1)
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 4_000_000


async def test_an_insert_reaches_the_loop_without_a_poll(shop: Shop) -> None:
    handler = toy.Scripted()
    async with shop.running(handler, config=QUIET) as (controller, ledger), anyio.create_task_group() as group:
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 3)
        listener = Listener(shop.db.dsn, wake=controller.woken, missed=controller.heard_nothing)
        group.start_soon(listener.run)
        await ledger.until(lambda: ledger.woken_by["notify"] > 0)
        await shop.ask(2)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 4)
        group.cancel_scope.cancel()
    assert set(handler.order[3:]) == {2}
    assert await shop.answers() == [1]


async def kill_listener(shop: Shop) -> None:
    await shop.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )


async def test_wakes_inserted_while_the_listener_was_down_are_found_when_it_listens_again(shop: Shop) -> None:
    """No regular poll finds the wake: the listener reports that it may have missed some, which triggers a poll."""
    handler = toy.Scripted()
    async with shop.running(handler, config=QUIET) as (controller, ledger), anyio.create_task_group() as group:
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 3)
        with capture_logs() as logs:
            await shop.ask(2)
            group.start_soon(Listener(shop.db.dsn, wake=lambda *_: None, missed=controller.heard_nothing).run)
            await ledger.until(lambda: handler.order.count(2) > 1)  # the poll at the start of listening has ended
            await shop.ask(1)
            await kill_listener(shop)
            await ledger.until(lambda: handler.order.count(1) > 1)
            group.cancel_scope.cancel()
    assert "listen.lost" in [line["event"] for line in logs]
    assert await shop.answers() == [1, 1]


async def test_a_lost_listener_reconnects_and_reports_that_wakes_may_have_been_missed(shop: Shop) -> None:
    with capture_logs() as logs:
        async with listening(shop.db.dsn) as bell:
            await kill_listener(shop)
            await bell.until_missed(2)
            await shop.ask(1)
            await bell.until_heard(1)
    assert [line["event"] for line in logs] == ["listen.begun", "listen.lost", "listen.begun"]


async def test_a_silently_dead_connection_is_noticed_and_replaced(shop: Shop) -> None:
    async with (
        proxy.before(shop.db.dsn) as between,
        listening(between.dsn, test_every=BRIEF, patience=BRIEF) as bell,
    ):
        between.freeze()
        await bell.until_missed(2)
        await shop.ask(1)
        await bell.until_heard(1)


async def test_without_a_listener_the_poll_finds_the_wake(shop: Shop) -> None:
    async with shop.running(toy.Scripted()) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 3)
        await shop.ask(1)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 4)
    assert ledger.woken_by["notify"] == 0


@pytest.fixture
def pooler(db: pg.Database) -> Iterator[str]:
    """The DSN of the database through PgBouncer in transaction mode; skips the test where that is not installed."""
    with pgbouncer.before(db.dsn) as dsn:
        yield dsn


async def test_behind_a_pooler_listening_is_given_up_and_the_poll_finds_the_wakes(shop: Shop, pooler: str) -> None:
    """Eight client sessions share three of the server's, so none keeps a session of its own, as LISTEN needs."""
    await shop.register(*range(4, 201))
    opened = await open_pool(pooler, size=8, patience=pg.PATIENCE, pgbouncer=True)
    lines: list[str] = []
    try:
        io = shop.io(pool=opened)
        with capture_logs() as logs:
            async with shop.running(toy.Scripted(), io=io) as (controller, ledger), anyio.create_task_group() as group:
                listener = Listener(pooler, wake=controller.woken, missed=controller.heard_nothing, patience=BRIEF)
                group.start_soon(listener.run)
                await ledger.until(lambda: ledger.outcomes.total() >= 200)
                for id_ in (1, 2, 3):
                    await shop.ask(id_)
                await shop.until_answered(3)
                await ledger.until(lambda: any(line["event"] == "listen.lost" for line in logs))
                group.cancel_scope.cancel()
        lines = [line["event"] for line in logs]
    finally:
        opened.terminate()
    assert "listen.begun" not in lines
    assert await shop.answers() == [1, 1, 1]
