"""Enqueues resources from Python, as `SELECT farrier.enqueue(…)` does from SQL.

Used by the CLI and by programs that embed the controller. Needs no running controller: a wake is a row, and the next
owner of the resource finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from farrier.protocols import Wakes

# How many resources one statement and its notification have. Both are short, so that commits of other processes do not
# queue behind them.
_AT_ONCE = 1000


class Enqueuer:
    """Makes handlers run as soon as possible."""

    def __init__(self, wakes: Wakes) -> None:
        self._wakes = wakes

    async def enqueue(self, kind: str, *ids: int) -> None:
        """Enqueue these resources, a thousand in a transaction. Raises `RefusedByModel`, and enqueues none of a
        transaction, if one of its resources does not exist or has ended; raises `DatabaseUnreachable`. May be repeated
        after either error."""
        await self.enqueue_all(kind, ids)

    async def enqueue_all(self, kind: str, ids: Iterable[int]) -> None:
        """As `enqueue`, for an iterable of IDs. The transactions are in the order of the IDs."""
        rest = iter(sorted(set(ids)))
        while batch := list(islice(rest, _AT_ONCE)):
            await self._wakes.wake(kind, batch)
