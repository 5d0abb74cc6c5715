"""The runs whose rows other transactions have locked.

A session may keep a row locked for hours, such as after a forgotten BEGIN. The commit of a run whose rows are locked is
repeated until `PATIENCE` is over; then the loop reports the lock as the outcome of the resource, and runs the resource
again later. As long as the rows of a resource are locked, the commits of its runs stay apart from all other commits.
The module does no I/O; `now` is this process' monotonic time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from farrier.controller.agenda import AgendaEntry
from farrier.controller.runner import Run
from farrier.controller.signal import Bell
from farrier.model.loop.runs import CommitResult, CommitVerdict, Finished

R = TypeVar("R")

# A run that ended, with its entry.
Ended: TypeAlias = tuple[AgendaEntry[R], Run[Any, Any, Any]]

# How long the commit of one run is repeated, in seconds. Most transactions of clients are shorter.
PATIENCE = 1.0
# The pause between two attempts, in seconds.
AGAIN_AFTER = 0.1


class Locked(Generic[R]):
    """Runs that wait for locks, and the resources whose rows were locked at their last commit."""

    def __init__(self) -> None:
        self.added = Bell()
        self.waiting: list[Ended[R]] = []
        self._since: dict[int, float] = {}  # resource → when its rows were first found locked, or last reported

    def takes(self, ended: Ended[R]) -> bool:
        """Take over the run if the rows of its resource were locked at the last commit. Returns whether they were."""
        if ended[0].id not in self._since:
            return False
        self._add(ended)
        return True

    def sort(
        self, batch: Sequence[Ended[R]], results: Mapping[int, CommitResult], now: float
    ) -> tuple[set[int], list[Finished[Any, Any]]]:
        """Record the results of a commit. Returns the resources of locked runs whose commits are repeated, and the
        locked runs with which the patience is over."""
        repeated: set[int] = set()
        tired: list[Finished[Any, Any]] = []
        for entry, run in batch:
            if results[entry.id].verdict is not CommitVerdict.LOCKED:
                self._since.pop(entry.id, None)
            elif now - self._since.setdefault(entry.id, now) < PATIENCE:
                self._add((entry, run))
                repeated.add(entry.id)
            else:
                self._since[entry.id] = now
                tired.append(run.finished)
        return repeated, tired

    def take(self, limit: int) -> list[Ended[R]]:
        """Remove and return up to `limit` waiting runs."""
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    def _add(self, ended: Ended[R]) -> None:
        self.waiting.append(ended)
        self.added.ring()
