"""Shared by the tests of partitions: a site with a simulated UFM, on a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support import partitions, pg


@pytest.fixture
async def fabric(db: pg.Database) -> AsyncIterator[partitions.Fabric]:
    async with partitions.opened(db) as opened:
        yield opened


@pytest.fixture
async def every_fabric(every_db: pg.Database) -> AsyncIterator[partitions.Fabric]:
    """A fabric on each supported server in turn, for tests of behaviour that is implemented in SQL."""
    async with partitions.opened(every_db) as opened:
        yield opened
