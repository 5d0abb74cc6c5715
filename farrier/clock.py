"""The monotonic clock of this process: leases, deadlines, durations of runs.

`wiring` passes it to whoever measures; a test passes one that it moves. It never says what time it is: stored
times are the database's, taken by `farrier.now()`, so hosts whose clocks differ agree.
"""

from __future__ import annotations

import time


class MonotonicClock:
    """`farrier.protocols.Clock`, for real."""

    def monotonic(self) -> float:
        return time.monotonic()
