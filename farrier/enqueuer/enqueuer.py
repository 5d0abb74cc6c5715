"""Enqueues resources from Python, as `SELECT farrier.enqueue(…)` does from SQL.

Used by the CLI and by programs that embed the controller. Needs no running controller: a wake is a row, and the next
owner of the resource finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from farrier.protocols import Wakes

# Number of resources in one statement and its notification. Both are short, so that commits of other processes do not
# have to wait.
_AT_ONCE = 1000


class Enqueuer:
    """Makes handlers run as soon as possible."""

    def __init__(self, wakes: Wakes) -> None:
        self._wakes = wakes

    async def enqueue(self, kind: str, *ids: int) -> None:
        """Enqueue these resources, a thousand in each transaction. If a resource does not exist or has ended, raises
        `RefusedByModel`, and enqueues no resource of the same transaction. Also raises `DatabaseUnreachable`. After
        either error, the call may be repeated."""
        await self.enqueue_all(kind, ids)

    async def enqueue_all(self, kind: str, ids: Iterable[int]) -> None:
        """The same as `enqueue`, for an iterable of IDs. The transactions are in the order of the IDs."""
        rest = iter(sorted(set(ids)))
        while batch := list(islice(rest, _AT_ONCE)):
            await self._wakes.wake(kind, batch)
