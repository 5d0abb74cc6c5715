"""Pure functions that interpret responses of Vault: a secret, or a failure with a metric label and a text.

The Vault client uses these functions. A failure is temporary, unless Vault reports that this secret is missing or that
farrier's token may not read it. farrier writes the error texts, and never quotes a body, because a body may contain the
secret.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

import msgspec
from typing_extensions import override

from farrier.model.request_error import RequestError
from farrier.services.credentials.forms import SecretFormat, SecretSource
from farrier.services.http.failures import FailureRule, Failures, redirect
from farrier.services.http.messages import HttpRequest, HttpResponse

_T = TypeVar("_T")


class VaultOperation(StrEnum):
    """The purpose of a request, also the value of a metric label."""

    READ = "read"
    LOOK_UP_TOKEN = "look_up_token"


class VaultResult(StrEnum):
    """The result of a request, also the value of a metric label."""

    OK = "ok"
    CANCELLED = "cancelled"
    MISSING = "missing"  # the secret does not exist, or its newest version was deleted
    DENIED = "denied"
    UNAVAILABLE = "unavailable"  # sealed, busy, or failing
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # the response is not from a KV v2 engine


class VaultError(RequestError[VaultResult]):
    """The secret could not be read. If `temporary` is true, a later read may succeed."""

    temporary = True


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


RULES: Final = (
    FailureRule(
        failure=VaultResult.DENIED, statuses={403}, detail="Vault refuses the token; it has expired or was revoked"
    ),
    *(
        FailureRule(failure=VaultResult.UNAVAILABLE, statuses={status}, detail=f"{text} (HTTP {{status}})")
        for status, text in {
            412: "Vault is not up to date yet",
            429: "Vault reports too many requests",
            472: "this Vault server is a standby of another site",
            473: "this Vault is a standby",
            500: "Vault failed",
            502: "Vault or the proxy in front of it failed",
            503: "Vault is sealed or in maintenance",
            504: "Vault did not respond to the proxy in front of it",
        }.items()
    ),
    redirect(VaultResult.PROTOCOL, "vault.address must be the address of a server that responds without redirects"),
    FailureRule(failure=VaultResult.PROTOCOL, detail="Vault returned HTTP {status}"),
)


class _VaultFailures(Failures[VaultError], frozen=True, kw_only=True):
    @override
    def garbled(self, request: HttpRequest, detail: str) -> VaultError:
        """Return a failure that concerns only this secret, because the response to its request is too large."""
        return lasting(VaultResult.PROTOCOL, detail)


FAILURES: Final = _VaultFailures(
    service="Vault",
    error=VaultError,
    failure=VaultResult,
    rules=RULES,
    unauthorized=VaultResult.DENIED,
    credential="the token for Vault",
    busy=VaultResult.UNAVAILABLE,
)


def lasting(result: VaultResult, reason: str) -> VaultError:
    """Return a failure that lasts until an operator changes the settings or the secret."""
    error = VaultError(result, reason)
    error.temporary = False
    return error


def nothing(_: HttpResponse) -> None:
    """Ignore the body of a successful response."""


def secret(answer: HttpResponse) -> SecretSource:
    """Return the newest version of a secret, from a response with status 200 or 404. Raises `VaultError` if there is no
    secret."""
    kept = _decoded(answer.body, _Read)
    if kept is not None and bytes(kept.data.data) == b"null":
        raise lasting(VaultResult.MISSING, _gone(kept.data.metadata))
    if answer.status == 404:
        refused = _decoded(answer.body, _Refused)
        if refused is None:
            raise VaultError(
                VaultResult.PROTOCOL, "the response (HTTP 404) did not come from Vault; check vault.address"
            )
        if any("no handler for route" in error for error in refused.errors):
            raise lasting(VaultResult.MISSING, "Vault has no secrets engine at vault.mount")
        raise lasting(VaultResult.MISSING, "Vault has no such secret")
    if kept is None:
        raise VaultError(
            VaultResult.PROTOCOL, "the response did not come from a KV version 2 engine; check vault.mount"
        )
    return SecretSource(text=bytes(kept.data.data).decode(), form=SecretFormat.JSON, number=kept.data.metadata.version)


def _gone(metadata: _Metadata) -> str:
    if metadata.destroyed:
        return f"version {metadata.version} of the secret was destroyed, and there is no newer one"
    return (
        f"version {metadata.version} of the secret was deleted at {metadata.deletion_time}; undelete it or write a new "
        "version"
    )


def _decoded(body: bytes, shape: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
