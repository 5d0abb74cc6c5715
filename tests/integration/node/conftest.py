"""What the tests of nodes share: a site at work."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support import pg
from tests.support import site as sites


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[sites.Site]:
    """An empty site in this test's database."""
    async with sites.opened(db) as opened:
        yield opened
