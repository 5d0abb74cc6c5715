"""Requests to one MAAS region: a few at a time, signed, bounded in time and size, reported, understood or refused.

Made by the MAAS client, over the connections of `maas_wire`. A read that failed of something that passes is sent again,
at most `ATTEMPTS` times in all and not before the region wants it; a request that may change something is sent once,
whatever becomes of it. Waiting for a slot is no part of a request's time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar

import anyio
import httpx

from farrier import protocols
from farrier.errors import CredentialError
from farrier.model.maas import MaasError, MaasFailure
from farrier.protocols.acting import require_lease
from farrier.services import maas_failure
from farrier.services.answer import Answer, Garbled
from farrier.services.maas_requests import Operation, Request
from farrier.services.maas_signing import ApiKey, authorization, parsed
from farrier.services.maas_wire import CONCURRENCY, MaasSettings, Wire
from farrier.services.sending import reported, tried
from farrier.services.times import Times

_T = TypeVar("_T")

# A region that is restarted is away longer than any number of tries that is worth holding a caller for.
ATTEMPTS = 3
# A caller that is told to wait longer than this is told so, and may do something else.
LONGEST_PAUSE = timedelta(seconds=10)

# A key comes from a file or a store by way of another thread, which a busy loop keeps waiting for longer than most
# requests take. A rotation is seen this much later, or after the first request that is refused.
KEY_KEPT = timedelta(seconds=1)

_PASSES = frozenset({MaasFailure.BUSY, MaasFailure.UPSTREAM, MaasFailure.UNREACHABLE})


class Transport:
    """Sends requests. `key` answers the key as MAAS prints it, and is asked at most once in `KEY_KEPT`."""

    def __init__(
        self,
        settings: MaasSettings,
        wire: Wire,
        *,
        key: Callable[[], Awaitable[str]],
        times: Times,
        observer: protocols.ServiceObserver,
    ) -> None:
        self._settings = settings
        self._wire = wire
        self._key = key
        self._times = times
        self._observer = observer
        self._slots = anyio.CapacityLimiter(CONCURRENCY)
        self._known: tuple[float, ApiKey] | None = None

    async def send(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        """What `understand` makes of a success; it raises `Garbled` for what it cannot. Raises `MaasError`."""
        return await tried(
            partial(self._once, request, understand),
            attempts=1 if request.changes else ATTEMPTS,
            passes=_PASSES,
            longest_pause=LONGEST_PAUSE,
            times=self._times,
        )

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """A slot to keep for several requests, so that nothing waits between them."""
        async with self._slots:
            yield Slot(self._reported)

    async def _once(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        async with self._slots:
            return await self._reported(request, understand)

    async def _reported(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        with reported("maas", request.operation, clock=self._times.clock, observer=self._observer):
            return await self._answered(request, understand)

    async def _answered(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        key = await self.api_key(request.operation)
        secrets = (*key.secrets, *request.secrets)
        answer = await self._exchange(request, key)
        if answer.status == 401:
            self._known = None
        if not 200 <= answer.status < 300:
            raise maas_failure.of_answer(request, answer, secrets=secrets)
        try:
            return understand(answer)
        except Garbled as error:
            raise maas_failure.garbled(request, error.detail) from None

    async def api_key(self, operation: Operation) -> ApiKey:
        """The key as it is now, or was a moment ago. Raises `MaasError`."""
        now = self._times.clock.monotonic()
        if self._known is not None and now - self._known[0] < KEY_KEPT.total_seconds():
            return self._known[1]
        try:
            key = parsed(await self._key())
        except CredentialError as error:
            failure = MaasFailure.UNREACHABLE if error.temporary else MaasFailure.AUTH
            raise MaasError(failure, f"the API key cannot be had: {error}", operation=operation) from None
        except MaasError as error:
            raise MaasError(error.failure, error.detail, operation=operation) from None
        self._known = now, key
        return key

    async def _exchange(self, request: Request, key: ApiKey) -> Answer:
        """The cause is not chained: it holds the request, and with it the key."""
        within = self._settings.change_timeout if request.changes else self._settings.read_timeout
        try:
            with anyio.fail_after(within.total_seconds()):
                if request.changes:
                    require_lease()
                return await self._wire.exchange(request, authorization(key, self._times.wall()))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:  # TimeoutError is one of the last
            raise maas_failure.of_exception(request, error, within=within) from None


class Sends(Protocol):
    """What sends a request: the transport, or a slot of it that is kept."""

    async def send(self, request: Request, understand: Callable[[Answer], _T]) -> _T: ...


class Slot:
    """A slot that is kept. Each request is sent once, also one that only reads: nobody waits long for a slot."""

    def __init__(self, once: _Once) -> None:
        self._once = once

    async def send(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        """As the transport's."""
        return await self._once(request, understand)


class _Once(Protocol):
    async def __call__(self, request: Request, understand: Callable[[Answer], _T]) -> _T: ...
