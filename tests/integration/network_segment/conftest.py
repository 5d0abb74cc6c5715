"""Shared by the tests of network segments."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support import pg, segments


@pytest.fixture
async def lan(every_db: pg.Database) -> AsyncIterator[segments.Lan]:
    """A database without a segment."""
    async with segments.opened(every_db, pool_size=20) as opened:
        yield opened
