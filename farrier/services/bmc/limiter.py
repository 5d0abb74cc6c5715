"""Limits concurrency to one call per BMC at a time, and to a maximum number of BMCs at a time.

Every call waits here before its deadline begins, so a call never fails because of the wait. A long call releases its
slot while it continues, so a slow BMC does not delay calls to other BMCs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from weakref import WeakValueDictionary

from yarl import URL


class BmcLimiter:
    """The limiter. At most `slots` BMCs have a slot at a time, each for at most `patience`."""

    def __init__(self, slots: int, patience: timedelta) -> None:
        # Unlike those of anyio, these locks cost a call that need not wait less than a microsecond.
        self._slots = asyncio.Semaphore(slots)
        self._patience = patience.total_seconds()
        # The map contains a lock while a call has the lock or waits for it.
        self._one_at_a_time: WeakValueDictionary[URL, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(self, bmc: URL) -> AsyncIterator[None]:
        """Wait until no other call uses this BMC and a slot is free. The block has exclusive use of the BMC until the
        block ends, but has the slot for at most `patience`."""
        lock = self._one_at_a_time.setdefault(bmc, asyncio.Lock())
        async with lock:
            await self._slots.acquire()
            with ExitStack() as slot:  # it releases the slot only once
                slot.callback(self._slots.release)
                timer = asyncio.get_running_loop().call_later(self._patience, slot.close)
                try:
                    yield
                finally:
                    timer.cancel()
