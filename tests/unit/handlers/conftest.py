"""Shared by the tests of stages: a node with a simulated region."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.machines import slow_region
from tests.support.stages import Stand, open_stand
from tests.support.stages import stand as stand_on


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    """A node that is not in MAAS yet."""
    async with open_stand() as stand:
        yield stand


@pytest.fixture
async def slow() -> AsyncIterator[Stand]:
    """A node that is not in MAAS yet, of a region that takes a minute to switch power."""
    async with stand_on(slow_region()) as stand:
        yield stand
