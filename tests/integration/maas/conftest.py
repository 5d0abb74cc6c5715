"""Shared by the tests of whole nodes in MAAS: a running site with a simulated region whose operations are quick."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.sim.maas import Region
from tests.support import pg
from tests.support import site as sites
from tests.support.onboarded import QUICK, UNSYNCED
from tests.support.wire import Wire


@pytest.fixture
def wire() -> Wire:
    """The transport between the site's client and its region."""
    return Wire(Region(durations=QUICK))


@pytest.fixture
async def site(db: pg.Database, wire: Wire) -> AsyncIterator[sites.Site]:
    """A site whose region has no machine yet."""
    async with sites.opened(db, region=wire, config=UNSYNCED) as opened:
        await opened.settled()
        yield opened
