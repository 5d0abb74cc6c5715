"""Lets the other tasks of a process run while one task works on many items.

Slices end by time, because the work on an item depends on the item and on the machine.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TypeVar

import anyio

T = TypeVar("T")

SLICE = 0.0003
"""After this time in seconds, the work on many items lets other tasks run. A wake waits for the rest of one slice, and
for the item that ends it, which together take less than half a millisecond."""


async def sliced(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items. If the work on them has blocked other tasks for `SLICE`, let these run before the next item."""
    ends = time.perf_counter() + SLICE
    for item in items:
        if time.perf_counter() > ends:
            await anyio.lowlevel.checkpoint()
            ends = time.perf_counter() + SLICE
        yield item


def taken_in_slice(items: list[T]) -> Iterator[T]:
    """Yield items until the work on them has blocked other tasks for `SLICE`. At the end, the yielded items are removed
    from the list, and the others remain."""
    ends, count = time.perf_counter() + SLICE, 0
    for item in items:
        yield item
        count += 1
        if time.perf_counter() > ends:
            break
    del items[:count]
