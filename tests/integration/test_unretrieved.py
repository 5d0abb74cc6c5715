"""No task fails without being awaited: asyncio would log an exception that was never retrieved."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from farrier.enqueuer.listener import Listener
from farrier.errors import DatabaseUnreachable
from farrier.io.connections import pool
from farrier.io.connections.pool import Pool, Timeouts
from farrier.io.connections.session import borrowed
from tests.support import pg, proxy

BRIEF = Timeouts(connect=timedelta(seconds=0.3), statement=timedelta(seconds=0.3))
# Tasks that the driver starts and never awaits: closing a connection, and cancelling a statement.
ENDINGS = ("close", "_cancel")
Fault = Callable[[proxy.Proxy, Pool], Awaitable[None]]


@pytest.fixture
async def left_behind() -> AsyncIterator[list[str]]:
    """The errors that asyncio reported; the list is complete after a call of `collected`."""
    found: list[str] = []

    def note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        found.append(f"{context['message']} {context.get('exception')!r}")

    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(note)
    yield found
    loop.set_exception_handler(before)


async def collected() -> None:
    """Return once the driver's own tasks have ended and are garbage-collected."""
    with anyio.fail_after(pg.PATIENCE.total_seconds()):
        while own := [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") in ENDINGS]:
            await asyncio.wait(own)
    gc.collect()
    await anyio.lowlevel.checkpoint()


async def used(connections: Pool, statement: str = "SELECT 1") -> None:
    with pytest.raises(DatabaseUnreachable):
        async with borrowed(connections) as conn:
            await conn.fetch(statement)


async def vanishes(front: proxy.Proxy, connections: Pool) -> None:
    """The server vanishes. A task of the driver closes the idle connection when the pool gives it out."""
    front.drop()
    await used(connections)
    await used(connections)


async def vanishes_while_a_statement_is_cancelled(front: proxy.Proxy, connections: Pool) -> None:
    front.drop()
    with anyio.move_on_after(0.05):
        async with borrowed(connections) as conn:
            await conn.fetch("SELECT 1")
    await used(connections)


async def cuts_a_connection(front: proxy.Proxy, connections: Pool) -> None:
    front.cut_after(b"pg_sleep(0.01)")
    await used(connections, "SELECT pg_sleep(0.01)")


@pytest.mark.parametrize("happens", [vanishes, vanishes_while_a_statement_is_cancelled, cuts_a_connection])
async def test_a_server_that_fails_leaves_no_failed_task(
    db: pg.Database, left_behind: list[str], happens: Fault
) -> None:
    async with proxy.before(db.dsn) as front:
        connections = await pool.open_pool(front.dsn, size=2, patience=pg.PATIENCE, timeouts=BRIEF)
        async with borrowed(connections), borrowed(connections):
            pass  # opens both connections
        await happens(front, connections)
        await collected()
        connections.terminate()
    await collected()
    assert left_behind == []


async def test_a_listener_whose_server_vanishes_leaves_no_failed_task(db: pg.Database, left_behind: list[str]) -> None:
    async with proxy.before(db.dsn) as front:
        # The server vanishes when the listener has begun to listen.
        listener = Listener(
            front.dsn,
            wake=lambda *_: None,
            missed=front.drop,
            timeouts=BRIEF,
            patience=timedelta(seconds=0.3),
            test_every=timedelta(0),
        )
        with pytest.raises(DatabaseUnreachable):
            await listener.listen()
    await collected()
    assert left_behind == []
