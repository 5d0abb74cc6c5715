"""Enqueues resources from Python, as `SELECT farrier.enqueue(…)` does from SQL.

Used by the CLI and by programs that embed the controller. Needs no running controller: a wake is a row, and the next
owner of the resource finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from farrier.protocols import Wakes

# One statement and one notification for so many. Each is short, so that commits of others do not queue behind it.
_AT_ONCE = 1000


class Enqueuer:
    """Makes handlers run as soon as possible."""

    def __init__(self, wakes: Wakes) -> None:
        self._wakes = wakes

    async def enqueue(self, kind: str, *ids: int) -> None:
        """Enqueue these resources. Raises `RefusedByModel` if one of them does not exist or has ended, and then
        enqueues none of its thousand; `DatabaseUnreachable`. May be repeated after either."""
        await self.enqueue_all(kind, ids)

    async def enqueue_all(self, kind: str, ids: Iterable[int]) -> None:
        """The same for any number, a thousand to a transaction, in the order of ids."""
        rest = iter(sorted(set(ids)))
        while batch := list(islice(rest, _AT_ONCE)):
            await self._wakes.wake(kind, batch)
