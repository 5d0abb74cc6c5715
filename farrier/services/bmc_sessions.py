"""Redfish sessions that are kept: at most one per BMC, for sites that chose them over basic authentication.

BMCs have four to eight sessions for everybody and take half an hour to end a forgotten one. So ours is used by every
call, replaced only when the BMC has ended it or the secret changed, and ended with the client. What may be left
behind is the session of a login whose answer got lost. A session's token is a secret.
"""

from __future__ import annotations

from datetime import timedelta

import aiohttp
import anyio
import msgspec
import structlog
from redfish import aio as redfish
from typing_extensions import override
from yarl import URL

from farrier import errors
from farrier.services.bmc_logins import Secret
from farrier.services.route import Route
from farrier.services.transport import Dial, dialling

log = structlog.stdlib.get_logger(__name__)

END_TIMEOUT = timedelta(seconds=5)
"""To end one session: a BMC that does not do it at once ends it by itself some time."""
CLOSE_TIMEOUT = timedelta(seconds=10)
"""To end all of them when the client closes; part of a process's shutdown."""
MOST_AT_ONCE = 100


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `location` is where it is ended; None where the BMC did not say."""

    secret: Secret
    token: str
    location: str | None
    http: aiohttp.ClientSession
    route: Route

    def client(self, bmc: URL) -> redfish.AsyncRedfishClient:
        """Requests in this session."""
        return redfish.AsyncRedfishClient(
            str(bmc), session=self.http, session_key=self.token, session_location=self.location
        )

    @override
    def __repr__(self) -> str:
        return f"Session(location={self.location!r}, token=***)"


class Sessions:
    """The sessions that are open, by BMC. Calls for one BMC must not overlap."""

    def __init__(self) -> None:
        self._open: dict[URL, Session] = {}

    def of(self, bmc: URL) -> Session | None:
        return self._open.get(bmc)

    def keep(self, bmc: URL, session: Session) -> None:
        self._open[bmc] = session

    async def end(self, bmc: URL) -> None:
        """End it on the BMC, too, as far as that can be done now. Raises nothing but cancellation."""
        session = self._open.pop(bmc, None)
        if session is None:
            return
        reason = None
        try:
            with anyio.fail_after(END_TIMEOUT.total_seconds()), dialling(Dial(session.route)):
                await session.client(bmc).logout()
        except (redfish.RedfishError, errors.ServiceError, OSError) as error:
            reason = type(error).__name__  # its text may quote what the BMC sent
        if reason is not None:
            log.warning("bmc.session_left", bmc=str(bmc), error=reason)

    async def close(self) -> None:
        """End all of them, within a bound, even when the program is cancelled."""
        some = anyio.CapacityLimiter(MOST_AT_ONCE)

        async def end(bmc: URL) -> None:
            async with some:
                await self.end(bmc)

        with anyio.move_on_after(CLOSE_TIMEOUT.total_seconds(), shield=True):
            async with anyio.create_task_group() as tasks:
                for bmc in tuple(self._open):
                    tasks.start_soon(end, bmc)
