"""Why a service beyond HTTP gave no complete answer: total, in words of our own, because its texts may be anybody's.

Used by what classifies the failures of MAAS and of UFM; that of Vault has its own words, and uses the chain. Pure.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

import httpx
import msgspec


class Reason(StrEnum):
    """Each client has a class of failure of the same name."""

    TIMEOUT = "timeout"
    TLS = "tls"
    UNREACHABLE = "unreachable"
    PROTOCOL = "protocol"


class NoAnswer(msgspec.Struct, frozen=True):
    """`arrived`: the request may have been done."""

    reason: Reason
    detail: str
    arrived: bool


def no_answer(service: str, error: Exception, *, within: timedelta) -> NoAnswer:
    """What httpx's error means; `within` is how long the whole was allowed to take."""
    before = _before_any_request(service, error)
    if before is not None:
        return before
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return NoAnswer(Reason.TIMEOUT, f"no connection to {service} in time", arrived=False)
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        detail = f"no complete answer of {service} within {within.total_seconds():g} s"
        return NoAnswer(Reason.TIMEOUT, detail, arrived=True)
    if isinstance(error, httpx.ConnectError):
        return NoAnswer(Reason.UNREACHABLE, f"no connection to {service}", arrived=False)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return NoAnswer(Reason.PROTOCOL, f"the URL of {service} is none", arrived=False)
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError | OSError):
        return NoAnswer(Reason.UNREACHABLE, f"{service} closed the connection", arrived=True)
    return NoAnswer(Reason.PROTOCOL, f"no usable answer of {service} ({type(error).__name__})", arrived=True)


def _before_any_request(service: str, error: Exception) -> NoAnswer | None:
    """Names and certificates, which the layers above hide in a failed connection."""
    connecting = isinstance(error, httpx.ConnectError)
    for cause in chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            detail = f"the certificate of {service} is not trusted: {cause.verify_message}"
            return NoAnswer(Reason.TLS, detail, arrived=False)
        if connecting and isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            # A service that is starting more often than a certificate in question.
            detail = f"{service} closed the connection during the TLS handshake"
            return NoAnswer(Reason.UNREACHABLE, detail, arrived=False)
        if connecting and isinstance(cause, ssl.SSLError):
            detail = f"the TLS handshake failed: {getattr(cause, 'reason', '') or type(cause).__name__}"
            return NoAnswer(Reason.TLS, detail, arrived=False)
        if isinstance(cause, socket.gaierror):
            return NoAnswer(Reason.UNREACHABLE, f"the host name of {service} does not resolve", arrived=False)
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came of, the outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
