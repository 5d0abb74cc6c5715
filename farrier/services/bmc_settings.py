"""Settings of the BMC client, each with its default and the reason for it.

`wiring` sets them from the configuration. All times are `timedelta`s, so no unit can be mistaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

from farrier.config import BmcTrustConfig
from farrier.model.bmc import BmcAuth
from farrier.services.address import PRIVATE_NETWORKS, Network


class BmcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How farrier communicates with BMCs."""

    trust: BmcTrustConfig = BmcTrustConfig()
    """Which certificates of BMCs farrier trusts."""

    trust_by_host: Mapping[str, BmcTrustConfig] = msgspec.field(default_factory=dict)
    """Trust for single hosts. The keys are the hosts of the addresses, in lower case."""

    auth: BmcAuth = BmcAuth.BASIC
    """How farrier authenticates at a BMC."""

    session_directory: Path | None = None
    """The directory in which sessions are recorded. Required for `BmcAuth.SESSION`."""

    networks: tuple[Network, ...] = PRIVATE_NETWORKS
    """Networks to which farrier may connect. It refuses any other address before it connects."""

    deadline: timedelta = timedelta(seconds=30)
    """Time limit for a call with all its requests. Slow BMCs take 10 s for the few GETs."""

    connect_timeout: timedelta = timedelta(seconds=10)
    """Time limit for TCP and TLS of one request, so that farrier detects a dead BMC long before the deadline."""

    concurrency: int = 200
    """Largest number of BMCs that farrier contacts at the same time. Each open TLS connection takes a quarter of a
    megabyte. The time limit of a call does not include the wait for a place.
    """

    patience: timedelta = timedelta(seconds=1)
    """Time after which a call gives up its place and continues. Working BMCs respond in less time, and a dead BMC must
    not delay the calls for other BMCs."""

    power_rereads: int = 5
    """How often a power state that is neither on nor off is read again before it counts as unreadable."""

    power_reread_pause: timedelta = timedelta(seconds=2)
    """Delay before each further read of the power state. During a reset, firmware reports such a state for some
    seconds."""

    power_deadline: timedelta = timedelta(minutes=2)
    """Time within which the power has to change after the action was sent. The slowest machines take a minute to switch
    off, and a step may take three minutes."""
