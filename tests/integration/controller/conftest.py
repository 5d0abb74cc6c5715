"""What the tests of the loop share: a database with widgets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.controller import agenda
from tests.support import loop, pg


@pytest.fixture(autouse=True)
def nothing_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that a hand moves would wait for ever until old snapshots are loaded together."""
    monkeypatch.setattr(agenda, "_TOGETHER_AFTER", 0.0)


@pytest.fixture
async def shop(db: pg.Database) -> AsyncIterator[loop.Shop]:
    """An empty shop in this test's database."""
    async with loop.opened(db) as opened:
        yield opened
