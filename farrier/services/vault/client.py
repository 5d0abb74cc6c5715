"""Reads `vault:PATH` secrets from a Vault KV version 2 engine, below one path of one mount.

For a path outside of the configured path, no request is sent. Redirects are not followed. Each request has one
deadline. At any time, the client has at most one request per path and `CONCURRENCY` requests in total. A secret is kept
in memory for `keep`. After Vault has failed, no request is sent for `PAUSE`, and every caller gets the reason. A
failure is temporary, unless Vault reports that this secret is missing or that farrier's token may not read it. farrier
writes the error texts, and never quotes a body, because a body may contain the secret.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
import msgspec
import structlog
from typing_extensions import override

from farrier import protocols
from farrier.config import VaultConfig
from farrier.errors import CredentialError
from farrier.model.credential import is_plain_path
from farrier.model.request_error import RequestError
from farrier.services.credentials.files import LARGEST_SECRET_BYTES
from farrier.services.credentials.forms import SecretFormat, SecretSource
from farrier.services.http.breaker import Breaker
from farrier.services.http.client import Endpoint, HttpClient, Pass, Service, Times, open_client
from farrier.services.http.failures import FailureRule, Failures, redirect
from farrier.services.http.messages import HttpRequest, HttpResponse

_log = structlog.stdlib.get_logger(__name__)
_T = TypeVar("_T")

# Vault responds in milliseconds, so a dozen concurrent requests are enough for a fleet of any size.
CONCURRENCY = 12
# This pause is long enough that requests do not load a recovering Vault, and shorter than every backoff.
PAUSE = timedelta(seconds=5)


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
        return _lasting(VaultResult.PROTOCOL, detail)


FAILURES: Final = _VaultFailures(
    service="Vault",
    error=VaultError,
    failure=VaultResult,
    rules=RULES,
    unauthorized=VaultResult.DENIED,
    credential="the token for Vault",
    busy=VaultResult.UNAVAILABLE,
)

VAULT: Final = Service(failures=FAILURES, concurrency=CONCURRENCY, largest_body_bytes=LARGEST_SECRET_BYTES)


def _lasting(result: VaultResult, reason: str) -> VaultError:
    """Return a failure that lasts until an operator changes the settings or the secret."""
    error = VaultError(result, reason)
    error.temporary = False
    return error


def _nothing(_: HttpResponse) -> None:
    """Ignore the body of a successful response."""


def _secret(answer: HttpResponse) -> SecretSource:
    """Return the newest version of a secret (status 200 or 404). Raises `VaultError` if there is none."""
    kept = _decoded(answer.body, _Read)
    if kept is not None and bytes(kept.data.data) == b"null":
        raise _lasting(VaultResult.MISSING, _gone(kept.data.metadata))
    if answer.status == 404:
        refused = _decoded(answer.body, _Refused)
        if refused is None:
            raise VaultError(
                VaultResult.PROTOCOL, "the response (HTTP 404) did not come from Vault; check vault.address"
            )
        if any("no handler for route" in error for error in refused.errors):
            raise _lasting(VaultResult.MISSING, "Vault has no secrets engine at vault.mount")
        raise _lasting(VaultResult.MISSING, "Vault has no such secret")
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


@asynccontextmanager
async def open_vault(
    settings: VaultConfig,
    *,
    token: Callable[[], Awaitable[str]],
    clock: protocols.Clock,
    observer: protocols.ServiceObserver,
) -> AsyncIterator[Vault]:
    """Open the client, which closes with the context and connects at its first request. `token` is called before each
    request. Raises `ConfigError` for an unusable CA file."""
    shown = {"X-Vault-Request": "true"} | ({"X-Vault-Namespace": settings.namespace} if settings.namespace else {})

    async def credential() -> Pass:
        secret = await token()
        return Pass({**shown, "X-Vault-Token": secret}, (secret,))

    endpoint = Endpoint(
        root=f"{settings.address.rstrip('/')}/v1/",
        ca_file=settings.ca_file,
        connect_timeout=settings.timeout,  # one deadline for a whole request
        read_timeout=settings.timeout,
        change_timeout=settings.timeout,
    )
    async with open_client(VAULT, endpoint, credential=credential, times=Times(clock=clock), observer=observer) as http:
        yield Vault(settings, http, clock=clock)


class Vault:
    """Reads secrets."""

    def __init__(self, settings: VaultConfig, http: HttpClient[VaultError], *, clock: protocols.Clock) -> None:
        self._settings = settings
        self._http = http
        self._clock = clock
        # The map contains a lock while a call has the lock or waits for it.
        self._one_at_a_time: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._kept: dict[str, tuple[float, SecretSource]] = {}  # when each secret expires; the oldest first
        self._breaker: Breaker[VaultError] = Breaker(clock, pause=PAUSE)

    async def read(self, reference: str, path: str) -> SecretSource:
        """Return the newest version of the secret at `path`, read at most `keep` ago. Raises `CredentialError`, which
        is `temporary` if Vault cannot be reached now."""
        self._refuse_outside(reference, path)
        lock = self._one_at_a_time.setdefault(path, anyio.Lock())
        async with lock:
            source = self._fresh(path)
            if source is None:
                try:
                    async with self._http.slots:
                        source = await self._fetch(path)
                except VaultError as error:
                    raise CredentialError(reference, error.detail, temporary=error.temporary) from None
                self._keep(path, source)
        return source

    def _refuse_outside(self, reference: str, path: str) -> None:
        if not is_plain_path(path):
            raise CredentialError(
                reference,
                "expected a path of names separated by single slashes; a name consists of letters, digits and "
                "._~@:+=-, and is not . or ..; omit the mount",
            )
        prefix = self._settings.path_prefix
        if prefix and not path.startswith(f"{prefix}/"):
            raise CredentialError(reference, f"is outside of vault.path_prefix, which is {prefix}/")

    def _fresh(self, path: str) -> SecretSource | None:
        until, source = self._kept.get(path, (0.0, None))
        return source if self._clock.monotonic() < until else None

    def _keep(self, path: str, source: SecretSource) -> None:
        """Keep the secret for a while, and drop expired secrets."""
        now = self._clock.monotonic()
        for old in [old for old, _ in itertools.takewhile(lambda kept: kept[1][0] <= now, self._kept.items())]:
            del self._kept[old]
        self._kept.pop(path, None)
        self._kept[path] = now + self._settings.keep.total_seconds(), source

    async def _fetch(self, path: str) -> SecretSource:
        """Read the secret. Raises `VaultError`: during the pause after a failure, that of the failure."""
        trouble = self._breaker.trouble()
        if trouble is not None:
            raise trouble.error.of_another()
        try:
            source = await self._ask(path)
        except VaultError as error:
            self._note(error if error.temporary else None)
            raise
        self._note(None)
        return source

    async def _ask(self, path: str) -> SecretSource:
        read = HttpRequest(
            operation=VaultOperation.READ, path=f"{self._settings.mount}/data/{path}", answers={200, 404}
        )
        try:
            return await self._http.send_once(read, _secret)
        except VaultError as error:
            if error.failure is not VaultResult.DENIED:
                raise
        # Vault gives the same response to an invalid token and to a token without this right, so look the token up.
        own = HttpRequest(operation=VaultOperation.LOOK_UP_TOKEN, path="auth/token/lookup-self", answers={200})
        await self._http.send_once(own, _nothing)
        raise _lasting(VaultResult.DENIED, "Vault does not allow the configured token to read this path")

    def _note(self, trouble: VaultError | None) -> None:
        before = self._breaker.last
        if trouble is None:
            if before is not None:
                _log.info("vault.available")
            self._breaker.close()
            return
        if before is None or before.detail != trouble.detail:
            _log.warning("vault.unavailable", reason=trouble.detail)
        self._breaker.open(trouble)
