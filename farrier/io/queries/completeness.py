"""The time up to which history is complete.

A change has the time of its statement, but becomes visible only with its commit. So an open transaction may still add
changes that are older than changes that are visible now. If a reader continues after the last change that it read, it
would miss these older changes. So a reader does not read changes that are later than the time up to which history is
complete.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import anyio

from farrier.io import statements
from farrier.io.connections.pool import Connection

_WRITERS = statements.load("queries/writers")

# The longest time between the beginning of a statement and its first row of history. A commit waits for locks in
# between, for at most one second each.
_MARGIN = timedelta(seconds=3)
# The assumed age of a transaction that was already open when this process first looked. No transaction of farrier lasts
# so long.
_UNKNOWN_AGE = timedelta(minutes=1)


class Horizon:
    """Remembers the earliest time at which each open transaction may have begun to write history. Each process that
    reads history has one instance."""

    def __init__(self) -> None:
        self._began: dict[str, datetime] = {}
        self._looked: datetime | None = None
        self._one_at_a_time = anyio.Lock()

    async def settled(self, conn: Connection) -> datetime:
        """Return the time before which no further change can become visible. A query after this call sees all changes
        before this time."""
        async with self._one_at_a_time:
            (record,) = await conn.fetch(_WRITERS)
            return self.advance(record["now"], record["writers"])

    def advance(self, now: datetime, writers: Collection[str]) -> datetime:
        """Compute the result of `settled`. `writers` are the transactions that write history at `now`. If a transaction
        was not open at the last call, it began after the last call."""
        first = now - _UNKNOWN_AGE if self._looked is None else min(now, self._looked)
        self._began = {writer: self._began.get(writer, first) for writer in writers}
        self._looked = now
        return min([now, *self._began.values()]) - _MARGIN
