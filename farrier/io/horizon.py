"""The time up to which history is complete.

A change has the time of its statement, and becomes visible with its commit. So a transaction that is still open may add
changes from before those that are visible now. A reader that continues from its last change must not read beyond them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import anyio

from farrier.io import statements
from farrier.io.pool import Connection

_WRITERS = statements.load("queries/writers")

# The time between the beginning of a statement and its first row of history: the waits for locks in a commit, of one
# second at most each.
_MARGIN = timedelta(seconds=3)
# The age of a transaction that was there before the first look: longer than any of farrier's own.
_UNKNOWN_AGE = timedelta(minutes=1)


class Horizon:
    """Remembers since when each open transaction writes history. One for each process that reads."""

    def __init__(self) -> None:
        self._began: dict[str, datetime] = {}
        self._looked: datetime | None = None
        self._one_at_a_time = anyio.Lock()

    async def settled(self, conn: Connection) -> datetime:
        """The time up to which no change can become visible any more. Later queries see all changes from before."""
        async with self._one_at_a_time:
            (record,) = await conn.fetch(_WRITERS)
            return self.advance(record["now"], record["writers"])

    def advance(self, now: datetime, writers: Collection[str]) -> datetime:
        """The time, from the transactions that write at `now`. One that did not write at the last look began after
        it."""
        first = now - _UNKNOWN_AGE if self._looked is None else min(now, self._looked)
        self._began = {writer: self._began.get(writer, first) for writer in writers}
        self._looked = now
        return min([now, *self._began.values()]) - _MARGIN
