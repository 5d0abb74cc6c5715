"""What an answer of UFM that is no success means, and what it means that there is none: total, nothing unclassified.

Used by `ufm_transport`; pure. Texts of UFM are quoted, short and cleaned, because an operator needs them; pages of a
proxy are not. `ambiguous` errs on the safe side: the caller reads once too often rather than taking a change that was
made for one that was not.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from datetime import timedelta

import httpx
import msgspec
from typing_extensions import override

from farrier.model.ufm import UfmError, UfmFailure
from farrier.services.quoting import quoted
from farrier.services.ufm_requests import Operation, Request

# What UFM, or a proxy in front of it, may tell us to stay away.
_LONGEST_STAY = timedelta(minutes=5)


class Garbled(Exception):
    """A success that cannot be understood. `detail` quotes nothing of it."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it came."""

    status: int
    body: bytes
    content_type: str = ""
    retry_after: str = ""

    @property
    def is_page(self) -> bool:
        """HTML: of a proxy, or of UFM's web server when UFM itself does not run."""
        start = self.body[:64].lstrip().lower()
        return "html" in self.content_type.lower() or start.startswith((b"<!doctype", b"<html"))

    @override
    def __repr__(self) -> str:
        return f"Answer(status={self.status}, body={len(self.body)} bytes)"


def of_answer(request: Request, answer: Answer, *, secrets: Iterable[str]) -> UfmError:
    """The error that an answer other than 2xx is."""
    failure = _class(request, answer)
    return UfmError(
        failure,
        _detail(failure, answer, secrets),
        operation=request.operation,
        ambiguous=request.changes and answer.status >= 500,
        retry_after=_stay(answer.retry_after),
    )


def _class(request: Request, answer: Answer) -> UfmFailure:
    # Only a change is refused, and only of a key there is none: UFM has always a list.
    refusals = (400, 404, 409, 422) if request.changes else (404,) if request.operation is Operation.PKEY else ()
    match answer.status:
        case 400 | 404 | 409 | 422 as status if status not in refusals:
            return UfmFailure.PROTOCOL
        case 401:
            return UfmFailure.AUTH
        case 403 if not answer.is_page:
            return UfmFailure.FORBIDDEN
        case 400 | 422 if not answer.is_page:
            return UfmFailure.INVALID
        case 404 if not answer.is_page:
            return UfmFailure.ABSENT
        case 409 if not answer.is_page:
            return UfmFailure.CONFLICT
        case 429 | 503:
            return UfmFailure.BUSY
        case status if status >= 500:
            return UfmFailure.UPSTREAM
        case _:
            return UfmFailure.PROTOCOL


def _detail(failure: UfmFailure, answer: Answer, secrets: Iterable[str]) -> str:
    start = f"UFM answered HTTP {answer.status}"
    if failure is UfmFailure.AUTH:
        return f"{start}: it refuses the user or the token"
    if 300 <= answer.status < 400:
        return f"{start}, a redirect; these are not followed, the URL has to name UFM itself"
    if answer.is_page:
        return f"{start} with a page instead of a text"
    if not answer.body.strip():
        return f"{start} without a text"
    return f"{start}: {quoted(answer.body, secrets)}"


def of_exception(request: Request, error: Exception, *, within: timedelta) -> UfmError:
    """The error that it is that there was no complete answer."""
    failure, detail, arrived = _of_chain(error, within)
    return UfmError(failure, detail, operation=request.operation, ambiguous=request.changes and arrived)


def garbled(request: Request, detail: str) -> UfmError:
    """A success whose body cannot be used: what was asked for was perhaps done."""
    return UfmError(UfmFailure.PROTOCOL, detail, operation=request.operation, ambiguous=request.changes)


def _of_chain(error: Exception, within: timedelta) -> tuple[UfmFailure, str, bool]:
    """Class, text, and whether the request may have arrived."""
    before = _before_any_request(error)
    if before is not None:
        return *before, False
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return UfmFailure.TIMEOUT, "no connection to UFM in time", False
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return UfmFailure.TIMEOUT, f"no complete answer of UFM within {within.total_seconds():g} s", True
    if isinstance(error, httpx.ConnectError):
        return UfmFailure.UNREACHABLE, "no connection to UFM", False
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return UfmFailure.PROTOCOL, "the URL of UFM is none", False
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError | OSError):
        return UfmFailure.UNREACHABLE, "UFM closed the connection", True
    return UfmFailure.PROTOCOL, f"no usable answer of UFM ({type(error).__name__})", True


def _before_any_request(error: Exception) -> tuple[UfmFailure, str] | None:
    """Names and certificates, which the layers above hide in a failed connection."""
    connecting = isinstance(error, httpx.ConnectError)
    for cause in _chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return UfmFailure.TLS, f"the certificate of UFM is not trusted: {cause.verify_message}"
        if connecting and isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return UfmFailure.UNREACHABLE, "UFM closed the connection during the TLS handshake"
        if connecting and isinstance(cause, ssl.SSLError):
            return UfmFailure.TLS, f"the TLS handshake failed: {getattr(cause, 'reason', '') or type(cause).__name__}"
        if isinstance(cause, socket.gaierror):
            return UfmFailure.UNREACHABLE, "the host name of UFM does not resolve"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _stay(text: str) -> timedelta | None:
    """Seconds; a date is told by nobody's clock we know. None at all is no answer to how long."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal()):
        return _LONGEST_STAY if text else None
    return min(timedelta(seconds=int(text[:9])), _LONGEST_STAY) or None
