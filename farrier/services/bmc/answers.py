"""Pure functions that interpret responses of a BMC: a resource, a new session, or a refusal with its messages.

A refusal becomes an error with a class and a text: one short line with the path, the status, and the IDs and texts of
the BMC's own messages, without secrets, because farrier stores and shows it. It never quotes a web page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

import msgspec
from redfish import aio as redfish
from yarl import URL

from farrier.model.machine.bmc import BmcError, BmcFailure
from farrier.services.bmc import failure as bmc_failure
from farrier.services.bmc import resources
from farrier.services.bmc.resources import Own, Resource
from farrier.services.http.quoting import quoted

Response: TypeAlias = redfish.AsyncRestResponse

LONGEST_STAY = timedelta(minutes=15)
"""The longest retry_after that farrier accepts from a BMC: the duration of a firmware update. Some BMCs require a wait
of a day, although they are ready after a minute."""

_NO_FREE_SESSION = ("SessionLimitExceeded", "RAC0218")
"""Messages of a BMC that has no free session: the standard's, and that of Dell's iDRACs."""

_NO_RIGHT = frozenset({"InsufficientPrivilege", "InsufficientPrivileges", "OemLicenseNotPassed", "LicenseRequired"})
"""Messages of a BMC that knows the user, but does not permit the request. Some BMCs send them with 400 or 401."""
_NO_LOGIN = frozenset({"NoValidSession", "UnauthorizedLoginAttempt", "LoginFailed", "AccountLocked"})
"""Messages of a BMC that does not accept the login. Some BMCs send them with 403."""
_MOVED = (
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
)
_STATUSES_OF_RIGHTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

_EXTENDED_INFO = "@Message.ExtendedInfo"

# A BMC usually sends one message. More messages repeat the first for other properties.
_MOST_MESSAGES = 3

# Messages that only refer to other messages.
_SAY_NOTHING = frozenset({"GeneralError", "Success"})
_ID = re.compile(r"[A-Za-z0-9_. -]{1,128}")

_UNREADABLE = object()


class Message(msgspec.Struct, frozen=True):
    """A message: its ID, such as `Base.1.8.InsufficientPrivilege`, and its text; either may be empty."""

    id: str
    text: str

    @property
    def name(self) -> str:
        """The last part of the ID, which is the same in all versions of the registry."""
        return self.id.rpartition(".")[2]


class Reply(msgspec.Struct, frozen=True):
    """The response to a request of `path`, the BMC that sent it, and a function that returns the secrets that no text
    may contain. `basic` is whether the request had basic authentication."""

    path: str
    response: Response
    own: Own
    secrets: Callable[[], tuple[str, ...]] = tuple
    basic: bool = False


class Hints(NamedTuple):
    """What a refusal shows besides its class. `moved_to` is the path to which a redirect leads, if farrier may follow
    it. `unclear` is whether a refused login may concern the kind of authentication. `offers_basic` is whether the BMC
    lists basic authentication among the kinds that it accepts."""

    moved_to: str | None = None
    unclear: bool = False
    offers_basic: bool = False


class ErrorStatus(BmcError):
    """The BMC responded with a status that is no success."""

    def __init__(
        self,
        status: int,
        failure: BmcFailure,
        detail: str,
        *,
        retry_after: timedelta | None = None,
        hints: Hints = Hints(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__(failure, detail, retry_after=retry_after)
        self.status = status
        self.hints = hints


def accepted(reply: Reply) -> None:
    """Check that the response is a success. Raises `ErrorStatus` for any other status."""
    response = reply.response
    failure = bmc_failure.of_status(response.status)
    if failure is None:
        return
    wait = _retry_after(response)
    if any(message in response.text for message in _NO_FREE_SESSION):
        detail = f"{reply.path}: the BMC has no free session; end sessions there, or use basic authentication"
        raise ErrorStatus(response.status, BmcFailure.UNREACHABLE, detail, retry_after=wait)
    said = _messages(response)
    text = _status_text(reply, said)
    if reply.basic and _refuses_basic(response, said):
        raise ErrorStatus(response.status, BmcFailure.AUTH_SCHEME, f"{text}; the BMC refuses basic authentication")
    # An iLO refuses an action in this way, also for a short time after a change of power.
    if response.status == HTTPStatus.BAD_REQUEST and "InvalidOperationForSystemState" in response.text:
        detail = f"{text}; the BMC refuses this action in the machine's present state"
        raise ErrorStatus(response.status, BmcFailure.UNREACHABLE, detail, retry_after=wait)
    shown, offers_basic = _by_message(response, said), _offers_basic(response)
    hints = Hints(_moved_to(reply), shown is None and not offers_basic, offers_basic)
    raise ErrorStatus(response.status, shown or failure, text, retry_after=wait, hints=hints)


def has_no_sessions(refusal: BmcError, *, good: bool) -> bool:
    """Return whether a BMC opens no session, whatever the password: it says so, it has no such resource, or it refuses
    a secret that it has accepted otherwise (`good`)."""
    if not isinstance(refusal, ErrorStatus):
        return refusal.failure is BmcFailure.AUTH_SCHEME
    known = (BmcFailure.AUTH_SCHEME, BmcFailure.UNSUPPORTED)
    return refusal.failure in known or (good and refusal.failure is BmcFailure.AUTH)


def resource(reply: Reply) -> Resource:
    """Return the JSON object in a successful response, with all links to the BMC's own host as paths. Raises `BmcError`
    for any other status or body."""
    accepted(reply)
    raw = reply.response.read
    body = _decoded(reply.response) if raw else {}
    if body is _UNREADABLE:
        raise BmcError(BmcFailure.PROTOCOL, "the response is not JSON")
    if not isinstance(body, dict):
        raise BmcError(BmcFailure.PROTOCOL, f"{reply.path} is not a JSON object")
    # A body without these characters has no URL, neither as it is nor with escapes.
    has_urls = b"//" in raw or b"\\" in raw
    found: Resource = resources.with_paths(body, reply.own) if has_urls else body
    return found


def opened(reply: Reply) -> tuple[str, str | None, str | None]:
    """Return the token, the location and the creation time of a new session. The time is by the BMC's clock."""
    try:
        body = resource(reply)
    except ErrorStatus as refusal:
        # A BMC without the message may count the login as failed, and so does farrier.
        says = any(is_off(one, "session") or is_off(one, "service") for one in _messages(reply.response))
        failure = BmcFailure.AUTH_SCHEME if says else refusal.failure
        if failure is BmcFailure.REFUSED:
            failure = BmcFailure.AUTH
        hints = refusal.hints._replace(unclear=not _by_message(reply.response, _messages(reply.response)))
        raise ErrorStatus(
            refusal.status, failure, refusal.detail, retry_after=refusal.retry_after, hints=hints
        ) from None
    token = reply.response.getheader("X-Auth-Token")
    if not isinstance(token, str) or not token.strip():
        raise BmcError(BmcFailure.PROTOCOL, f"{reply.path} opened a session, but returned no token")
    # Some BMCs return a URL with another host or with http, so farrier uses only its path.
    try:
        place = URL(reply.response.getheader("Location") or "").path
    except ValueError:
        place = ""
    location = resources.link({"@odata.id": place}) or resources.link(body)
    return token, location, resources.text(body.get("CreatedTime"))


def _decoded(response: Response) -> Any:
    """Return the decoded JSON, or `_UNREADABLE`. Firmware puts bytes of its flash memory into texts, so control
    characters within a text are accepted, and zero bytes around the JSON."""
    try:
        return msgspec.json.decode(response.read)
    except (msgspec.DecodeError, UnicodeDecodeError):  # the other decoder is slow and accepts more
        pass
    try:
        return json.loads(response.text.strip("\0 \t\r\n"), strict=False)
    except ValueError:
        return _UNREADABLE


def _messages(response: Response) -> tuple[Message, ...]:
    """Return the messages in the body of a refusal. Messages that only refer to others come last."""
    try:
        found = dict.fromkeys(_in_body(_decoded(response)))
    except RecursionError:  # the status is known, and counts
        return ()
    return tuple(sorted(found, key=lambda message: message.name in _SAY_NOTHING))


def _by_message(response: Response, said: Iterable[Message]) -> BmcFailure | None:
    """Return the failure class that a message shows, because firmware confuses 401 and 403."""
    names = {message.name for message in said}
    if response.status not in _STATUSES_OF_RIGHTS:
        return None
    if names & _NO_LOGIN or "PasswordChangeRequired" in response.text:
        return BmcFailure.AUTH
    return BmcFailure.REFUSED if names & _NO_RIGHT else None


def _refuses_basic(response: Response, said: Iterable[Message]) -> bool:
    """Return whether a BMC says, in a header or a message, that it does not accept basic authentication."""
    if response.status not in _STATUSES_OF_RIGHTS:
        return False
    offers_others = response.getheader("WWW-Authenticate") is not None and not _offers_basic(response)
    if response.status == HTTPStatus.UNAUTHORIZED and offers_others:
        return True
    return any(is_off(one, "basic") for one in said)


def _offers_basic(response: Response) -> bool:
    """Return whether a BMC lists basic authentication among the kinds that it accepts."""
    named = (value for name, value in response.getheaders() if name.lower() == "www-authenticate")
    return any("basic" in value.lower() for value in named)


def is_off(message: Message, what: str) -> bool:
    """Return whether a message says that something is switched off."""
    text = f"{message.name} {message.text}".lower()
    return what in text and any(word in text for word in ("disabled", "notsupported", "not supported", "not allowed"))


def _moved_to(reply: Reply) -> str | None:
    location = reply.response.getheader("Location")
    if reply.response.status not in _MOVED or not isinstance(location, str):
        return None
    return resources.moved_to(location.strip(), reply.path, reply.own)


def _status_text(reply: Reply, said: tuple[Message, ...]) -> str:
    response = reply.response
    text = f"{reply.path} returned HTTP {response.status}"
    if 300 <= response.status < 400:
        return f"{text}, a redirect; farrier follows only redirects of reads to another path of the same BMC"
    if response.status == HTTPStatus.FORBIDDEN and "PasswordChangeRequired" in response.text:
        return f"{text}: the BMC requires a new password for this user first"
    return f"{text}{_reason(said, reply.secrets())}"


def _retry_after(response: Response) -> timedelta | None:
    """Return the wait that `Retry-After` requires. The header states seconds, or a date by the BMC's clock."""
    wanted = response.getheader("Retry-After") or ""
    try:
        if wanted.isdecimal():
            stay = timedelta(seconds=int(wanted))
        else:
            stay = parsedate_to_datetime(wanted) - parsedate_to_datetime(response.getheader("Date") or "")
    except (ValueError, TypeError, OverflowError):
        return None
    return min(stay, LONGEST_STAY) if stay > timedelta(0) else None


def _reason(found: Iterable[Message], secrets: Iterable[str]) -> str:
    """Return the messages as the end of "... returned HTTP 403"."""
    telling = [one for one in found if one.name not in _SAY_NOTHING] or list(found)
    texts = [": ".join(filter(None, (one.id, one.text))) for one in telling[:_MOST_MESSAGES]]
    if not texts:
        return ", and gives no reason"
    return f": {quoted('; '.join(texts).encode(), secrets)}"


def _in_body(body: object) -> Iterator[Message]:
    if not isinstance(body, Mapping):
        return
    error = body.get("error")
    for place in (error, body):
        if isinstance(place, Mapping):
            for field, value in place.items():
                # The messages about one property are beside this property.
                if isinstance(field, str) and field.endswith(_EXTENDED_INFO):
                    yield from _listed(value)
    if isinstance(error, Mapping):
        yield from _read(error, id_field="code", text_field="message")
    elif isinstance(error, str):
        yield Message("", error)


def _listed(value: object) -> Iterator[Message]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Mapping):
            yield from _read(one, id_field="MessageId", text_field="Message")
        elif isinstance(one, str):
            yield Message("", one)


def _read(value: Mapping[str, Any], *, id_field: str, text_field: str) -> Iterator[Message]:
    name, text, args = value.get(id_field), value.get(text_field), value.get("MessageArgs")
    if not (isinstance(text, str) and text.strip()):
        # Some BMCs send only the arguments of a message whose text is in a registry.
        text = ", ".join(one for one in args if isinstance(one, str)) if isinstance(args, list) else ""
    name = name if isinstance(name, str) and _ID.fullmatch(name) else ""
    if name or text:
        yield Message(name, text)
