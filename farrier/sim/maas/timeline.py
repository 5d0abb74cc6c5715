"""The region's clock, which moves only by calls, and the steps that are due on it.

Owned by `Region`; operations plan steps, tests and the demo move the clock. Steps run in order of time, then of
planning, each at its own time; a step that plans another one that is due runs it within the same move. It never reads
the real time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

Step = Callable[[], None]


class Timeline:
    """Simulated time."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._order = itertools.count()
        self._due: list[tuple[datetime, int, Step]] = []

    @property
    def now(self) -> datetime:
        return self._now

    def after(self, delay: timedelta, step: Step) -> None:
        """Run `step` after this delay; without a delay, at once."""
        if delay <= timedelta(0):
            step()
            return
        heapq.heappush(self._due, (self._now + delay, next(self._order), step))

    def advance(self, by: timedelta) -> None:
        """Advance the time, and run the steps that become due."""
        until = self._now + by
        while self._due and self._due[0][0] <= until:
            moment, _, step = heapq.heappop(self._due)
            self._now = max(self._now, moment)
            step()
        self._now = max(self._now, until)
