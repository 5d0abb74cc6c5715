"""What a call to a BMC gets from its client: the BMC with its route and reference, the time limits, and what all calls
share."""

from __future__ import annotations

from datetime import timedelta

import aiohttp
import msgspec
from redfish import aio as redfish
from yarl import URL

from farrier import protocols
from farrier.clock import MonotonicClock
from farrier.services.bmc.limiter import BmcLimiter
from farrier.services.bmc.logins import Logins, Schemes
from farrier.services.bmc.sessions import BmcSessions
from farrier.services.bmc.transport import Route
from farrier.services.credentials.recent import RecentCredentials


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


class BmcAccess(msgspec.Struct, frozen=True, kw_only=True):
    """A BMC, the route to it, and the reference to its credential. `client` sends no secret of its own. `is_regular` is
    whether the call is a regular read, which may use a secret that was read within the last minute."""

    bmc: URL
    route: Route
    reference: str
    http: aiohttp.ClientSession
    client: redfish.AsyncRedfishClient
    only_reads: bool
    is_regular: bool = False


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that all calls of a client share."""

    schemes: Schemes
    times: BmcTimes
    credentials: RecentCredentials
    limiter: BmcLimiter
    logins: Logins
    sessions: BmcSessions
    observer: protocols.ServiceObserver
