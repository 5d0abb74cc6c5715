"""Sends the requests of one call to a BMC one at a time within a deadline, reports them, and decodes the responses.

A call reads the credential once, after it has a connection to the checked address. A call sends the credential with
each request, or once to open a session. Every login counts against the login cap; after a refusal, the call sends
nothing more. An action is sent once, and its result is one of: responded, never sent, unknown.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from enum import Enum, StrEnum, auto
from functools import partial
from http import HTTPStatus
from typing import TypeAlias, TypeVar, assert_never

import anyio

from farrier.model.credential import Credential
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure
from farrier.protocols.permit import require_lease
from farrier.services.bmc import answers, failure, resources
from farrier.services.bmc import sessions as bmc_sessions
from farrier.services.bmc.access import BmcAccess, Shared
from farrier.services.bmc.answers import ErrorStatus, Reply, Response
from farrier.services.bmc.logins import Secret
from farrier.services.bmc.resources import Own, Resource
from farrier.services.bmc.session_records import RecordFile
from farrier.services.bmc.sessions import BmcSession
from farrier.services.bmc.transport import Dial, Headers, dialling

SERVICE_ROOT = "/redfish/v1/"
# The path of the collection of sessions on every known BMC; used only if the service root has no link to it.
STANDARD_SESSIONS = "/redfish/v1/SessionService/Sessions"
SESSION_SERVICE = "/redfish/v1/SessionService"

# A BMC adds or removes a slash, or renames a version; more redirects are a loop.
MOST_REDIRECTS = 3

# Statuses after which the action may have taken effect: the error may have occurred in transit or during the action.
_PERHAPS_DONE = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)

T = TypeVar("T")
_Request: TypeAlias = Callable[[str], Awaitable[Response]]


class BmcOperation(StrEnum):
    """The purpose of a request, also the value of a metric label."""

    ROOT = "root"
    SESSION = "session"
    SYSTEMS = "systems"
    SYSTEM = "system"
    MANAGERS = "managers"
    MANAGER = "manager"
    INTERFACES = "interfaces"
    ACTION_INFO = "action_info"
    RESET = "reset"

    @property
    def changes(self) -> bool:
        """Whether the request changes something at the BMC."""
        return self in (BmcOperation.RESET, BmcOperation.SESSION)


class _AnotherSecret(Exception):
    """The open session was opened with another secret, so the request was not sent in it."""


class _Shows(Enum):
    """The kind of authentication that requests contain."""

    NOTHING = auto()
    HEADER = auto()  # the credential in a header
    BODY = auto()  # the credential in the body of the request that opens a session
    SESSION = auto()


class Exchange:
    """The requests of one call. `requests` counts the sent requests; `sent` is true if an action may have reached the
    BMC."""

    def __init__(self, access: BmcAccess, shared: Shared) -> None:
        self.times = shared.times
        self._access = access
        self._shared = shared
        self._client = access.client
        self._session: BmcSession | None = None
        self._root: Resource | None = None
        self._asked_for_root = False
        self._shows = _Shows.NOTHING
        self._logs_in_with: Secret | None = None
        self._session_is_old = False
        self._asked_for_session = False
        self._was_good = False
        self.credential: Credential | None = None
        self.deadline = 0.0
        self.requests = 0
        self.sent = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that no text may contain."""
        tokens = self._shared.sessions.tokens(self._access.bmc)
        return tokens if self.credential is None else (*tokens, self.credential.password, _basic(self.credential))

    @asynccontextmanager
    async def slot(self, within: timedelta | None = None) -> AsyncIterator[None]:
        """Wait for the exclusive use of the BMC. The deadline is `within`, or the usual deadline. Raises `BmcError` if
        the login cap is reached."""
        async with self._shared.limiter.slot(self._access.bmc):
            self._shared.logins.admit(self._access.bmc)
            self.deadline = anyio.current_time() + (within or self.times.deadline).total_seconds()
            yield

    async def log_in(self) -> None:
        """Send the credential with all further requests, or use a session. Call this once per slot, after `root`."""
        match self._shared.schemes.of(self._access.bmc):
            case BmcAuth.BASIC:
                self._use_basic()
            case BmcAuth.SESSION:
                await self._join_session()
            case _ as never:
                assert_never(never)

    async def root(self) -> Resource | None:
        """Return the service root, which is read at most once. Returns None if the BMC requires a login for the service
        root, although Redfish forbids this requirement. Call this method before `log_in`: after `log_in`, the read
        contains the credential, and may cause an unnecessary login."""
        if not self._asked_for_root:
            self._asked_for_root = True
            try:
                self._root = await self._get(BmcOperation.ROOT, SERVICE_ROOT)
            except ErrorStatus as refusal:
                if refusal.failure not in (BmcFailure.AUTH, BmcFailure.REFUSED):
                    raise
        return self._root

    async def get(self, operation: BmcOperation, path: str) -> Resource:
        """Read the JSON object at a path."""
        try:
            return await self._get(operation, path)
        except _AnotherSecret:
            pass
        except ErrorStatus as refusal:
            ended = refusal.status == HTTPStatus.UNAUTHORIZED and self._session_is_old
            if not ended and not self._goes_on_after(refusal):
                raise
        # This is outside the `try`, so that an error here does not count as an error of the read. The BMC reports that
        # it has ended the session. If the session is still open, `_replace_session` ends it; otherwise it would occupy
        # one of the BMC's few sessions.
        await self._replace_session()
        return await self._get(operation, path)

    def _goes_on_after(self, refusal: ErrorStatus) -> bool:
        """Return whether a session may be opened instead, because the BMC refuses basic authentication."""
        is_basic = self._shows is _Shows.HEADER and refusal.failure is BmcFailure.AUTH_SCHEME
        is_free = is_basic and not self._access.only_reads and not self._asked_for_session
        return is_free and self._shared.schemes.use_other(self._access.bmc)

    async def reset(self, path: str, kind: str) -> None:
        """Send the action that switches power, once. Raises `ErrorStatus` for a refusal. Afterwards `sent` is false if
        the action cannot have reached the BMC."""
        self.sent = True
        try:
            post = partial(self._client.post, body={"ResetType": kind})
            await self._send(BmcOperation.RESET, path, post, answers.accepted)
        except ErrorStatus as error:
            self.sent = error.status in _PERHAPS_DONE
            raise
        except Exception as error:
            self.sent = failure.may_have_arrived(error)
            raise

    async def _get(self, operation: BmcOperation, path: str) -> Resource:
        return await self._followed(operation, path, self._client.get, answers.resource)

    async def _followed(
        self, operation: BmcOperation, path: str, request: _Request, understand: Callable[[Reply], T]
    ) -> T:
        """Send a request that may be repeated, and follow redirects to other paths. The host never changes."""
        for _ in range(MOST_REDIRECTS):
            try:
                return await self._send(operation, path, request, understand)
            except ErrorStatus as refusal:
                if refusal.hints.moved_to is None:
                    raise
                path = refusal.hints.moved_to
        return await self._send(operation, path, request, understand)

    async def _send(self, operation: BmcOperation, path: str, request: _Request, understand: Callable[[Reply], T]) -> T:
        """Send one request, and report it to the observer, even if it fails or is cancelled."""
        self.requests += 1
        started = anyio.current_time()
        result = "cancelled"
        try:
            dial = Dial(
                route=self._access.route,
                authenticate=self._authenticate,
                begin=partial(self._begin, operation, login := ExitStack()),
            )
            with login, anyio.fail_after(max(0.0, self.deadline - started)), dialling(dial):
                response = await request(path)
                own = Own(self._access.bmc, self._access.route.addresses)
                basic = self._shows is _Shows.HEADER
                understood = understand(Reply(path, response, own, lambda: self.secrets, basic))
            result = "ok"
        except _AnotherSecret:
            self.requests -= 1
            raise
        except Exception as error:
            result = failure.of_exception(error)[0]
            raise
        finally:
            self._shared.observer.requested("bmc", operation, result, anyio.current_time() - started)
        return understood

    async def _authenticate(self, headers: Headers) -> Secret | None:
        """Read the secret, and add it to the headers once TLS has proven the host. Returns what they show."""
        self._logs_in_with = None
        match self._shows:
            case _Shows.NOTHING:
                return None
            case _Shows.SESSION:
                secret = await self._secret()
                if self._session is None or self._session.secret != secret:
                    raise _AnotherSecret
                return secret
            case _Shows.HEADER:
                headers["Authorization"] = f"Basic {_basic(await self._read())}"
            case _Shows.BODY:
                pass
            case _ as never:
                assert_never(never)
        self._logs_in_with = await self._secret()
        return self._logs_in_with

    def _begin(self, operation: BmcOperation, login: ExitStack) -> None:
        """Count the login of a request that is about to be sent. Its result is recorded when `login` closes. If the
        lease is invalid, a change sends no secret, and no login is counted."""
        if operation.changes:
            require_lease()
        if self._logs_in_with is not None:
            login.enter_context(self._shared.logins.attempt(self._access.bmc, self._logs_in_with))
            login.enter_context(self._noted(self._logs_in_with))

    @contextmanager
    def _noted(self, secret: Secret) -> Iterator[None]:
        """Note whether the BMC accepts a login of this kind."""
        bmc, schemes = self._access.bmc, self._shared.schemes
        of_the_kind = self._shows is not _Shows.HEADER or schemes.of(bmc) is BmcAuth.BASIC
        try:
            yield
        except ErrorStatus as refusal:
            if (
                refusal.failure is BmcFailure.AUTH
                and refusal.hints.unclear
                and of_the_kind
                and not self._access.only_reads
            ):
                schemes.login_failed(bmc, secret)
            raise
        else:
            if of_the_kind:
                schemes.accepted(bmc)

    async def _read(self) -> Credential:
        """Return the secret, the same for the whole call. Raises `CredentialError`."""
        if self.credential is None:
            read = self._shared.credentials.recent if self._access.is_regular else self._shared.credentials.resolve
            self.credential = await read(self._access.reference)
        return self.credential

    async def _secret(self) -> Secret:
        return Secret(self._access.reference, (await self._read()).version)

    async def _join_session(self) -> None:
        """Use the open session of the BMC, or open one."""
        session = self._shared.sessions.of(self._access.bmc)
        changed = session is not None and self.credential is not None and session.secret != await self._secret()
        if session is None or changed:
            await self._replace_session()
        else:
            self._session_is_old = True
            self._enter(session)

    async def _replace_session(self) -> None:
        """End the open session, if any, and open another. In three cases, send the credential with each request
        instead: `only_reads` forbids the POST that opens a session, the login cannot be recorded, or another session of
        farrier at this BMC cannot be closed. farrier has at most one open session at a BMC."""
        self._session_is_old = False
        bmc, sessions = self._access.bmc, self._shared.sessions
        if self._access.only_reads:
            self._use_basic()
            return
        await sessions.end(bmc)
        entry = None if await self._waits_for_expiry() else await sessions.records.begin(bmc)
        if entry is None:
            self._use_basic()
            return
        self._asked_for_session = True
        try:
            session = await self._open_session(entry)
        except BmcError as refusal:
            if not answers.has_no_sessions(refusal, good=self._was_good):
                raise
            if self._was_good:
                self._shared.logins.forgive(bmc, await self._secret())
            if not self._shared.schemes.use_other(bmc):
                raise BmcError(BmcFailure.AUTH_SCHEME, f"{refusal.detail}; bmc.hosts forces sessions") from refusal
            self._use_basic()
            return
        sessions.keep(bmc, session)
        self._enter(session)
        if not await self._closed_all_left():
            await sessions.end(bmc)
            self._use_basic()

    def _use_basic(self) -> None:
        if self._session is not None:
            self._client, self._session = self._access.client, None
        self._shows = _Shows.HEADER

    async def _waits_for_expiry(self) -> bool:
        """Return whether farrier has an open session that it cannot close and that must expire first."""
        bmc, sessions = self._access.bmc, self._shared.sessions
        await sessions.forget_expired(bmc)
        stuck = [entry for entry in sessions.records.left(bmc) if sessions.is_stuck(entry)]
        untimed = [entry for entry in stuck if not sessions.is_timed(entry)]
        if untimed:
            self._use_basic()
            timeout = await self._session_timeout()
            for entry in untimed:
                sessions.expires(entry, timeout)
        return bool(stuck)

    async def _closed_all_left(self) -> bool:
        """Close the recorded sessions of ended processes in the current session. Returns whether all are closed."""
        sessions = self._shared.sessions
        for entry in sessions.records.left(self._access.bmc):
            if await self._closed(entry):
                await sessions.forget(entry)
            else:
                sessions.expires(entry, await self._session_timeout())
        return not sessions.records.left(self._access.bmc)

    async def _closed(self, entry: RecordFile) -> bool:
        """Close a recorded session, and return whether it has ended. Reads the session first, because the BMC may have
        given the session's ID to another session."""
        place = entry.record.location
        assert place is not None, "a session without a location waits for its expiry"
        credential = await self._read()
        try:
            found = await self._get(BmcOperation.SESSION, place)
            same = bmc_sessions.is_same(found, entry.record, username=credential.username)
            if same:
                await self._send(BmcOperation.SESSION, place, self._client.delete, answers.accepted)
        except ErrorStatus as refusal:
            return refusal.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
        return same is not None

    async def _session_timeout(self) -> timedelta:
        """Return the time after which the BMC ends an unused session."""
        try:
            service = await self._get(BmcOperation.SESSION, SESSION_SERVICE)
        except ErrorStatus as refusal:
            if refusal.failure is BmcFailure.AUTH:
                raise
            return bmc_sessions.USUAL_TIMEOUT
        return bmc_sessions.timeout(service)

    def _enter(self, session: BmcSession) -> None:
        self._session = session
        self._client = session.client(self._access.bmc)
        self._shows = _Shows.SESSION

    async def _open_session(self, entry: RecordFile) -> BmcSession:
        """Open a session and record it. If the session may be open after an error, the record stays."""
        sent = False
        try:
            self._client, self._shows = self._access.client, _Shows.NOTHING
            path = await self._sessions_path()
            if not self._shared.schemes.is_proven(self._access.bmc):
                await self._check_sessions()
            self._was_good = self._shared.logins.is_good(self._access.bmc, await self._secret())
            sent = True
            opened = await self._log_in_at(path)
        except BaseException as error:
            refused = isinstance(error, ErrorStatus) and error.status not in _PERHAPS_DONE
            never_had = isinstance(error, Exception) and not failure.may_have_arrived(error)
            if not sent or refused or (never_had and not isinstance(error, BmcError)):
                with anyio.CancelScope(shield=True):
                    await self._shared.sessions.forget(entry)
            else:
                self._shared.sessions.records.leave(entry)
            raise
        token, location, created = opened
        entry = await self._shared.sessions.records.opened(entry, location=location, created=created)
        access = self._access
        return BmcSession(
            secret=await self._secret(),
            token=token,
            location=location,
            http=access.http,
            route=access.route,
            entry=entry,
        )

    async def _log_in_at(self, path: str) -> tuple[str, str | None, str | None]:
        """Send the login that opens a session, and return the decoded response."""
        credential = await self._read()
        post = partial(self._client.post, body={"UserName": credential.username, "Password": credential.password})
        self._shows = _Shows.BODY
        try:
            return await self._followed(BmcOperation.SESSION, path, post, answers.opened)
        finally:
            self._shows = _Shows.NOTHING

    async def _sessions_path(self) -> str:
        """Return where sessions are opened. A BMC without sessions may count the attempt as a failed login."""
        root = await self.root()
        if root is None:
            return STANDARD_SESSIONS
        links = root.get("Links")
        path = resources.link(links.get("Sessions")) if isinstance(links, Mapping) else None
        if path is None and resources.link(root.get("SessionService")) is None:
            raise BmcError(BmcFailure.AUTH_SCHEME, "the BMC has no sessions")
        return path or STANDARD_SESSIONS

    async def _check_sessions(self) -> None:
        """Raise `BmcError` if the BMC declares that it opens no sessions, or refuses the password. This costs a login
        only if the BMC offers basic authentication for the read."""
        root = await self.root()
        path = (root is not None and resources.link(root.get("SessionService"))) or SESSION_SERVICE
        service: Resource = {}
        try:
            service = await self._get(BmcOperation.SESSION, path)
        except failure.FORESEEN as refusal:
            asks = isinstance(refusal, ErrorStatus) and refusal.hints.offers_basic
            if asks and not self._shared.schemes.is_forced(self._access.bmc):
                service = await self._session_service(path)
        if service.get("ServiceEnabled") is False:
            raise BmcError(BmcFailure.AUTH_SCHEME, "the BMC's session service is disabled")

    async def _session_service(self, path: str) -> Resource:
        """Read the session service with basic authentication; empty if it cannot be read. Raises a refused login."""
        self._shows = _Shows.HEADER
        try:
            return await self._get(BmcOperation.SESSION, path)
        except BmcError as refusal:
            if refusal.failure is BmcFailure.AUTH:
                raise
            return {}
        finally:
            self._shows = _Shows.NOTHING


def _basic(credential: Credential) -> str:
    return base64.b64encode(f"{credential.username}:{credential.password}".encode()).decode()
