"""Limits concurrency: one call in flight per BMC, and a bounded number of BMCs at a time.

Used around every exchange, outside of its deadline, so that no call fails because it waits. A long call gives its place
back while it continues, so a slow BMC does not delay calls to other BMCs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from weakref import WeakValueDictionary

import anyio
from yarl import URL


class Turns:
    """The limiter: `places` BMCs at a time, each of which holds its place for at most `patience`."""

    def __init__(self, places: int, patience: timedelta) -> None:
        self._places = anyio.Semaphore(places)
        self._patience = patience.total_seconds()
        # A lock exists while a call holds it or waits for it.
        self._one_at_a_time: WeakValueDictionary[URL, anyio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, bmc: URL) -> AsyncIterator[None]:
        """Wait until no other call uses this BMC and a place is free. The block holds the BMC until its end, and the
        place for at most `patience`."""
        lock = self._one_at_a_time.setdefault(bmc, anyio.Lock())
        async with lock:
            await self._places.acquire()
            place = _Place(self._places)
            timer = asyncio.get_running_loop().call_later(self._patience, place.give_back)
            try:
                yield
            finally:
                timer.cancel()
                place.give_back()


class _Place:
    """One slot, given back at most once."""

    def __init__(self, places: anyio.Semaphore) -> None:
        self._places: anyio.Semaphore | None = places

    def give_back(self) -> None:
        places, self._places = self._places, None
        if places is not None:
            places.release()
