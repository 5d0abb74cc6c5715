"""What one call to a BMC has from its client: the BMC with its route and reference, and the state of all calls."""

from __future__ import annotations

import aiohttp
import msgspec
from redfish import aio as redfish
from yarl import URL

from farrier import protocols
from farrier.services.bmc.limiter import BmcLimiter
from farrier.services.bmc.logins import Logins
from farrier.services.bmc.schemes import Schemes
from farrier.services.bmc.sessions import BmcSessions
from farrier.services.bmc.times import BmcTimes
from farrier.services.bmc.transport import Route
from farrier.services.credentials.recent import RecentCredentials


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
