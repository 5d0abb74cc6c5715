"""Shared by the tests of the loop: a database with widgets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support import loop, pg, toy


@pytest.fixture
def prepared() -> pg.Install:
    return toy.install


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[loop.Shop]:
    """An empty shop in this test's database."""
    async with loop.opened(db) as opened:
        yield opened
