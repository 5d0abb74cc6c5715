"""The pulse: a small commit. It shows that the database commits, and mends stored times after its clock was set back.

Called by the daemon every few seconds.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.errors import DatabaseUnreachable
from farrier.io import session, statements
from farrier.io.pool import Pool

_BEAT = statements.load("pulse/beat")


class PostgresPulse:
    """The pulse of one process."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def beat(self) -> timedelta | None:
        """Commit one pulse, on disk and wherever else a commit is to be. Returns by how much the clock was set back
        since the last pulse of any process, None if it was not. Raises `DatabaseUnreachable`."""
        try:
            async with session.borrowed(self._pool) as conn:
                back: timedelta | None = await conn.fetchval(_BEAT)
                return back
        except session.Refusal as refusal:
            raise DatabaseUnreachable("the pool", session.reason_of(refusal)) from refusal
