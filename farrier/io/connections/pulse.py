"""The pulse: a small commit, which shows that the database commits and detects whether the database's clock was set
back.

The daemon runs `keep_beating` and `keep_mending` beside the loops. If the clock was set back, `keep_mending` corrects
the stored times in batches.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

import anyio
import msgspec
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool

_log = structlog.stdlib.get_logger(__name__)

_BEAT = statements.load("pulse/beat")
_MEND = statements.load("pulse/mend")

# A batch takes a fifth of a second, and locks its rows for this time.
BATCH = 500
# The pause between pulses, and between checks for stored times to mend. A commit of one row every two seconds is a
# negligible load.
_PULSE_SECONDS = 2.0


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a batch: whether this process has more rows to correct and, after the last batch, by how much the
    clock was set back."""

    more: bool
    done: timedelta | None


class PostgresPulse:
    """The pulse of one process."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def keep_beating(self) -> NoReturn:
        """Commit a pulse every few seconds, until cancelled. If a pulse fails, this is logged."""
        while True:
            try:
                back = await self.beat()
            except DatabaseUnreachable as error:
                _log.warning("pulse.failed", error=str(error))
            else:
                if back is not None:
                    _log.warning("clock.mend_began", set_back_by=round(back.total_seconds(), 1))
            await anyio.sleep(_PULSE_SECONDS)

    async def keep_mending(self) -> NoReturn:
        """Correct stored times until cancelled. Runs in parallel with `keep_beating`, so that a batch that waits for
        rows does not delay a pulse. If a batch fails, it is repeated."""
        while True:
            try:
                while (batch := await self.mend()).more:
                    pass
            except DatabaseUnreachable as error:
                _log.warning("clock.mend_failed", error=str(error))
            else:
                if batch.done is not None:
                    _log.warning("clock.mended", set_back_by=round(batch.done.total_seconds(), 1))
            await anyio.sleep(_PULSE_SECONDS)

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
