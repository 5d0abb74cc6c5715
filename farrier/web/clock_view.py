"""A running clock, as the API returns it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from farrier.model.clocks import Clock


class ClockView(msgspec.Struct, frozen=True, kw_only=True):
    """How long a layer has been in its state, and its limit. `note` is why there is no limit."""

    layer: str
    state: str
    since: datetime
    limit_seconds: float | None
    above_seconds: float | None
    note: str


def view(clock: Clock) -> ClockView:
    """Return the clock with its durations in seconds."""
    return ClockView(
        layer=clock.layer,
        state=clock.state,
        since=clock.since,
        limit_seconds=None if clock.limit is None else clock.limit.total_seconds(),
        above_seconds=None if clock.above is None else clock.above.total_seconds(),
        note=clock.note,
    )
