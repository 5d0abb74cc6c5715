"""The clock, time limits and pauses of the BMC client, each with its default and the reason for it."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from farrier import protocols
from farrier.clock import MonotonicClock


class BmcTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the client waits for BMCs."""

    clock: protocols.Clock = msgspec.field(default_factory=MonotonicClock)

    deadline: timedelta
    """Time limit for a call with all its requests. A call sends a few GETs, for which slow BMCs take 10 s."""

    patience: timedelta = timedelta(seconds=1)
    """Time after which a call gives up its slot and continues. Working BMCs respond in less time, and a dead BMC must
    not delay the calls for other BMCs."""

    power_rereads: int = 5
    """How often a power state that is neither on nor off is read again before it counts as unreadable."""

    power_reread_pause: timedelta = timedelta(seconds=2)
    """Delay before each further read of the power state. During a reset, firmware reports such a state for some
    seconds."""

    power_settling: timedelta = timedelta(minutes=1)
    """Time within which a refused `on` is sent again. An iDRAC10 refuses `on` for up to a minute after a power-off."""

    power_settling_pause: timedelta = timedelta(seconds=10)
    """Delay before a refused `on` is sent again, unless the BMC requires another delay."""

    power_deadline: timedelta = timedelta(seconds=5)
    """Time within which most machines switch. A call does not wait longer, so that intents are answered meanwhile; the
    handler waits for slower machines (`handlers.node.switching`)."""
