"""Maps each exception and HTTP status to a failure class and a text. An unknown exception becomes `internal`.

farrier writes the texts, and adds short reasons from aiohttp, ssl and the redfish library. The same cause always
results in the same text, because farrier stores an outcome only when it changes.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeAlias

import aiohttp
from redfish import aio as redfish

from farrier.errors import CredentialError, LeaseLost
from farrier.model.machine.bmc import BmcError, BmcFailure
from farrier.services.bmc.transport import LARGEST_BODY_BYTES, LARGEST_HEADER_BYTES, BodyTooLarge

Rule: TypeAlias = tuple[tuple[type[Exception], ...], BmcFailure, Callable[[Exception], str]]


# The errors that a request to a BMC may raise; any other is a bug of farrier.
FORESEEN = (BmcError, redfish.RedfishError, aiohttp.ClientError, OSError, RecursionError)


def _tls(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        return (
            "the BMC's certificate is not the pinned certificate; the SHA-256 of the BMC's certificate is "
            f"{error.got.hex()}"
        )
    if "HANDSHAKE_FAILURE" in (getattr(error, "reason", None) or ""):
        return "the BMC accepts none of the usual ciphers of TLS 1.2 and 1.3; set ciphers for it in bmc.hosts"
    reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or type(error).__name__
    return f"the TLS handshake failed: {reason}"


def _unreachable(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return f"no connection: {os.strerror(number).lower()}" if number else "the BMC closed the connection"


def _not_http(error: Exception) -> str:
    """Return what is wrong with a response that aiohttp cannot read. The text contains nothing of the response."""
    said = getattr(error, "message", "").partition("\n")[0].partition(":")[0]
    if said.startswith("Got more than"):
        return f"a header of the response is longer than {LARGEST_HEADER_BYTES} bytes"
    if "can't be present with" in said:
        return "the response has both Content-Length and Transfer-Encoding, which HTTP forbids"
    if not said or said == "Bad status line":
        return "the response is not HTTP"
    return f"the response violates HTTP: {said.lower()}"


def _always(text: str) -> Callable[[Exception], str]:
    return lambda _: text


# The first rule that matches any exception of the chain determines the class, and the innermost matching exception
# determines the text. The rules for certificates and time-outs precede the rules for connections, because connection
# errors wrap the exceptions of certificates and time-outs.
_RULES: tuple[Rule, ...] = (
    # A peer that closes the connection during the handshake is more often a rebooting BMC than a wrong certificate.
    (
        (ssl.SSLEOFError, ssl.SSLZeroReturnError),
        BmcFailure.UNREACHABLE,
        _always("the BMC closed the connection during the TLS handshake"),
    ),
    ((aiohttp.InvalidURL,), BmcFailure.INCOMPLETE, _always("the BMC address is neither a host name nor an IP address")),
    ((ssl.SSLError, aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch), BmcFailure.TLS, _tls),
    ((aiohttp.ConnectionTimeoutError,), BmcFailure.TIMEOUT, _always("no connection in time")),
    ((redfish.RedfishTimeoutError, TimeoutError), BmcFailure.TIMEOUT, _always("no complete response in time")),
    ((BodyTooLarge,), BmcFailure.PROTOCOL, _always(f"the response is larger than {LARGEST_BODY_BYTES} bytes")),
    ((aiohttp.ClientPayloadError,), BmcFailure.PROTOCOL, _always("the response is incomplete or cannot be decoded")),
    ((aiohttp.ClientResponseError,), BmcFailure.PROTOCOL, _not_http),
    ((redfish.RedfishProtocolError,), BmcFailure.PROTOCOL, _always("the response is not JSON")),
    ((RecursionError,), BmcFailure.PROTOCOL, _always("the JSON of the response is nested too deeply")),
    (
        (redfish.RedfishInvalidTargetError,),
        BmcFailure.PROTOCOL,
        _always("a link in the response leads to another host"),
    ),
    ((socket.gaierror,), BmcFailure.UNREACHABLE, _always("the host name does not resolve")),
    ((OSError, aiohttp.ClientError, redfish.RedfishConnectionError), BmcFailure.UNREACHABLE, _unreachable),
)

_STATUSES = {
    401: BmcFailure.AUTH,
    403: BmcFailure.REFUSED,
    404: BmcFailure.UNSUPPORTED,
    405: BmcFailure.UNSUPPORTED,
    410: BmcFailure.UNSUPPORTED,
    501: BmcFailure.UNSUPPORTED,
    # The BMC is busy or booting: it, or a proxy in front of it, requires a later retry.
    409: BmcFailure.UNREACHABLE,
    429: BmcFailure.UNREACHABLE,
    502: BmcFailure.UNREACHABLE,
    503: BmcFailure.UNREACHABLE,
    504: BmcFailure.UNREACHABLE,
}

OF_A_REQUEST = tuple(
    failure
    for failure in BmcFailure
    if failure in {BmcFailure.INTERNAL, *_STATUSES.values(), *(failure for _, failure, _ in _RULES)}
)
"""The failures of single requests. The client finds the other failures by comparing what it has read."""

# With these errors, the BMC has responded to the request or has never received it.
_ANSWERED_OR_NEVER_HAD = (
    BmcError,
    CredentialError,
    LeaseLost,  # the error was raised before the request was sent
    aiohttp.ClientConnectorError,  # no route, no name, no handshake
    aiohttp.ConnectionTimeoutError,
    aiohttp.ServerFingerprintMismatch,
    aiohttp.InvalidURL,
    socket.gaierror,
    redfish.RedfishInvalidTargetError,
    redfish.RedfishProtocolError,
    RecursionError,  # the JSON of a response is nested too deeply
)


def of_exception(error: Exception) -> tuple[BmcFailure, str]:
    """Return the class and text of any exception; the class is `internal` if no rule matches."""
    chain = tuple(_innermost_first(error))
    for cause in chain:
        if isinstance(cause, BmcError):
            return cause.failure, cause.detail
        if isinstance(cause, CredentialError):
            # Wrong details need an operator's edit; an unavailable Vault recovers without one.
            return (BmcFailure.UNREACHABLE if cause.temporary else BmcFailure.INCOMPLETE), str(cause)
    for kinds, failure, text in _RULES:
        for cause in chain:
            if isinstance(cause, kinds):
                return failure, text(cause)
    return BmcFailure.INTERNAL, f"unexpected {type(error).__name__}; the log has the traceback"


def is_of_credential(error: Exception) -> bool:
    """Return whether the cause is that the secret could not be read."""
    return any(isinstance(cause, CredentialError) for cause in _innermost_first(error))


def of_status(status: int) -> BmcFailure | None:
    """Return the class of an HTTP status, or None for success. A redirect is a failure; the client follows some of
    them afterwards."""
    if 200 <= status < 300:
        return None
    return _STATUSES.get(status, BmcFailure.PROTOCOL)


def may_have_arrived(error: Exception) -> bool:
    """Return whether the request may have reached the BMC although no response arrived. False if the BMC responded, or
    if there was no connection."""
    return not any(isinstance(cause, _ANSWERED_OR_NEVER_HAD) for cause in _innermost_first(error))


def retry_after(error: Exception) -> timedelta | None:
    """Return how long the caller must wait, as the BMC or the login cap requires."""
    waits = (cause.retry_after for cause in _innermost_first(error) if isinstance(cause, BmcError))
    return next(waits, None)


def _innermost_first(error: Exception) -> Iterator[Exception]:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, Exception):
        yield from _innermost_first(cause)
    yield error
