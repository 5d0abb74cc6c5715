"""Commits pulses, by which the database detects that its clock was set back, and corrects the times stored before."""

from __future__ import annotations

import anyio
import structlog

from farrier.errors import DatabaseUnreachable
from farrier.io.pulse import PostgresPulse

_log = structlog.stdlib.get_logger(__name__)

# The pause between pulses, and between checks for stored times to mend. A commit of one row every two seconds is a
# negligible load.
_PULSE_SECONDS = 2.0


class Pulse:
    """Commits a pulse every few seconds, and corrects times that were stored before the clock was set back."""

    def __init__(self, pulse: PostgresPulse) -> None:
        self._pulse = pulse

    async def run(self) -> None:
        """Commit pulses until cancelled. If a pulse fails, this is logged."""
        while True:
            try:
                back = await self._pulse.beat()
            except DatabaseUnreachable as error:
                _log.warning("pulse.failed", error=str(error))
            else:
                if back is not None:
                    _log.warning("clock.mend_began", set_back_by=round(back.total_seconds(), 1))
            await anyio.sleep(_PULSE_SECONDS)

    async def mend(self) -> None:
        """Correct stored times until cancelled. `mend` runs beside `run`, so a batch that waits for rows does not delay
        a pulse. If a batch fails, it is repeated."""
        while True:
            try:
                while (batch := await self._pulse.mend()).more:
                    pass
            except DatabaseUnreachable as error:
                _log.warning("clock.mend_failed", error=str(error))
            else:
                if batch.done is not None:
                    _log.warning("clock.mended", set_back_by=round(batch.done.total_seconds(), 1))
            await anyio.sleep(_PULSE_SECONDS)
