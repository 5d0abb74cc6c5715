"""The monotonic clock of this process, for leases, deadlines and durations.

Stored times come from the database (`farrier.now()`), so the clocks of hosts may differ. Tests pass a clock that they
control.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


class MonotonicClock:
    """The `farrier.protocols.Clock` of the system. If the system supports it, the clock also counts the time while the
    machine is suspended, because leases expire during this time."""

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def wall() -> datetime:
    """Return the time of day on this host, without a query of the database. Callers use it for the expiry of tokens,
    and for lists that show no ages."""
    return datetime.now(UTC)
