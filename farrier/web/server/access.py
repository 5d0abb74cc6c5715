"""Authorization of HTTP requests: the tokens, their scopes, and the name of the client that sent a request.

Endpoints call `authorize(request, Scope.X)`, which returns the name of the client. To get the client of an intent, they
call `requester`. `Guard` requires a token for all paths except public paths, so that no endpoint can omit the check.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from http import HTTPStatus

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from farrier import clock as clocks
from farrier.config.processes import is_loopback
from farrier.config.token_file import ANONYMOUS, BEARER_TOKEN, ApiToken
from farrier.errors import CredentialError, DatabaseUnreachable
from farrier.model import api_token
from farrier.model.api_token import Scope
from farrier.protocols import Clock
from farrier.web.server import refusals, sessions
from farrier.web.server.backend import backend_of
from farrier.web.server.buckets import Buckets, client_of
from farrier.web.server.hosts import UNDER_ANY_NAME
from farrier.web.server.sessions import BrowserSessions

_log = structlog.stdlib.get_logger(__name__)

COOKIE = "farrier-session"
"""The cookie with the session of a browser. Only pages accept the cookie, and the API does not: a form on a page
contains a proof that this server made the form, but a request to the API contains no such proof."""

# Paths for Prometheus and probes, and paths that error pages and the login page need.
_PUBLIC = UNDER_ANY_NAME | {"/style.css", "/live.js", "/login"}
_EXPECTED = "expected the header Authorization: Bearer TOKEN"
_NONE = "this server has no tokens; set http.tokens_file or http.bearer_token"
# Failed logins of an address, at once and then every few seconds. A person may mistype a few times. A program with a
# wrong token adds at most 14,400 lines a day to the log. The limit does not protect a short token from guesses.
AT_ONCE = 10
SECONDS_EACH = 6.0
# This is about 1 MB. If there are more addresses, the oldest are removed.
_MOST_ADDRESSES = 4096
_CHANGES_NOTHING = frozenset({"GET", "HEAD", "OPTIONS"})


class Caller(msgspec.Struct, frozen=True):
    """The client that sent a request."""

    name: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """Return whether the client's token has this scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


_ADMINISTRATOR = Caller(BEARER_TOKEN, frozenset({Scope.ADMIN}))


class Access:
    """The tokens that a server accepts. If `loopback` is true, the server listens only on loopback, where reading needs
    no token."""

    def __init__(
        self,
        tokens: Sequence[ApiToken] = (),
        *,
        loopback: bool = True,
        clock: Clock | None = None,
        now: Callable[[], datetime] = clocks.wall,
    ) -> None:
        self._tokens = tokens
        self._loopback = loopback
        self._now = now
        clock = clock or clocks.MonotonicClock()
        self._failures = Buckets(clock, at_once=AT_ONCE, seconds_each=SECONDS_EACH, most=_MOST_ADDRESSES)
        self._sessions = BrowserSessions(clock)

    def use(self, tokens: Sequence[ApiToken]) -> None:
        """Accept exactly these tokens of the tokens file from now on."""
        self._tokens = tokens

    def reads_without_token(self, request: Request) -> bool:
        """Return whether this client may read without a token. The client must be on this host. If a proxy forwards the
        client's address, this address counts."""
        return self._loopback and is_loopback(_address(request))

    async def caller(self, request: Request) -> Caller | None:
        """Return the client of the token or of the session, if there is one. Raises HTTPException for a wrong token."""
        if (found := await self.bearer(request)) is not None or _is_api(request):
            return found
        return await self.of_session(request)

    async def bearer(self, request: Request) -> Caller | None:
        """Return the client of the token in the header, if there is one. Raises HTTPException for a wrong token."""
        given = _bearer(request)
        if given is None:
            return None
        # The guard and the endpoint of a request both call this function, but the token is looked up only once.
        if not hasattr(request.state, "caller"):
            request.state.caller = await self.owner(request, given)
        found: Caller = request.state.caller
        return found

    async def begin_session(self, request: Request, given: str) -> str:
        """Return a new session for a browser with this token. Raises HTTPException for a token that is not accepted."""
        caller = await self.owner(request, given)
        return self._sessions.begin(caller.name, api_token.digest(given))

    async def of_session(self, request: Request) -> Caller | None:
        """Return the client of the browser's session, if it has one. Raises HTTPException for an expired token."""
        session = request.cookies.get(COOKIE, "")
        name = sessions.name_of(session)
        if name == BEARER_TOKEN:
            read = backend_of(request).token
            holds = read is not None and self._sessions.holds(session, api_token.digest(await read()))
            return _ADMINISTRATOR if holds else None
        for token in self._tokens:
            if token.name == name and self._sessions.holds(session, token.sha256):
                return self._checked(token)
        return None

    def _checked(self, token: ApiToken) -> Caller:
        if token.expires is not None and token.expires <= self._now():
            raise _refused(f"the token {token.name} expired at {token.expires.isoformat()}")
        return Caller(token.name, frozenset(token.scopes))

    async def owner(self, request: Request, given: str) -> Caller:
        """Return the client that owns this token. Raises HTTPException for a token that is not accepted."""
        if (found := self._in_file(given)) is not None:
            return self._checked(found)
        read = backend_of(request).token
        if read is not None and hmac.compare_digest(given.encode(), (await read()).encode()):
            return _ADMINISTRATOR
        # Clients may share an address, so only refusals are limited: a token that is accepted never waits.
        address = _address(request)
        if wait := math.ceil(self._failures.wait(client_of(address))):
            text = f"too many tokens from {address} were not accepted; try again in {wait} s"
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": str(wait)})
        self._failures.spend(client_of(address))
        _log.warning("http.token_refused", client=address)
        raise _refused("the token is not accepted" if self._has_any(request) else f"the token is not accepted: {_NONE}")

    def _in_file(self, given: str) -> ApiToken | None:
        """Return the token of the file. Compares the given one with each, so that the duration reveals nothing."""
        digest, found = api_token.digest(given), None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def require_any(self, request: Request) -> None:
        """Raise HTTPException if this server accepts no token at all."""
        if not self._has_any(request):
            raise HTTPException(HTTPStatus.FORBIDDEN, f"a token is required, but {_NONE}")

    def _has_any(self, request: Request) -> bool:
        return bool(self._tokens) or backend_of(request).token is not None


async def authorize(request: Request, scope: Scope) -> str:
    """Return the name of the client. Intents and history show this name. Raises HTTPException unless the request's
    token has the scope. On loopback, reading needs no token. But even there farrier refuses an invalid token, because
    otherwise the client would notice the mistake only at its first change. A client without a token has the name
    `anonymous`."""
    access = access_of(request)
    if scope is Scope.READ and access.reads_without_token(request):
        reader = await access.bearer(request)
        return ANONYMOUS if reader is None else reader.name
    caller = await _caller(request)
    if not caller.may(scope):
        has = ", ".join(sorted(caller.scopes))
        raise HTTPException(
            HTTPStatus.FORBIDDEN, f"a token with the scope {scope} is required; the token {caller.name} has: {has}"
        )
    return caller.name


async def authorize_again(request: Request, scope: Scope) -> None:
    """Check the token again during a continuing response. Raises HTTPException if it is no longer accepted."""
    if hasattr(request.state, "caller"):
        del request.state.caller
    await authorize(request, scope)


async def requester(request: Request, given: str | None) -> str:
    """Return the client that an intent records, which is normally the client of the token. With `given`, a client names
    another client for which it acts. Raises HTTPException if the client does not have the scope `admin`, which this
    requires."""
    caller = await _caller(request)
    if given is None or given == caller.name:
        return caller.name
    if caller.may(Scope.ADMIN):
        return given
    text = (
        f"requested_by must be the name of the token, {caller.name}, not {given!r}; omit it, or use a token with the "
        "scope admin"
    )
    raise HTTPException(HTTPStatus.FORBIDDEN, text)


async def _caller(request: Request) -> Caller:
    access = access_of(request)
    caller = await access.caller(request)
    if caller is None:
        access.require_any(request)
        raise _refused(f"a token is required; {_EXPECTED if _is_api(request) else 'log in at /login'}")
    return caller


def access_of(request: Request) -> Access:
    """Return the tokens of this application."""
    access: Access = request.app.state.access
    return access


class Guard:
    """Refuses requests without a valid token, except for public paths. Lets a request for a change pass with any valid
    token; the endpoint then checks the scope of the token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _PUBLIC:
            request = Request(scope, receive)
            request.state.user = await _user(request)
            if (refusal := await _refusal(request)) is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _user(request: Request) -> str:
    """Return the name of the token with which the browser is logged in; empty without a valid session."""
    try:
        caller = None if _is_api(request) else await access_of(request).of_session(request)
    except (HTTPException, CredentialError, DatabaseUnreachable):  # no token can be checked; `_refusal` reports it
        return ""
    return "" if caller is None else caller.name


async def _refusal(request: Request) -> Response | None:
    try:
        if request.method in _CHANGES_NOTHING:
            await authorize(request, Scope.READ)
        else:
            await _caller(request)
    except HTTPException as error:
        return await refusals.wrong_path(request, error)
    except DatabaseUnreachable as error:
        return await refusals.unreachable(request, error)
    except CredentialError as error:
        return await refusals.no_token(request, error)
    return None


def _bearer(request: Request) -> str | None:
    """Return the token in the header of the request."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _refused(_EXPECTED)
    return token.strip()


def _is_api(request: Request) -> bool:
    path: str = request.scope["path"]
    return path.startswith("/api/")


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _refused(text: str) -> HTTPException:
    return HTTPException(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})
