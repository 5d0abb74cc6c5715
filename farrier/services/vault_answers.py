"""What an answer of Vault means: the secret, or a failure with a result for the metrics and a text for people.

Used by the Vault client; pure. A failure is temporary unless Vault said something about this very secret: that
it is not there, or that our token may not read it. Texts are our own words; a body is quoted nowhere, for what
is in it may be the secret.
"""

from __future__ import annotations

import socket
import ssl
from enum import StrEnum
from typing import TypeVar

import httpx
import msgspec

from farrier.services.answer import Answer
from farrier.services.credential_forms import Form, Source
from farrier.services.no_answer import chain

_T = TypeVar("_T")


class Operation(StrEnum):
    """What a request was for; a metric label."""

    READ = "read"
    LOOK_UP_TOKEN = "look_up_token"


class Result(StrEnum):
    """How a request ended; a metric label."""

    OK = "ok"
    CANCELLED = "cancelled"
    MISSING = "missing"  # no such secret, or its newest version was deleted
    DENIED = "denied"
    UNAVAILABLE = "unavailable"  # sealed, busy, or failing
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # no answer of a KV v2 engine


class Failure(msgspec.Struct, frozen=True):
    """Why there is no secret. `temporary`: the same question may be answered later."""

    result: Result
    reason: str
    temporary: bool = True


class _Metadata(msgspec.Struct, frozen=True):
    version: int
    deletion_time: str = ""
    destroyed: bool = False


class _Kept(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Read(msgspec.Struct, frozen=True):
    data: _Kept


class _Refused(msgspec.Struct, frozen=True):
    errors: tuple[str, ...]


_UNAVAILABLE = {
    412: "Vault is not up to date yet (HTTP 412)",
    429: "Vault answers that there are too many requests (HTTP 429)",
    472: "this Vault is a standby of another site (HTTP 472)",
    473: "this Vault is a standby (HTTP 473)",
    500: "Vault failed (HTTP 500)",
    502: "Vault, or what stands in front of it, failed (HTTP 502)",
    503: "Vault is sealed or in maintenance (HTTP 503)",
    504: "Vault did not answer what stands in front of it (HTTP 504)",
}


def accepted(answer: Answer) -> Answer | Failure:
    """The answer, if Vault did what it was asked for."""
    return answer if answer.status == 200 else failed(answer.status)


def secret(answer: Answer) -> Source | Failure:
    """The newest version of a secret, or why there is none. What 403 means, only asking about the token tells."""
    if answer.status not in (200, 404):
        return failed(answer.status)
    kept = _decoded(answer.body, _Read)
    if kept is not None and bytes(kept.data.data) == b"null":
        return Failure(Result.MISSING, _gone(kept.data.metadata), temporary=False)
    if answer.status == 404:
        refused = _decoded(answer.body, _Refused)
        if refused is None:
            return Failure(Result.PROTOCOL, "the answer (HTTP 404) is not Vault's; check vault.address")
        if any("no handler for route" in error for error in refused.errors):
            return Failure(Result.MISSING, "Vault has no secrets engine at vault.mount", temporary=False)
        return Failure(Result.MISSING, "Vault has no such secret", temporary=False)
    if kept is None:
        return Failure(Result.PROTOCOL, "the answer is not that of a KV version 2 engine; check vault.mount")
    return Source(text=bytes(kept.data.data).decode(), form=Form.JSON, number=kept.data.metadata.version)


def failed(status: int) -> Failure:
    """What a status means that is not 200."""
    if 300 <= status < 400:
        return Failure(
            Result.PROTOCOL,
            f"Vault answered HTTP {status}, a redirect; these are not followed, vault.address has to name a server "
            "that answers itself",
        )
    if status == 403:
        return Failure(Result.DENIED, "Vault refuses the token; it has ended, or was revoked")
    if status in _UNAVAILABLE:
        return Failure(Result.UNAVAILABLE, _UNAVAILABLE[status])
    return Failure(Result.PROTOCOL, f"Vault answered HTTP {status}")


def of_exception(error: httpx.HTTPError) -> Failure:
    """What it means that there is no answer."""
    for cause in chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Failure(Result.TLS, f"Vault's certificate is not trusted: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            return Failure(Result.TLS, f"the TLS handshake with Vault failed: {cause.reason or type(cause).__name__}")
        if isinstance(cause, socket.gaierror):
            return Failure(Result.UNREACHABLE, "the host name of Vault does not resolve")
    if isinstance(error, httpx.ConnectError):
        return Failure(Result.UNREACHABLE, "no connection to Vault")
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return Failure(Result.UNREACHABLE, "Vault closed the connection")
    return Failure(Result.PROTOCOL, f"no usable answer of Vault ({type(error).__name__})")


def _gone(metadata: _Metadata) -> str:
    if metadata.destroyed:
        return f"version {metadata.version} of the secret was destroyed, and there is no newer one"
    return f"version {metadata.version} of the secret was deleted at {metadata.deletion_time}; undelete it or write one"


def _decoded(body: bytes, shape: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
