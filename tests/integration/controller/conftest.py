"""What the tests of the loop share: a database with widgets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support import loop, pg


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[loop.Shop]:
    """An empty shop in this test's database."""
    async with loop.opened(db) as opened:
        yield opened
