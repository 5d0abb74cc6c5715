"""Shared by all tests of parts that work together."""

from __future__ import annotations

import pytest

from farrier.controller import agenda, steps


@pytest.fixture(autouse=True)
def nothing_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads, marks and questions about interruptions are sent at once. The delays that collect several of them into one
    statement would be most of the time of a test. The delay of loads would never end on a clock that stands still."""
    monkeypatch.setattr(agenda, "_TOGETHER_AFTER", 0.0)
    monkeypatch.setattr(steps, "_MARK_EVERY", 0.0)
    monkeypatch.setattr(steps, "_ASK_AT_MOST_EVERY", 0.0)
