"""The region's clock, and the steps that are planned for times of this clock. The clock moves only when `advance` is
called.

A `Region` has one timeline. Operations plan steps; tests and the demo move the clock. Steps run in the order of their
times. Steps with the same time run in the order in which they were planned. While a step runs, the clock shows the time
of this step. If a step plans another step that is already due, the same call of `advance` runs the other step. The
timeline never reads the real time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

Step = Callable[[], None]


class Timeline:
    """The simulated time, and the planned steps."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._order = itertools.count()
        self._due: list[tuple[datetime, int, Step]] = []

    @property
    def now(self) -> datetime:
        return self._now

    def after(self, delay: timedelta, step: Step) -> None:
        """Run `step` after this delay, or at once if there is no delay."""
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
