"""The HTTP client for MAAS, UFM and Vault, which limits concurrency, time and size, and decodes or classifies
responses.

The client of each service opens an `HttpClient` for each instance. A `Service` has the properties of the service. If a
read fails temporarily, it is sent again, at most `attempts` times in all and not before the service allows a retry. A
request that may change something is sent once, and only while the controller has its lease. The time limit of a request
begins when the request has a slot. Requests use only a transport of httpx and not its client: the cookies, redirects
and merged URLs of the client are not needed, and would take half of the CPU time of a request.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import urlencode

import anyio
import httpx
import msgspec
from typing_extensions import override

from farrier import protocols
from farrier.errors import CredentialError
from farrier.model.request_error import RequestError
from farrier.protocols.permit import require_lease
from farrier.services.http.failures import Failures
from farrier.services.http.messages import Garbled, HttpRequest, HttpResponse
from farrier.services.http.transport import AioTransport
from farrier.tls import verifying

_T = TypeVar("_T")
_E = TypeVar("_E", bound=RequestError[Any])

# The pause before the first retry; it doubles for each further retry. It applies only if the service requires no delay.
_FIRST_PAUSE = timedelta(seconds=1)

# Without compression, no body can exceed the size limit after it was read.
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "farrier"}


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """The clocks of a client. `wall` is the time of day, used only for signatures; `pause` waits before a read is
    repeated."""

    clock: protocols.Clock
    wall: Callable[[], float] = time.time
    pause: Callable[[float], Awaitable[None]] = anyio.sleep


class Service(msgspec.Struct, Generic[_E], frozen=True, kw_only=True):
    """Properties of a service that are the same for all its instances.

    `patience` is the longest wait for a slot. `longest_pause` is the longest pause before a read is repeated; if a
    longer pause is required, the read fails. `credential_kept` is how long a credential is reused, because reading it
    again takes long: another thread reads it, and while the event loop is busy, this takes longer than most requests.
    `refused_kept` is how long farrier waits before it sends a refused credential again; a changed credential is sent at
    once.
    """

    failures: Failures[_E]
    concurrency: int
    largest_body_bytes: int
    attempts: int = 1
    patience: timedelta | None = None
    longest_pause: timedelta = timedelta(0)
    credential_kept: timedelta = timedelta(0)
    refused_kept: timedelta = timedelta(0)

    @property
    def label(self) -> str:
        return self.failures.service.lower()


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of a service. `root` ends in a slash; the paths of requests are relative to it. Without a `ca_file`,
    the CAs of this host's store are trusted."""

    root: str
    ca_file: str
    read_timeout: timedelta
    change_timeout: timedelta
    connect_timeout: timedelta = timedelta(seconds=5)


class SentCredential(Protocol):
    """A credential in the form in which requests send it. No text may contain `secrets`."""

    @property
    def secrets(self) -> tuple[str, ...]: ...

    def headers(self, now: float) -> Mapping[str, str]:
        """Return the headers of one attempt. `now` is the Unix time in seconds."""


class Pass(msgspec.Struct, frozen=True):
    """A credential that every request sends in the same headers."""

    shown: Mapping[str, str]
    secrets: tuple[str, ...]

    def headers(self, now: float) -> Mapping[str, str]:
        del now
        return self.shown

    @override
    def __repr__(self) -> str:
        return "Pass(***)"


@asynccontextmanager
async def open_client(
    service: Service[_E],
    endpoint: Endpoint,
    *,
    credential: Callable[[], Awaitable[SentCredential]],
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[HttpClient[_E]]:
    """Open a client of one instance, which connects at its first request. `transport` replaces its connections, for
    tests. `credential` returns the current credential. Raises `ConfigError` for an unusable CA file."""
    if transport is None:
        transport = AioTransport(context=verifying(endpoint.ca_file), connect_timeout=endpoint.connect_timeout)
    async with transport as opened:
        yield HttpClient(service, endpoint, opened, credential=credential, times=times, observer=observer)


class HttpClient(Generic[_E]):
    """Sends requests to one instance of a service. To send several requests in a row without a wait, a caller takes one
    of `slots` and calls `send_once`."""

    def __init__(
        self,
        service: Service[_E],
        endpoint: Endpoint,
        transport: httpx.AsyncBaseTransport,
        *,
        credential: Callable[[], Awaitable[SentCredential]],
        times: Times,
        observer: protocols.ServiceObserver,
    ) -> None:
        self._service = service
        self._failures = service.failures
        self._label = service.label
        self._endpoint = endpoint
        self._root = endpoint.root
        self._transport = transport
        self._credential = credential
        self._times = times
        self._now = times.clock.monotonic
        self._observer = observer
        self.slots = anyio.CapacityLimiter(service.concurrency)
        self._known: tuple[float, SentCredential] | None = None
        self._refused: tuple[float, SentCredential, _E] | None = None

    async def send(self, request: HttpRequest, understand: Callable[[HttpResponse], _T]) -> _T:
        """Wait for a slot, send a request, and decode the response with `understand`, which raises `Garbled` for a
        response that it cannot decode. Raises the service's error, also if no slot is free within the service's
        `patience`."""
        attempts, patience = 1 if request.changes else self._service.attempts, self._service.patience
        for attempt in range(attempts):
            try:
                with nullcontext() if patience is None else anyio.fail_after(patience.total_seconds()):
                    await self.slots.acquire()
            except TimeoutError:
                assert patience is not None, "no other time runs out"
                raise self._failures.without_slot(request.operation, patience) from None
            try:
                return await self.send_once(request, understand)
            except self._failures.error as error:
                pause = error.retry_after or _FIRST_PAUSE * (1 << attempt)
                passes = error.failure in self._failures.retried and pause <= self._service.longest_pause
                if attempt + 1 == attempts or not passes:
                    raise
            finally:
                self.slots.release()
            await self._times.pause(pause.total_seconds())
        raise AssertionError("the last attempt returns or raises")

    async def credential(self, operation: str) -> SentCredential:
        """Return the current credential, which is cached for `credential_kept`. Raises the service's error."""
        now = self._now()
        if self._known is not None and now - self._known[0] < self._service.credential_kept.total_seconds():
            return self._known[1]
        try:
            found = await self._credential()
        except CredentialError as error:
            raise self._failures.without_credential(operation, error) from None
        except self._failures.error as error:
            raise self._failures.with_wrong_credential(operation, error) from None
        self._known = now, found
        return found

    async def send_once(self, request: HttpRequest, understand: Callable[[HttpResponse], _T]) -> _T:
        """Send a request with the current credential, at most once, even if the request is a read. The caller must have
        a slot. Decodes the response or raises the service's error, and reports the result to the observer."""
        started, result = self._now(), "cancelled"
        try:
            shown = await self.credential(request.operation)
            if self._refused is not None:
                self._refuse_again(*self._refused, request.operation, shown)
            answer = await self._exchange(request, shown)
            if answer.status not in request.answers:
                raise self._refusal(request, answer, shown)
            found = understand(answer)
            result = "ok"
        except Garbled as garbled:
            error = self._failures.garbled(request, garbled.detail)
            result = error.failure.value
            raise error from None
        except self._failures.error as error:
            result = error.failure.value
            raise
        finally:
            self._observer.requested(self._label, request.operation, result, self._now() - started)
        return found

    def _refuse_again(
        self, at: float, before: SentCredential, error: _E, operation: str, shown: SentCredential
    ) -> None:
        """If the same credential was refused recently, raise the error of that refusal again."""
        if before == shown and self._now() - at < self._service.refused_kept.total_seconds():
            raise error.of_another(operation=operation)

    def _refusal(self, request: HttpRequest, answer: HttpResponse, shown: SentCredential) -> _E:
        """Return the service's error for a response. After a refused credential, the next request reads it again."""
        refusal = self._failures.of_answer(request, answer, secrets=(*shown.secrets, *request.secrets))
        if answer.status == httpx.codes.UNAUTHORIZED:
            self._known = None
            self._refused = self._now(), shown, refusal
        return refusal

    async def _exchange(self, request: HttpRequest, shown: SentCredential) -> HttpResponse:
        """Encode and send the request, and read the response up to the size limit. Errors are raised without their
        cause, which contains the request and its credential. Raises `Garbled` for a response that is too large."""
        within, most = self._endpoint.read_timeout, self._service.largest_body_bytes
        if request.changes:
            within = self._endpoint.change_timeout
        headers = {**_HEADERS, **shown.headers(self._times.wall())}
        content = b""
        if request.form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            content = urlencode(request.form).encode()
        elif request.json is not None:
            headers["Content-Type"] = "application/json"
            content = msgspec.json.encode(request.json)
        query = f"?{urlencode(request.query)}" if request.query else ""
        url = f"{self._root}{request.path}{query}"
        try:
            # httpx's own methods take twice as long to encode a request.
            written = httpx.Request(request.method, url, headers=headers, content=content)
            with anyio.fail_after(within.total_seconds()):
                if request.changes:
                    require_lease()
                response = await self._transport.handle_async_request(written)
                assert isinstance(response.stream, httpx.AsyncByteStream), "it is an asynchronous transport's"
                body = bytearray()
                try:
                    # The compressed size is the real size: no compression is requested.
                    async for chunk in response.stream:
                        body += chunk
                        if len(body) > most:
                            raise Garbled(f"the response is larger than {most} bytes")
                finally:
                    await response.stream.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:  # TimeoutError is an OSError
            raise self._failures.of_exception(request, error, within=within) from None
        said = response.headers
        return HttpResponse(
            response.status_code, bytes(body), said.get("Content-Type", ""), said.get("Retry-After", "")
        )


class SendFunction(Protocol):
    """The type of the function that sends a request: `HttpClient.send`, or `send_once` while the caller has a slot."""

    async def __call__(self, request: HttpRequest, understand: Callable[[HttpResponse], _T]) -> _T: ...
