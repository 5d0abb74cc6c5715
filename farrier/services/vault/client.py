"""Reads `vault:PATH` secrets from a Vault KV version 2 engine, below one path of one mount.

For a path outside of the configured path, no request is sent. Redirects are not followed. Each request has one
deadline. At any time, the client has at most one request per path and `CONCURRENCY` requests in total. A secret is kept
in memory for `keep`. After Vault has failed, no request is sent for `PAUSE`, and every caller gets the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final
from weakref import WeakValueDictionary

import anyio
import structlog

from farrier import protocols
from farrier.config import VaultConfig
from farrier.errors import CredentialError
from farrier.model.credential import is_plain_path
from farrier.services.credentials.files import LARGEST_SECRET_BYTES
from farrier.services.credentials.forms import SecretSource
from farrier.services.http.breaker import Breaker
from farrier.services.http.client import Endpoint, HttpClient, Pass, Service, open_client
from farrier.services.http.messages import HttpRequest
from farrier.services.http.times import Times
from farrier.services.vault import answers
from farrier.services.vault.answers import FAILURES, VaultError, VaultOperation, VaultResult

_log = structlog.stdlib.get_logger(__name__)

# Vault responds in milliseconds, so a dozen concurrent requests are enough for a fleet of any size.
CONCURRENCY = 12
# This pause is long enough that requests do not load a recovering Vault, and shorter than every backoff.
PAUSE = timedelta(seconds=5)

VAULT: Final = Service(failures=FAILURES, concurrency=CONCURRENCY, largest_body_bytes=LARGEST_SECRET_BYTES)


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
        """Read the secret. Raises `VaultError`; during the pause after a failure, it raises the error of that
        failure."""
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
            return await self._http.send_once(read, answers.secret)
        except VaultError as error:
            if error.failure is not VaultResult.DENIED:
                raise
        # Vault gives the same response to an invalid token and to a token without this right, so look the token up.
        own = HttpRequest(operation=VaultOperation.LOOK_UP_TOKEN, path="auth/token/lookup-self", answers={200})
        await self._http.send_once(own, answers.nothing)
        raise answers.lasting(VaultResult.DENIED, "Vault does not allow the configured token to read this path")

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
