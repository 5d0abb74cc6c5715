"""The monotonic clock of this process: renewals, deadlines, durations of runs.

`wiring` passes it to whoever measures; a test passes one that it moves. It never says what time it is: stored
times are the database's, taken by `farrier.now()`, so hosts whose clocks differ agree.
"""

from __future__ import annotations

import time


class MonotonicClock:
    """`farrier.protocols.Clock`, for real. Where the system has such a clock, time in which the machine was suspended
    counts, as it does for those who watch its renewals."""

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
