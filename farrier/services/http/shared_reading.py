"""A reading of a service. Concurrent callers wait for the reading together, and later callers reuse it for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeVar

import anyio

from farrier import protocols

_T = TypeVar("_T")


class SharedReading(Generic[_T]):
    """The last result of `read`, which is reused until its age reaches `kept`. If `read` fails, the next waiting caller
    repeats it."""

    def __init__(self, read: Callable[[], Awaitable[_T]], *, kept: timedelta, clock: protocols.Clock) -> None:
        self._read = read
        self._kept = kept.total_seconds()
        self._now = clock.monotonic
        self._one_at_a_time = anyio.Lock()
        self._last: tuple[float, _T] | None = None

    async def get(self) -> _T:
        async with self._one_at_a_time:
            asked = self._now()
            if self._last is None or asked - self._last[0] >= self._kept:
                self._last = asked, await self._read()
            return self._last[1]
