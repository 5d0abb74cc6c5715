"""The pulse: a small commit. It shows that the database commits, and detects that its clock was set back.

The daemon calls `beat` every few seconds, and then mends stored times in batches.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from farrier.errors import DatabaseUnreachable
from farrier.io import session, statements
from farrier.io.pool import Pool

_BEAT = statements.load("pulse/beat")
_MEND = statements.load("pulse/mend")

# A batch takes a fifth of a second, and locks its rows for this time.
BATCH = 500


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a batch: whether more is left for this process and, after the last batch, by how much the clock was
    set back."""

    more: bool
    done: timedelta | None


class PostgresPulse:
    """The pulse of one process."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def beat(self) -> timedelta | None:
        """Commit one pulse, as durably as the server is configured to commit. Returns by how much the clock was set
        back since the last pulse of any process, None if it was not. Raises `DatabaseUnreachable`."""
        back: timedelta | None = (await self._fetch(_BEAT))[0]
        return back

    async def mend(self, at_most: int = BATCH) -> Mended:
        """Mend at most `at_most` rows, unless another process mends now. Raises `DatabaseUnreachable`."""
        return Mended(**await self._fetch(_MEND, at_most))

    async def _fetch(self, statement: str, *args: object) -> Any:
        try:
            async with session.borrowed(self._pool) as conn:
                return await conn.fetchrow(statement, *args)
        except session.Refusal as refusal:
            raise DatabaseUnreachable("the pool", session.reason_of(refusal)) from refusal
