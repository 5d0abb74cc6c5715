"""Shared by all tests of parts that work together."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from farrier.controller import agenda, steps
from farrier.io.connections import pool
from farrier.io.connections.pool import Connection
from farrier.model.loop.doors import DoorKind
from farrier.web.server.backend import Backend
from tests.support import logins, pg
from tests.support.site import Site, opened
from tests.support.web import backend_on, client_of, open_site


@pytest.fixture(autouse=True)
def nothing_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads, marks and questions about interruptions are sent at once. The delays that collect several of them into one
    statement would be most of the time of a test. The delay of loads would never end on a clock that stands still."""
    monkeypatch.setattr(agenda, "_TOGETHER_AFTER", 0.0)
    monkeypatch.setattr(steps, "_MARK_EVERY", 0.0)
    monkeypatch.setattr(steps, "_ASK_AT_MOST_EVERY", 0.0)


@pytest.fixture
async def backend(db: pg.Database) -> AsyncIterator[Backend]:
    dsn = await logins.dsn_of(db, *logins.ROLES[DoorKind.PAGES])
    connections = await pool.open_pool(dsn, size=3, patience=pg.PATIENCE)
    try:
        yield backend_on(connections, dsn)
    finally:
        connections.terminate()


@pytest.fixture
async def web(backend: Backend) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(open_site(backend)) as client:
        yield client


@pytest.fixture
async def conn(db: pg.Database) -> AsyncIterator[Connection]:
    async with db.connect() as connection:
        yield connection


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[Site]:
    """A node, and the loop that answers."""
    async with opened(db) as site:
        await site.register("gpu-1")
        yield site
