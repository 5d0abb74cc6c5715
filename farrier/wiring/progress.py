"""Measures whether the controller of this process makes progress, and whether the database commits. The watchdog and
the readiness check use this module."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import anyio
import structlog
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.io.controllers import PostgresControllers
from farrier.io.pool import Pool
from farrier.io.pulse import PostgresPulse
from farrier.model.controllers import Seen
from farrier.protocols import Clock

_log = structlog.stdlib.get_logger(__name__)

# The pause between pulses, and between checks for stored times to mend. A commit of one row every two seconds is a
# negligible load.
_PULSE_SECONDS = 2.0


class Progress:
    """Records when the controller last renewed its ownership. If a renewal returns, the controller's loop runs; if it
    succeeds, the database commits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tried = self._succeeded = clock.monotonic()

    def tried(self) -> None:
        """Record that a renewal returned, with any result."""
        self._tried = self._clock.monotonic()

    def succeeded(self) -> None:
        """Record that the database committed a renewal."""
        self._succeeded = self._clock.monotonic()

    def stalled_for(self) -> timedelta:
        """Return the time since a renewal last returned."""
        return timedelta(seconds=self._clock.monotonic() - self._tried)

    def uncommitted_for(self) -> timedelta:
        """Return the time since a renewal last succeeded."""
        return timedelta(seconds=self._clock.monotonic() - self._succeeded)


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


class WatchedControllers(PostgresControllers):
    """Wraps the controllers' storage, and records the progress of renewals."""

    def __init__(self, connections: Pool, progress: Progress) -> None:
        super().__init__(connections)
        self._progress = progress

    @override
    async def renew(self, controller: UUID, lags: Mapping[str, float]) -> Seen:
        try:
            seen = await super().renew(controller, lags)
            self._progress.succeeded()
        finally:
            self._progress.tried()
        return seen
