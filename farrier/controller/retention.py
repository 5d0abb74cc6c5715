"""The loop that keeps the history no longer than is configured: step after step of a pass that all replicas share.

Run by the daemon beside the loops over resources. Guarantees: one step at a time over all replicas, with pauses; a
database that does not answer, or refuses, is tried again, and never ends the daemon.
"""

from __future__ import annotations

from datetime import timedelta

import anyio
import structlog

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel
from farrier.model.history import Retained
from farrier.protocols import Retention

_log = structlog.stdlib.get_logger(__name__)

# The longest sleep: a pass that another replica left unfinished goes on after it.
_LOOK_EVERY = timedelta(minutes=1)
# The shortest: whatever the database says of the next step.
_LEAST = timedelta(milliseconds=100)
# For one step, which takes a tenth of a second. A connection that fell silent never answers.
_PATIENCE = timedelta(minutes=1)


class Keeper:
    """Removes what is older than it need be. `run` never ends by itself."""

    def __init__(self, retention: Retention, *, keep: timedelta, patience: timedelta = _PATIENCE) -> None:
        """`patience`: how long a step may take."""
        self._retention = retention
        self._keep = keep
        self._patience = patience.total_seconds()

    async def run(self) -> None:
        while True:
            pause = await self.turn()
            await anyio.sleep(pause.total_seconds())

    async def turn(self) -> timedelta:
        """Take the next step if it is due; answers how long to wait before the next turn."""
        try:
            with anyio.fail_after(self._patience):
                done = await self._retention.step(self._keep)
        except TimeoutError:
            failure: FarrierError = DatabaseUnreachable("the pool", f"no response within {self._patience:g} s")
        except (DatabaseUnreachable, RefusedByModel) as refused:
            failure = refused
        else:
            return self._next(done)
        _log.warning("history.not_pruned", error=str(failure), label=failure.label)
        return _LOOK_EVERY

    def _next(self, done: Retained) -> timedelta:
        if done.ended:
            kept = done.looked - done.deleted
            _log.info("history.pruned", deleted=done.deleted, kept=kept, seconds=round(done.took.total_seconds(), 1))
        return max(_LEAST, min(done.due_in, _LOOK_EVERY))
