"""Keeps at most one open Redfish session per BMC, if sessions are configured instead of basic authentication.

A BMC has four to eight sessions for all its clients, and ends an abandoned session only after half an hour. So every
call uses the same session. farrier replaces the session only if the BMC has ended it or the secret has changed, and
ends it when the client closes. If the response to a login was lost, or a process was killed, a session may be left
open; `SessionRecords` has its record. If a session cannot be closed by its recorded ID, it expires at the BMC, and
until then farrier opens no other session there. The token of a session is a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import aiohttp
import anyio
import msgspec
import structlog
from redfish import aio as redfish
from typing_extensions import override
from yarl import URL

from farrier import errors
from farrier.protocols import Clock
from farrier.services.bmc.logins import Secret
from farrier.services.bmc.session_records import RecordFile, SessionRecord, SessionRecords
from farrier.services.bmc.transport import Dial, Route, dialling

log = structlog.stdlib.get_logger(__name__)

END_TIMEOUT = timedelta(seconds=5)
"""Time limit to end one session. If a BMC does not end it in time, the session expires later."""
CLOSE_TIMEOUT = timedelta(seconds=10)
"""Time limit to end all sessions when the client closes, as part of the process's shutdown."""
MOST_AT_ONCE = 100
MOST_ENDED = 8
"""Largest number of tokens of ended sessions that are kept per BMC. A BMC names only a session that just ended."""

USUAL_TIMEOUT = timedelta(minutes=30)
"""Assumed time after which a BMC ends an unused session, if the BMC does not report it. This is the usual default."""
_SHORTEST, _LONGEST = timedelta(seconds=30), timedelta(days=1)  # as Redfish defines it


def timeout(service: Mapping[str, object]) -> timedelta:
    """Return the timeout of sessions from a BMC's SessionService."""
    seconds = service.get("SessionTimeout")
    if not isinstance(seconds, int) or not 0 < seconds <= _LONGEST.total_seconds():
        return USUAL_TIMEOUT
    return max(_SHORTEST, timedelta(seconds=seconds))


def is_same(found: Mapping[str, object], record: SessionRecord, *, username: str) -> bool | None:
    """Return whether the session at a recorded ID is still the recorded session; None if that is unknown. After a
    restart, a BMC may reuse a numeric ID, even for another process of farrier."""
    user, created = found.get("UserName"), found.get("CreatedTime")
    if user is not None and user != username:
        return False
    if record.created is not None and created is not None:
        return created == record.created
    name = (record.location or "").rstrip("/").rpartition("/")[2]
    return None if name.isdecimal() else True


class BmcSession(msgspec.Struct, frozen=True, kw_only=True):
    """An open session. A DELETE request to the path `location` ends the session; `location` is None if the BMC did not
    return a path."""

    secret: Secret
    token: str
    location: str | None
    http: aiohttp.ClientSession
    route: Route
    entry: RecordFile

    def client(self, bmc: URL) -> redfish.AsyncRedfishClient:
        """Return a client that sends its requests in this session."""
        return redfish.AsyncRedfishClient(
            str(bmc), session=self.http, session_key=self.token, session_location=self.location
        )

    @override
    def __repr__(self) -> str:
        return f"Session(location={self.location!r}, token=***)"


class BmcSessions:
    """The open sessions by BMC. Calls for one BMC must not overlap."""

    def __init__(self, records: SessionRecords, clock: Clock) -> None:
        self._open: dict[URL, BmcSession] = {}
        self._ended: dict[URL, tuple[str, ...]] = {}  # the newest tokens of ended sessions
        self.records = records
        self._clock = clock
        self._expire: dict[Path, float] = {}  # when sessions that cannot be closed expire

    def of(self, bmc: URL) -> BmcSession | None:
        return self._open.get(bmc)

    def tokens(self, bmc: URL) -> tuple[str, ...]:
        """Return the tokens that no text may contain: of the open session, and of sessions that a BMC may still
        name."""
        session = self._open.get(bmc)
        return (*self._ended.get(bmc, ()), *(() if session is None else (session.token,)))

    def keep(self, bmc: URL, session: BmcSession) -> None:
        self._open[bmc] = session

    def is_stuck(self, entry: RecordFile) -> bool:
        """Return whether the session cannot be closed."""
        return entry.record.location is None or entry.path in self._expire

    def is_timed(self, entry: RecordFile) -> bool:
        """Return whether the time at which the session expires is known."""
        return entry.path in self._expire

    def expires(self, entry: RecordFile, within: timedelta) -> None:
        """Record that a session cannot be closed and that the BMC ends it after `within` without use."""
        self._expire[entry.path] = self._clock.monotonic() + within.total_seconds()
        log.warning("bmc.session_left", bmc=entry.record.bmc, error="cannot be closed", seconds=within.total_seconds())

    async def forget_expired(self, bmc: URL) -> None:
        now = self._clock.monotonic()
        for entry in self.records.left(bmc):
            if self._expire.get(entry.path, now + 1) <= now:
                await self.forget(entry)

    async def forget(self, entry: RecordFile) -> None:
        """Remove a session that has ended or was never opened."""
        self._expire.pop(entry.path, None)
        await self.records.forget(entry)

    async def end(self, bmc: URL) -> None:
        """Forget the session of this BMC, and end it at the BMC if the BMC responds in time. Only a cancellation is
        raised."""
        session = self._open.pop(bmc, None)
        if session is None:
            return
        self._ended[bmc] = (*self._ended.get(bmc, ()), session.token)[-MOST_ENDED:]
        reason = None
        try:
            with anyio.fail_after(END_TIMEOUT.total_seconds()), dialling(Dial(route=session.route)):
                await session.client(bmc).logout()
        except (redfish.RedfishError, errors.ServiceError, OSError) as error:
            reason = type(error).__name__  # the error's text may quote the response
        if reason is None:
            await self.forget(session.entry)
        else:
            self.records.leave(session.entry)
            log.warning("bmc.session_left", bmc=str(bmc), error=reason)

    async def close(self) -> None:
        """End all sessions within `CLOSE_TIMEOUT`, even if the program is cancelled."""
        some = anyio.CapacityLimiter(MOST_AT_ONCE)

        async def end(bmc: URL) -> None:
            async with some:
                await self.end(bmc)

        with anyio.move_on_after(CLOSE_TIMEOUT.total_seconds(), shield=True):
            async with anyio.create_task_group() as tasks:
                for bmc in tuple(self._open):
                    tasks.start_soon(end, bmc)
