"""The loop that keeps the history no longer than is configured: step after step of a pass that all replicas share.

Run by the daemon beside the loops over resources. Guarantees: one step at a time over all replicas, with pauses; a
database that does not answer, or refuses, is tried again, and never ends the daemon.
"""

from __future__ import annotations

from datetime import timedelta

import anyio
import structlog

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.protocols import Retention

_log = structlog.stdlib.get_logger(__name__)

# The longest sleep: a pass that another replica left unfinished goes on after it.
_LOOK_EVERY = timedelta(minutes=1)
# The shortest: whatever the database says of the next step.
_LEAST = timedelta(milliseconds=100)


class Keeper:
    """Removes what is older than it need be. `run` never ends by itself."""

    def __init__(self, retention: Retention, *, keep: timedelta) -> None:
        self._retention = retention
        self._keep = keep

    async def run(self) -> None:
        while True:
            pause = await self.turn()
            await anyio.sleep(pause.total_seconds())

    async def turn(self) -> timedelta:
        """Take the next step if it is due; answers how long to wait before the next turn."""
        try:
            done = await self._retention.step(self._keep)
        except (DatabaseUnreachable, RefusedByModel) as failure:
            _log.warning("history.not_pruned", error=str(failure), label=failure.label)
            return _LOOK_EVERY
        if done.ended:
            kept = done.looked - done.deleted
            _log.info("history.pruned", deleted=done.deleted, kept=kept, seconds=round(done.took.total_seconds(), 1))
        return max(_LEAST, min(done.due_in, _LOOK_EVERY))
