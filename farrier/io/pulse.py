"""The pulse: a small commit, which shows that the database commits and detects whether the database's clock was set
back.

The daemon calls `beat` every few seconds. If the clock was set back, it then corrects stored times in batches (`mend`).
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from farrier.io import session, statements
from farrier.io.pool import Pool

_BEAT = statements.load("pulse/beat")
_MEND = statements.load("pulse/mend")

# A batch takes a fifth of a second, and locks its rows for this time.
BATCH = 500


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a batch: whether this process has more rows to correct and, after the last batch, by how much the
    clock was set back."""

    more: bool
    done: timedelta | None


class PostgresPulse:
    """The pulse of one process."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def beat(self) -> timedelta | None:
        """Commit one pulse, as durably as the server is configured to commit. Returns by how much the clock was set
        back since the last pulse of any process, or None if it was not set back. Raises `DatabaseUnreachable`."""
        (record,) = await session.fetch(self._pool, _BEAT)
        back: timedelta | None = record[0]
        return back

    async def mend(self, at_most: int = BATCH) -> Mended:
        """Correct the stored times of at most `at_most` rows, unless another process does so now. Raises
        `DatabaseUnreachable`."""
        (record,) = await session.fetch(self._pool, _MEND, at_most)
        return Mended(**record)
