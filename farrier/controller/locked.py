"""The runs whose rows other transactions have locked.

A session may keep a row locked for hours, such as after a forgotten BEGIN. The commit of a run whose rows are locked is
repeated until `PATIENCE` is over; then the loop reports the lock as the outcome of the resource, and runs the resource
again later. As long as the rows of a resource are locked, the commits of its runs stay apart from all other commits.
The module does no I/O; `now` is this process' monotonic time.
"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar

from farrier.controller.agenda import Entry
from farrier.controller.runner import Run
from farrier.controller.signal import Bell

R = TypeVar("R")

# A run that ended, with its entry.
Ended: TypeAlias = tuple[Entry[R], Run[Any, Any, Any]]

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

    def found(self, ended: Ended[R], now: float) -> bool:
        """Record that the rows of this run are locked. Returns whether to repeat its commit; otherwise, the patience
        with this run is over."""
        id_ = ended[0].id
        if now - self._since.setdefault(id_, now) < PATIENCE:
            self._add(ended)
            return True
        self._since[id_] = now
        return False

    def freed(self, id_: int) -> None:
        """Record that the rows of the resource are no longer locked."""
        self._since.pop(id_, None)

    def take(self, limit: int) -> list[Ended[R]]:
        """Remove and return up to `limit` waiting runs."""
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    def _add(self, ended: Ended[R]) -> None:
        self.waiting.append(ended)
        self.added.ring()
