"""Secrets of a Vault KV version 2 engine: `vault:PATH` below one path of one mount.

Opened by the credential store, and asked by nobody else. Guarantees: nothing is sent for a path outside the
configured one, redirects are not followed, one deadline per request, one request per path at a time, at most
`CONCURRENCY` in all. What was read is kept in memory for `keep`, so that thousands of power polls are few
requests. When Vault cannot be asked, nobody asks for `PAUSE`, and everybody is told why.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
import httpx
import msgspec
import structlog

from farrier import protocols
from farrier.errors import CredentialError
from farrier.model.credential import is_plain_path
from farrier.services import vault_answers
from farrier.services.answer import Answer, Garbled, received
from farrier.services.credential_files import LARGEST_SECRET_BYTES
from farrier.services.credential_forms import Source
from farrier.services.trust import verifying
from farrier.services.vault_answers import Failure, Operation, Result

_T = TypeVar("_T")

_log = structlog.stdlib.get_logger(__name__)

# A Vault answers in milliseconds; a dozen requests under way are more than a fleet of any size needs.
CONCURRENCY = 12
# Long enough that an outage costs a Vault that comes back next to nothing, short against every back-off.
PAUSE = timedelta(seconds=5)


class VaultSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which Vault, and what of it. `token` is a reference."""

    address: str
    token: str
    mount: str = "secret"
    path_prefix: str = "farrier"
    namespace: str = ""
    ca_file: Path | None = None
    timeout: timedelta = timedelta(seconds=5)
    keep: timedelta = timedelta(seconds=30)


@asynccontextmanager
async def open_vault(
    settings: VaultSettings,
    *,
    token: Callable[[], Awaitable[str]],
    clock: protocols.Clock,
    observer: protocols.ServiceObserver,
) -> AsyncIterator[Vault]:
    """The client, for as long as the context lasts; it dials when it is first asked. `token` is called before
    each request. Raises `ConfigError` for an unusable file of authorities."""
    headers = {"X-Vault-Request": "true", "Accept-Encoding": "identity"}
    if settings.namespace:
        headers["X-Vault-Namespace"] = settings.namespace
    async with httpx.AsyncClient(
        base_url=settings.address,
        headers=headers,
        verify=verifying(settings.ca_file),
        trust_env=False,
        follow_redirects=False,
        timeout=None,  # one deadline for all of a request is set where it is sent
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONCURRENCY),
    ) as client:
        yield Vault(settings, client, token=token, clock=clock, observer=observer)


class Vault:
    """Reads secrets."""

    def __init__(
        self,
        settings: VaultSettings,
        client: httpx.AsyncClient,
        *,
        token: Callable[[], Awaitable[str]],
        clock: protocols.Clock,
        observer: protocols.ServiceObserver,
    ) -> None:
        self._settings = settings
        self._client = client
        self._token = token
        self._clock = clock
        self._observer = observer
        self._slots = anyio.CapacityLimiter(CONCURRENCY)
        # A lock lives as long as somebody holds it or waits for it.
        self._one_at_a_time: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._kept: dict[str, tuple[float, Source]] = {}  # until when; the oldest first
        self._down: tuple[float, Failure] | None = None  # until when

    async def read(self, reference: str, path: str) -> Source:
        """The newest version of the secret at `path` as it was at most `keep` ago. Raises `CredentialError`,
        `temporary` if Vault cannot be asked now."""
        self._refuse_outside(reference, path)
        lock = self._one_at_a_time.setdefault(path, anyio.Lock())
        async with lock:
            source = self._fresh(path)
            if source is None:
                async with self._slots:
                    found = await self._fetch(path)
                if isinstance(found, Failure):
                    raise CredentialError(reference, found.reason, temporary=found.temporary)
                source = found
                self._keep(path, source)
        return source

    def _refuse_outside(self, reference: str, path: str) -> None:
        if not is_plain_path(path):
            raise CredentialError(
                reference,
                "a path of Vault is names of letters, digits and ._~@:+=- with single slashes between them; none is . "
                "or .., and the mount is not part of it",
            )
        prefix = self._settings.path_prefix
        if prefix and not path.startswith(f"{prefix}/"):
            raise CredentialError(reference, f"lies outside vault.path_prefix, which is {prefix}/")

    def _fresh(self, path: str) -> Source | None:
        until, source = self._kept.get(path, (0.0, None))
        return source if self._clock.monotonic() < until else None

    def _keep(self, path: str, source: Source) -> None:
        """For a while; those whose time is over go, whether or not anybody will ask for them again."""
        now = self._clock.monotonic()
        for old in [old for old, _ in itertools.takewhile(lambda kept: kept[1][0] <= now, self._kept.items())]:
            del self._kept[old]
        self._kept.pop(path, None)
        self._kept[path] = now + self._settings.keep.total_seconds(), source

    async def _fetch(self, path: str) -> Source | Failure:
        if self._down is not None and self._clock.monotonic() < self._down[0]:
            return self._down[1]
        found = await self._ask(Operation.READ, f"/v1/{self._settings.mount}/data/{path}", vault_answers.secret)
        if isinstance(found, Failure) and found.result is Result.DENIED:
            found = await self._denied(found)
        self._note(found)
        return found

    async def _denied(self, denied: Failure) -> Failure:
        """Vault says the same whether the token is worthless or just may not read this: ask about the token."""
        own = await self._ask(Operation.LOOK_UP_TOKEN, "/v1/auth/token/lookup-self", vault_answers.accepted)
        if isinstance(own, Failure):
            return denied if own.result is Result.DENIED else own
        return Failure(Result.DENIED, "Vault does not let our token read this path", temporary=False)

    def _note(self, found: Source | Failure) -> None:
        if not isinstance(found, Failure) or not found.temporary:
            if self._down is not None:
                _log.info("vault.available")
            self._down = None
            return
        if self._down is None or self._down[1] != found:
            _log.warning("vault.unavailable", reason=found.reason)
        self._down = self._clock.monotonic() + PAUSE.total_seconds(), found

    async def _ask(self, operation: Operation, path: str, meaning: Callable[[Answer], _T | Failure]) -> _T | Failure:
        """One GET, reported to the observer however it ends."""
        try:
            token = await self._token()
        except CredentialError as error:
            return Failure(Result.DENIED, f"the token for Vault cannot be had: {error}")
        started = self._clock.monotonic()
        result = Result.CANCELLED
        try:
            answer = await self._get(path, token)
            found = meaning(answer) if isinstance(answer, Answer) else answer
            result = found.result if isinstance(found, Failure) else Result.OK
        finally:
            self._observer.requested("vault", operation, result, self._clock.monotonic() - started)
        return found

    async def _get(self, path: str, token: str) -> Answer | Failure:
        seconds = self._settings.timeout.total_seconds()
        try:
            with anyio.fail_after(seconds):
                async with self._client.stream("GET", path, headers={"X-Vault-Token": token}) as response:
                    # As it is on the wire: we asked for no compression, so nothing grows behind the bound.
                    return await received(response, response.aiter_raw(), most=LARGEST_SECRET_BYTES)
        except TimeoutError:
            return Failure(Result.TIMEOUT, f"no complete answer of Vault within {seconds:g} s")
        except Garbled as error:
            return Failure(Result.PROTOCOL, error.detail, temporary=False)
        except httpx.HTTPError as error:
            return vault_answers.of_exception(error)
