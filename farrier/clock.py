"""The monotonic clock of this process, for leases, deadlines and durations.

Stored times come from the database (`farrier.now()`), so clocks of hosts may differ. A test passes a clock that it
moves.
"""

from __future__ import annotations

import time


class MonotonicClock:
    """`farrier.protocols.Clock`, for real. Where the system has such a clock, time in which the machine was suspended
    counts, as it does for those who watch its renewals."""

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
