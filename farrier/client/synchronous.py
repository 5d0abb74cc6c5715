"""The synchronous client: each method runs that of the asynchronous client to its end, in the caller's thread."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx
from typing_extensions import override

from farrier.client import wire
from farrier.client.asynchronous import AsyncFarrier
from farrier.client.calls import ApiCall
from farrier.client.feed import Feed

P = ParamSpec("P")
T = TypeVar("T")


class _Blocking(AsyncFarrier):
    """The asynchronous client over a transport that blocks, so that its coroutines end without an event loop."""

    def __init__(self, url: str, client: httpx.Client) -> None:
        self._url = url
        self._client = client

    @override
    async def _response(self, call: ApiCall[Any]) -> httpx.Response:
        return self._client.request(**wire.arguments(call))

    @override
    @asynccontextmanager
    async def _lines(self, following: Feed) -> AsyncIterator[AsyncIterator[str]]:
        with self._client.stream(**following.arguments) as response:
            if not wire.is_stream(response):
                response.read()
                raise wire.failure(self._url, response)
            yield _each(response.iter_lines())

    @override
    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop runs


async def _each(lines: Iterable[str]) -> AsyncIterator[str]:
    for line in lines:
        yield line


def _result(work: Awaitable[T]) -> T:
    """Run a coroutine of a blocking client."""
    try:
        next(work.__await__())
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("expected a transport that blocks; this one waits for an event loop")


def _returns(method: Callable[Concatenate[AsyncFarrier, P], Awaitable[T]]) -> Callable[Concatenate[Farrier, P], T]:
    @wraps(method)
    def blocking(self: Farrier, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _result(method(self._client, *args, **kwargs))

    return blocking


def _yields(
    method: Callable[Concatenate[AsyncFarrier, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Farrier, P], Iterator[T]]:
    @wraps(method)
    def blocking(self: Farrier, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(self._client, *args, **kwargs)
        try:
            while True:
                yield _result(anext(items))
        except StopAsyncIteration:
            return
        finally:
            _result(items.aclose())

    return blocking


class Farrier:
    """A client of one server. After a failure, the client sends a request again only if repeating the request has no
    further effect."""

    def __init__(self, url: str, *, token: str | None = None, verify: Any = True, transport: Any = None) -> None:
        self._http = httpx.Client(**wire.options(url, token, verify), transport=transport)
        self._client = _Blocking(url, self._http)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    nodes = _yields(AsyncFarrier.nodes)
    node = _returns(AsyncFarrier.node)
    register = _returns(AsyncFarrier.register)
    change = _returns(AsyncFarrier.change)
    conditions = _returns(AsyncFarrier.conditions)
    state_condition = _returns(AsyncFarrier.state_condition)
    end_condition = _returns(AsyncFarrier.end_condition)
    submit = _returns(AsyncFarrier.submit)
    intent = _returns(AsyncFarrier.intent)
    intents = _yields(AsyncFarrier.intents)
    kinds = _returns(AsyncFarrier.kinds)
    resources = _yields(AsyncFarrier.resources)
    resource = _returns(AsyncFarrier.resource)
    controllers = _returns(AsyncFarrier.controllers)
    cursor = _returns(AsyncFarrier.cursor)
    watch = _yields(AsyncFarrier.watch)
    call = _returns(AsyncFarrier.call)
