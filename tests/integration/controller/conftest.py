"""Shared by the tests of the loop: a database with widgets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.controller import agenda
from tests.support import loop, pg


@pytest.fixture(autouse=True)
def nothing_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load at once: with a clock that stands still, the delay that collects loads into one would never end."""
    monkeypatch.setattr(agenda, "_TOGETHER_AFTER", 0.0)


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[loop.Shop]:
    """An empty shop in this test's database."""
    async with loop.opened(db) as opened:
        yield opened
