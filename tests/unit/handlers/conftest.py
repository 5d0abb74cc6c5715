"""Shared by the tests of stages: a node with a simulated region."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.stages import Stand, open_stand


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    """A node that is not in MAAS yet."""
    async with open_stand() as stand:
        yield stand
