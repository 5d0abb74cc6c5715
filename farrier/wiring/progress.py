"""Whether the claim loops of this process turn, and whether the database commits: for the watchdog and readiness."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import anyio
import structlog
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.io.pool import Pool
from farrier.io.pulse import PostgresPulse
from farrier.io.state import PostgresStateIO, Rows
from farrier.model.schedule import Claim, Lane
from farrier.protocols import Clock

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")


_log = structlog.stdlib.get_logger(__name__)

# Readiness and the mending of times are late by as much; a commit of one row is nothing to any server.
_PULSE_SECONDS = 2.0


class Progress:
    """Whether the claim loops live. A claim that failed proves that the loop turns, one that succeeded that
    the database answers, and a pulse that it commits."""

    def __init__(self, clock: Clock, kinds: Sequence[str]) -> None:
        self._clock = clock
        self._tried = {(kind, lane): clock.monotonic() for kind in kinds for lane in Lane}
        self._succeeded = clock.monotonic()
        self._committed = clock.monotonic()
        self.first_claim = anyio.Event()

    def tried(self, kind: str, lane: Lane) -> None:
        """A claim came back, whatever it said."""
        self._tried[kind, lane] = self._clock.monotonic()

    def succeeded(self) -> None:
        """The database answered a claim."""
        self._succeeded = self._clock.monotonic()
        self.first_claim.set()

    def committed(self) -> None:
        """The database committed."""
        self._committed = self._clock.monotonic()

    def uncommitted_for(self) -> timedelta:
        """How long nothing is known to have been committed."""
        return timedelta(seconds=self._clock.monotonic() - self._committed)

    def stalled_for(self) -> timedelta:
        """How long the slowest of the lanes has not come back from a claim."""
        return timedelta(seconds=self._clock.monotonic() - min(self._tried.values()))

    def unanswered_for(self) -> timedelta:
        """How long no claim has succeeded."""
        return timedelta(seconds=self._clock.monotonic() - self._succeeded)


class Pulse:
    """Commits a pulse every few seconds, and notes it; mends what was stored before the clock was set back."""

    def __init__(self, pulse: PostgresPulse, progress: Progress) -> None:
        self._pulse = pulse
        self._progress = progress

    async def run(self) -> None:
        """For ever: a database that does not commit now is asked again."""
        while True:
            try:
                back = await self._pulse.beat()
            except DatabaseUnreachable as error:
                _log.warning("pulse.failed", error=str(error))
            else:
                self._progress.committed()
                if back is not None:
                    _log.warning("clock.mend_began", set_back_by=round(back.total_seconds(), 1))
            await anyio.sleep(_PULSE_SECONDS)

    async def mend(self) -> None:
        """For ever, beside `run`: a batch that waits for rows delays no pulse, and one that fails is done again."""
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


class WatchedIO(PostgresStateIO[R, S, W]):
    """Storage of one kind that notes the progress of its claims."""

    def __init__(
        self, connections: Pool, rows: Rows[R, S, W], progress: Progress, *, owner: UUID, lease: timedelta
    ) -> None:
        super().__init__(connections, rows, owner=owner, lease=lease)
        self._kind = rows.kind
        self._progress = progress

    @override
    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        try:
            claim = await super().claim(lane, limit, floor)
            self._progress.succeeded()
        finally:
            self._progress.tried(self._kind, lane)
        return claim
