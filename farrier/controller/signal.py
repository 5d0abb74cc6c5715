"""A wake-up that cannot be lost: set before or during the wait, it ends the wait."""

from __future__ import annotations

from datetime import timedelta

import anyio


class Wakeup:
    """Many setters, one waiter."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._source = "poll"

    def set(self, source: str) -> None:
        """Wake the task that waits. May be called any number of times."""
        self._source = source
        self._event.set()

    async def wait(self, timeout: timedelta) -> str:
        """Until the next signal, at most `timeout`; returns its source, or `poll`."""
        return await self.wait_seconds(timeout.total_seconds())

    async def wait_seconds(self, timeout: float) -> str:
        """The same for a number of seconds."""
        with anyio.move_on_after(timeout):
            await self._event.wait()
        if not self._event.is_set():
            return "poll"
        self._event = anyio.Event()
        return self._source
