"""Shared by the tests of regions: a running site with a simulated region, and machines in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.sim.maas import Region
from tests.support import pg
from tests.support import site as sites


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[sites.Site]:
    """A site whose region has no machine yet."""
    async with sites.opened(db, region=Region()) as opened:
        await opened.settled()
        yield opened
