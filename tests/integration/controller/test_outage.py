"""The database goes away while the loop runs: the loop survives, and no request is lost or carried out twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from farrier.io.connections.embedded import EmbeddedServer
from farrier.model.loop.outcome import Transition
from tests.support import loop, pg, toy
from tests.support.loop import Shop
from tests.support.replica import Replica, at_work
from tests.support.toy import Decided, Scripted, Shape, State, Widget, answered


def turn(widget: Widget, _now: object) -> Decided:
    """Move the widget to its other state if it has open requests, and answer them."""
    if not widget.requests:
        return toy.content(widget, widget.entered_at)
    to = State.MADE if widget.state is State.RAW else State.RAW
    return Transition(to=Shape(to), reason="asked", cause="request", writes=answered(widget))


async def kill_backends(shop: Shop) -> None:
    """End every other session of the database."""
    async with shop.db.connect() as conn:
        await conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def ask(shop: Shop, widget: int) -> None:
    async with shop.db.connect() as client:
        await toy.ask(client, widget)


@pytest.mark.parametrize("rounds", [4, pytest.param(15, marks=pytest.mark.full)])
async def test_killing_all_sessions_repeatedly_loses_and_doubles_no_request(shop: Shop, rounds: int) -> None:
    widgets = range(1, 11)
    await shop.register(*widgets)
    async with shop.running(Scripted(default=turn)) as (_, ledger):
        for _ in range(rounds):
            begun = ledger.outcomes.total()
            for widget in widgets:
                await ask(shop, widget)
            await ledger.until(lambda: ledger.outcomes.total() > begun)  # noqa: B023 (awaited in this turn)
            await kill_backends(shop)
        await shop.db.until("SELECT NOT EXISTS (SELECT FROM farrier_toy.requests WHERE answers = 0)")
    await shop.pool.expire_connections()
    assert set(await shop.answers()) == {1}
    for widget in widgets:
        latest = await shop.pool.fetchval(
            "SELECT max(version) FROM farrier.history WHERE kind = 'widget' AND id = $1", widget
        )
        # Settling a commit whose reply was lost may add a version without history.
        assert latest is not None
        assert (await shop.widget(widget))["version"] >= latest


@pytest.fixture
async def mortal() -> AsyncIterator[tuple[EmbeddedServer, Shop]]:
    """A server of this test's own, which it may stop."""
    with TemporaryDirectory(prefix="farrier-test-mortal-") as directory:
        server = EmbeddedServer(Path(directory), settings=pg.FAST)
        await anyio.to_thread.run_sync(server.start)
        try:
            async with pg.database_of(server.dsn_of) as db, loop.opened(db) as shop:
                yield server, shop
        finally:
            await anyio.to_thread.run_sync(server.stop)


async def test_after_a_restart_of_the_server_the_loop_goes_on(
    mortal: tuple[EmbeddedServer, Shop],
) -> None:
    server, shop = mortal
    await shop.register(1)
    async with shop.running(Scripted(default=turn)) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() == 1)
        await anyio.to_thread.run_sync(server.stop)
        polls = ledger.woken_by["poll"]
        await ledger.until(lambda: ledger.woken_by["poll"] > polls + 3)
        await anyio.to_thread.run_sync(server.start)
        await ask(shop, 1)
        await ledger.until(lambda: bool(ledger.moves))
    assert ledger.moves == [("raw", "made")]
    assert await shop.answers() == [1]


async def test_a_controller_without_a_database_continues_its_rounds(shop: Shop) -> None:
    """Its watchdog must not end the process, because another process could not reach the database either."""
    replica = Replica(shop)
    async with at_work(replica):
        replica.rounds.cut_off = True
        await replica.pass_seconds(60)
        assert replica.controller.stalled_for() < timedelta(seconds=3)
        assert replica.controller.uncommitted_for() > timedelta(seconds=50)
        replica.rounds.cut_off = False
        await replica.round()
        assert replica.controller.uncommitted_for() < timedelta(seconds=3)
