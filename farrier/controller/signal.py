"""A wake-up that cannot be lost: set before or during the wait, it ends the wait."""

from __future__ import annotations

from datetime import timedelta

import anyio


class Wakeup:
    """`protocols.Signal` within one process. Many setters, one waiter."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._source = "poll"

    def set(self, source: str) -> None:
        self._source = source
        self._event.set()

    async def wait(self, timeout: timedelta) -> str:
        with anyio.move_on_after(timeout.total_seconds()):
            await self._event.wait()
        if not self._event.is_set():
            return "poll"
        self._event = anyio.Event()
        return self._source
