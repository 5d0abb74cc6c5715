"""The monotonic clock of this process, for leases, deadlines and durations.

Stored times come from the database (`farrier.now()`), so clocks of hosts may differ. A test passes a clock that it
moves.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


class MonotonicClock:
    """`farrier.protocols.Clock` on the system's clock. If the system supports it, the clock counts time during which
    the machine was suspended, as the observers of its renewals do."""

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def wall() -> datetime:
    """The time of day on this host, without a database: for the expiry of tokens, and for lists without ages."""
    return datetime.now(UTC)
