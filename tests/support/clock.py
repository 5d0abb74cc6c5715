"""A monotonic clock that a test moves, and a pause that takes no time."""

from __future__ import annotations

from datetime import timedelta

import anyio


class HandClock:
    """Stands still until the test advances it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by.total_seconds()


async def no_pause(_seconds: float) -> None:
    """Do not wait between the tries of a request."""
    await anyio.lowlevel.checkpoint()
