"""The monotonic clock of this process, for leases, deadlines and durations.

Stored times come from the database (`farrier.now()`), so the clocks of hosts may differ. Tests pass a clock that they
move.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


class MonotonicClock:
    """`farrier.protocols.Clock` on the system's clock. Where the system supports it, the clock also counts the time
    in which the machine was suspended, because leases expire meanwhile."""

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def wall() -> datetime:
    """The time of day on this host, without a database: for the expiry of tokens, and for lists without ages."""
    return datetime.now(UTC)
