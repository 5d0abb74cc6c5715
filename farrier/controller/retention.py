"""Removes old history. All replicas share one pass, which consists of steps.

The daemon runs it beside the loops over resources. At any time, at most one step runs on all replicas; pauses separate
the steps. If the database does not respond or refuses the step, the step is retried, and the daemon continues.
"""

from __future__ import annotations

from datetime import timedelta

import anyio
import structlog

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel
from farrier.model.history import Retained
from farrier.protocols import Retention

_log = structlog.stdlib.get_logger(__name__)

# The longest pause before this replica continues a pass that another replica left unfinished.
_LOOK_EVERY = timedelta(minutes=1)
# The shortest pause, even if the next step is due sooner.
_LEAST = timedelta(milliseconds=100)
# The time limit of one step, which takes a tenth of a second.
_PATIENCE = timedelta(minutes=1)


class Keeper:
    """Removes history that is older than `keep`. `run` ends only when cancelled."""

    def __init__(self, retention: Retention, *, keep: timedelta, patience: timedelta = _PATIENCE) -> None:
        """`patience` is how long a step may take."""
        self._retention = retention
        self._keep = keep
        self._patience = patience.total_seconds()

    async def run(self) -> None:
        while True:
            pause = await self.turn()
            await anyio.sleep(pause.total_seconds())

    async def turn(self) -> timedelta:
        """Execute the next step if it is due. Returns how long to wait before the next call."""
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
