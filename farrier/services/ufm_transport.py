"""Requests to one UFM: a few at a time, bounded in time and size, reported, understood or refused.

Made by the UFM client. A read that failed of something that passes is sent again, at most `ATTEMPTS` times in all; a
request that may change something is sent once, whatever becomes of it. No redirect is followed, and no answer read past
`LARGEST_BODY_BYTES`. Secrets are in headers alone, and in no text.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import httpx
import msgspec
import structlog
from typing_extensions import override

from farrier import protocols
from farrier.errors import CredentialError
from farrier.model.ufm import UfmError, UfmFailure
from farrier.protocols.acting import require_lease
from farrier.services import ufm_failure
from farrier.services.answer import Answer, Garbled, received
from farrier.services.sending import reported, tried
from farrier.services.times import Times
from farrier.services.trust import verifying
from farrier.services.ufm_requests import Operation, Request

_T = TypeVar("_T")

_log = structlog.stdlib.get_logger(__name__)

# UFM works on partitions one after the other; more of ours would only queue inside it.
CONCURRENCY = 4
# A port has 80 bytes in the list: a thousand partitions with a hundred ports each.
LARGEST_BODY_BYTES = 9 * 1024 * 1024
ATTEMPTS = 3
# Whoever would wait longer for a place may as well come again.
PATIENCE = timedelta(seconds=10)
# A caller that is told to wait longer than this is told so, and may do something else.
LONGEST_PAUSE = timedelta(seconds=5)
# Some wrong passwords in a row lock a user out: one that was refused is not shown again so soon, unless it is another
# by then.
REFUSED_KEPT = timedelta(minutes=1)
# As for keys of MAAS: a rotation is seen this much later, or after the first request that is refused.
KEPT = timedelta(seconds=1)

_PASSES = frozenset({UfmFailure.BUSY, UfmFailure.UPSTREAM, UfmFailure.UNREACHABLE})


class UfmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which UFM, and how to speak to it. `with_token`: it is shown a token, and no user and password. `named`: it is
    told our names of partitions."""

    url: str
    with_token: bool = False
    ca_file: Path | None = None
    named: bool = False
    connect_timeout: timedelta = timedelta(seconds=5)
    read_timeout: timedelta = timedelta(seconds=15)
    change_timeout: timedelta = timedelta(seconds=30)


class Pass(msgspec.Struct, frozen=True):
    """What is shown to UFM. `secrets` must be in no text."""

    header: str
    secrets: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return "Pass(***)"


async def pass_of(store: protocols.CredentialStore, reference: str, *, with_token: bool) -> Pass:
    """What a reference leads to, as UFM wants to be shown it. Raises `CredentialError`."""
    if with_token:
        token = await store.token(reference)
        return Pass(f"Basic {token}", (token,))
    found = await store.resolve(reference)
    plain = base64.b64encode(f"{found.username}:{found.password}".encode()).decode()
    return Pass(f"Basic {plain}", (found.password, plain))


@asynccontextmanager
async def open_http(
    settings: UfmSettings, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Connections to UFM. Raises `ConfigError` for an unusable file of authorities."""
    context = verifying(settings.ca_file)
    if not settings.url.startswith("https://"):
        _log.warning("ufm.not_encrypted", url=settings.url)
    root = "ufmRestV3" if settings.with_token else "ufmRest"
    async with httpx.AsyncClient(
        base_url=f"{settings.url.rstrip('/')}/{root}/",
        headers={"Accept-Encoding": "identity"},  # so that nothing grows behind the bound
        verify=context,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=settings.connect_timeout.total_seconds()),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONCURRENCY),
        transport=transport,
    ) as client:
        yield client


class Transport:
    """Sends requests. `shown` answers what UFM is to be shown, and is asked at most once in `KEPT`."""

    def __init__(
        self,
        settings: UfmSettings,
        http: httpx.AsyncClient,
        *,
        shown: Callable[[], Awaitable[Pass]],
        times: Times,
        observer: protocols.ServiceObserver,
    ) -> None:
        self._settings = settings
        self._http = http
        self._shown = shown
        self._times = times
        self._observer = observer
        self._slots = anyio.CapacityLimiter(CONCURRENCY)
        self._known: tuple[float, Pass] | None = None
        self._refused: tuple[float, Pass, UfmError] | None = None

    async def send(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        """What `understand` makes of a success; it raises `Garbled` for what it cannot. Raises `UfmError`."""
        return await tried(
            partial(self._in_turn, request, understand),
            attempts=1 if request.changes else ATTEMPTS,
            passes=_PASSES,
            longest_pause=LONGEST_PAUSE,
            times=self._times,
        )

    async def _in_turn(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        me = object()
        try:
            with anyio.fail_after(PATIENCE.total_seconds()):
                await self._slots.acquire_on_behalf_of(me)
        except TimeoutError:
            detail = f"the line of our own requests to UFM is longer than {PATIENCE.total_seconds():g} s"
            raise UfmError(UfmFailure.BUSY, detail, operation=request.operation, retry_after=PATIENCE) from None
        try:
            with reported("ufm", request.operation, clock=self._times.clock, observer=self._observer):
                return await self._answered(request, understand)
        finally:
            self._slots.release_on_behalf_of(me)

    async def _answered(self, request: Request, understand: Callable[[Answer], _T]) -> _T:
        shown = await self._shows(request.operation)
        self._refuse_again(request.operation, shown)
        try:
            answer = await self._exchange(request, shown)
            if 200 <= answer.status < 300:
                return understand(answer)
        except Garbled as error:
            raise ufm_failure.garbled(request, error.detail) from None
        refusal = ufm_failure.of_answer(request, answer, secrets=shown.secrets)
        if refusal.failure is UfmFailure.AUTH:
            self._known = None
            self._refused = self._times.clock.monotonic(), shown, refusal
        raise refusal

    def _refuse_again(self, operation: Operation, shown: Pass) -> None:
        """Raises the `UfmError` that this credential got a moment ago."""
        if self._refused is None:
            return
        at, before, error = self._refused
        if before == shown and self._times.clock.monotonic() - at < REFUSED_KEPT.total_seconds():
            raise UfmError(error.failure, error.detail, operation=operation)

    async def _shows(self, operation: Operation) -> Pass:
        """What UFM is shown now, or was a moment ago. Raises `UfmError`."""
        now = self._times.clock.monotonic()
        if self._known is not None and now - self._known[0] < KEPT.total_seconds():
            return self._known[1]
        try:
            shown = await self._shown()
        except CredentialError as error:
            failure = UfmFailure.UNREACHABLE if error.temporary else UfmFailure.AUTH
            raise UfmError(failure, f"the credential cannot be had: {error}", operation=operation) from None
        self._known = now, shown
        return shown

    async def _exchange(self, request: Request, shown: Pass) -> Answer:
        """The cause is not chained: it holds the request, and with it the credential."""
        within = self._settings.change_timeout if request.changes else self._settings.read_timeout
        try:
            with anyio.fail_after(within.total_seconds()):
                if request.changes:
                    require_lease()
                async with self._http.stream(
                    request.method,
                    request.path,
                    params=request.query or None,
                    json=request.body,
                    headers={"Authorization": shown.header},
                ) as response:
                    return await received(response, response.aiter_raw(), most=LARGEST_BODY_BYTES)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:  # TimeoutError is one of the last
            raise ufm_failure.of_exception(request, error, within=within) from None
