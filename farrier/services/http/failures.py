"""Classifies failed requests to MAAS, UFM or Vault: the response reports a failure, or no response arrived.

A text of a service is quoted only if a rule allows it; the quotation is shortened and cleaned. Pages of a proxy are
never quoted, and secrets are removed from every text. If it is unknown whether a change was made, the failure is
`ambiguous`, so that farrier reads the result: an unnecessary read costs less than a wrong assumption.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Container, Iterable, Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

import httpx
import msgspec

from farrier.errors import CredentialError
from farrier.model.request_error import RequestError
from farrier.services.http.messages import HttpRequest, HttpResponse
from farrier.services.http.quoting import said

E = TypeVar("E", bound=RequestError[Any])

# The number of bytes of a text that are searched to classify a failure.
_LOOKED_AT_BYTES = 4096


class FailureRule(msgspec.Struct, frozen=True, kw_only=True):
    """A class of failure for the responses that match every attribute that is set.

    `page` is whether the body is an HTML page instead of a text, `text` is a pattern in a text, and `stay` is whether
    the service requires a wait. `detail` is the template of the error text: farrier fills in the service and the
    status, and replaces `{said}` by the quoted text.
    """

    failure: StrEnum
    statuses: Container[int] | None = None
    operations: Container[str] | None = None
    page: bool | None = None
    stay: bool | None = None
    text: re.Pattern[str] | None = None
    detail: str = "{service} returned HTTP {status}{said}"

    def fits(self, request: HttpRequest, answer: HttpResponse) -> bool:
        return (
            (self.statuses is None or answer.status in self.statuses)
            and (self.operations is None or request.operation in self.operations)
            and (self.page is None or answer.is_page is self.page)
            and (self.stay is None or (answer.stay is not None) is self.stay)
            and (self.text is None or (not answer.is_page and _found(self.text, answer)))
        )


def _found(text: re.Pattern[str], answer: HttpResponse) -> bool:
    return text.search(answer.body[:_LOOKED_AT_BYTES].decode(errors="replace")) is not None


def redirect(failure: StrEnum, named: str) -> FailureRule:
    """Return the rule for redirects, which farrier does not follow. `named` is the end of the error text; it states
    which URL the operator must configure."""
    detail = f"{{service}} returned HTTP {{status}}, a redirect; farrier does not follow redirects, {named}"
    return FailureRule(failure=failure, statuses=range(300, 400), detail=detail)


class Failures(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    """The failures of one service. `failure` is the enum of the service's classes of failure; the enum has a member for
    each `Reason`. The first matching rule in `rules` applies; the last rule matches every response. `retried` are the
    temporary classes. `busy` is the class if farrier's own queue is too long, and `unauthorized` is the class if the
    credential cannot be read. `credential` is the name of the credential in error texts. Each text begins with `where`,
    the instance of the service."""

    service: str
    error: type[E]
    failure: type[StrEnum]
    rules: tuple[FailureRule, ...]
    busy: StrEnum
    unauthorized: StrEnum
    credential: str
    retried: frozenset[StrEnum] = frozenset()
    where: str = ""

    def possible(self, operation: StrEnum) -> tuple[StrEnum, ...]:
        """Return the classes of failure that a request of this operation may have."""
        rules = {rule.failure for rule in self.rules if rule.operations is None or operation in rule.operations}
        found = rules | {self.failure(reason) for reason in Reason} | {self.unauthorized}
        return tuple(failure for failure in self.failure if failure in found)

    def of_answer(self, request: HttpRequest, answer: HttpResponse, *, secrets: Iterable[str]) -> E:
        """Return the error for a response that is no success."""
        rule = next(rule for rule in self.rules if rule.fits(request, answer))
        text = said(answer, secrets) if "{said}" in rule.detail else ""
        return self.error(
            rule.failure,
            self._placed(rule.detail.format(service=self.service, status=answer.status, said=text)),
            operation=request.operation,
            ambiguous=request.changes and answer.status >= 500,
            retry_after=answer.stay or None,  # a wait of zero counts as none
        )

    def of_exception(self, request: HttpRequest, error: Exception, *, within: timedelta) -> E:
        """Return the error for a missing or incomplete response."""
        why = no_answer(self.service, error, within=within)
        ambiguous = request.changes and why.arrived
        failure, detail = self.failure(why.reason), self._placed(why.detail)
        return self.error(failure, detail, operation=request.operation, ambiguous=ambiguous)

    def garbled(self, request: HttpRequest, detail: str) -> E:
        """Return the error for a successful response with an unusable body. A requested change may have been made."""
        failure = self.failure(Reason.PROTOCOL)
        return self.error(failure, self._placed(detail), operation=request.operation, ambiguous=request.changes)

    def without_credential(self, operation: str, error: CredentialError) -> E:
        """Return the error for a request that was not sent because its credential could not be read."""
        failure = self.failure(Reason.UNREACHABLE) if error.temporary else self.unauthorized
        return self.error(failure, self._placed(f"{self.credential} cannot be read: {error}"), operation=operation)

    def with_wrong_credential(self, operation: str, error: E) -> E:
        """Return the error for a request that was not sent because its credential has a wrong form."""
        return self.error(error.failure, self._placed(error.detail), operation=operation)

    def without_slot(self, operation: str, patience: timedelta) -> E:
        """Return the error for a request that was not sent because no slot was free."""
        detail = f"this replica's requests to {self.service} are queued for more than {patience.total_seconds():g} s"
        return self.error(self.busy, self._placed(detail), operation=operation, retry_after=patience)

    def _placed(self, detail: str) -> str:
        return f"{self.where}: {detail}" if self.where else detail


class Reason(StrEnum):
    """The reasons for a missing response. Each service has a class of failure with the same name."""

    TIMEOUT = "timeout"
    TLS = "tls"
    UNREACHABLE = "unreachable"
    PROTOCOL = "protocol"


class NoAnswer(msgspec.Struct, frozen=True):
    """A missing response. If `arrived` is true, the service may have received the request."""

    reason: Reason
    detail: str
    arrived: bool


def no_answer(service: str, error: Exception, *, within: timedelta) -> NoAnswer:
    """Classify an error of httpx; `within` is the time limit of the request."""
    before = _before_any_request(service, error)
    if before is not None:
        return before
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return NoAnswer(Reason.TIMEOUT, f"no connection to {service} in time", arrived=False)
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        detail = f"{service} sent no complete response within {within.total_seconds():g} s"
        return NoAnswer(Reason.TIMEOUT, detail, arrived=True)
    if isinstance(error, httpx.ConnectError):
        return NoAnswer(Reason.UNREACHABLE, f"no connection to {service}", arrived=False)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return NoAnswer(Reason.PROTOCOL, f"the URL of {service} is not valid", arrived=False)
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError | OSError):
        return NoAnswer(Reason.UNREACHABLE, f"{service} closed the connection", arrived=True)
    return NoAnswer(Reason.PROTOCOL, f"{service} sent no usable response ({type(error).__name__})", arrived=True)


def _before_any_request(service: str, error: Exception) -> NoAnswer | None:
    """Classify failures of name resolution and TLS, which httpx wraps in a failed connection."""
    connecting = isinstance(error, httpx.ConnectError)
    for cause in _chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            detail = f"{service}'s certificate is not trusted: {cause.verify_message}"
            return NoAnswer(Reason.TLS, detail, arrived=False)
        if connecting and isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            # The cause is more often a service that is starting than a wrong certificate.
            detail = f"{service} closed the connection during the TLS handshake"
            return NoAnswer(Reason.UNREACHABLE, detail, arrived=False)
        if connecting and isinstance(cause, ssl.SSLError):
            detail = f"the TLS handshake with {service} failed: {getattr(cause, 'reason', '') or type(cause).__name__}"
            return NoAnswer(Reason.TLS, detail, arrived=False)
        if isinstance(cause, socket.gaierror):
            return NoAnswer(Reason.UNREACHABLE, f"the host name of {service} does not resolve", arrived=False)
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Return the error and its causes, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
