"""Settings of the BMC client, each with its default and the reason for it.

`wiring` fills them from the configuration. All times are durations, so no unit can be mistaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from farrier.services.address import PRIVATE_NETWORKS, Network
from farrier.services.trust import SystemCa, Trust


class BmcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How BMCs are spoken to."""

    trust: Trust = SystemCa()
    """Whom to believe to be a BMC."""

    trust_by_host: Mapping[str, Trust] = msgspec.field(default_factory=dict)
    """Hosts, spelled as in the addresses and in lower case, that have a policy of their own."""

    networks: tuple[Network, ...] = PRIVATE_NETWORKS
    """Where BMCs may be dialled; anything else is refused first."""

    deadline: timedelta = timedelta(seconds=30)
    """For one pass, from its first request to its last answer. Slow BMCs take 10 s for the few GETs."""

    connect_timeout: timedelta = timedelta(seconds=10)
    """For TCP and TLS of one request: a dead BMC is known long before the deadline."""

    concurrency: int = 512
    """BMCs spoken to at the same time. Waiting for a slot counts as nobody's time; a dead BMC holds one for
    `connect_timeout`, so this is well above the dead ones of a large fleet."""

    power_rereads: int = 5
    """How often a power state that is neither on nor off is read again before it counts as unreadable."""

    power_reread_pause: timedelta = timedelta(seconds=2)
    """Before each of them. Firmware shows such a state for some seconds during a reset."""
