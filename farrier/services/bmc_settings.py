"""Settings of the BMC client, each with its default and the reason for it.

`wiring` fills them from the configuration. All times are durations, so no unit can be mistaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

from farrier.model.bmc import BmcAuth
from farrier.services.address import PRIVATE_NETWORKS, Network
from farrier.services.trust import SystemCa, Trust


class BmcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How BMCs are spoken to."""

    trust: Trust = SystemCa()
    """Whom to believe to be a BMC."""

    trust_by_host: Mapping[str, Trust] = msgspec.field(default_factory=dict)
    """Hosts, spelled as in the addresses and in lower case, that have a policy of their own."""

    auth: BmcAuth = BmcAuth.BASIC
    """How farrier authenticates at a BMC."""

    session_directory: Path | None = None
    """Where sessions are recorded; needed for `BmcAuth.SESSION`."""

    networks: tuple[Network, ...] = PRIVATE_NETWORKS
    """Where BMCs may be dialled; anything else is refused first."""

    deadline: timedelta = timedelta(seconds=30)
    """For one pass, from its first request to its last answer. Slow BMCs take 10 s for the few GETs."""

    connect_timeout: timedelta = timedelta(seconds=10)
    """For TCP and TLS of one request: a dead BMC is known long before the deadline."""

    concurrency: int = 200
    """BMCs contacted at the same time: each open TLS connection takes a quarter of a megabyte. Waiting for a place does
    not count as time of the call.
    """

    patience: timedelta = timedelta(seconds=1)
    """After which a call goes on without its place: sound BMCs answer in less, and dead ones must not hold them up."""

    power_rereads: int = 5
    """How often a power state that is neither on nor off is read again before it counts as unreadable."""

    power_reread_pause: timedelta = timedelta(seconds=2)
    """Before each of them. Firmware shows such a state for some seconds during a reset."""

    power_deadline: timedelta = timedelta(minutes=2)
    """For a change of power to be seen after its action was sent: the slowest machines take a minute to go off, and
    a step may take three."""
