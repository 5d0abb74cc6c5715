"""Requests through the transport to regions, and their results as the transport's callers see them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import httpx
import pytest

from farrier.services.http.failures import NoAnswer, no_answer
from farrier.services.http.transport import AioTransport

# Longer than any request of the tests takes: a request that ends by this timeout hangs.
PATIENCE = timedelta(seconds=10)


@asynccontextmanager
async def transport(*, connect_timeout: timedelta = PATIENCE) -> AsyncIterator[AioTransport]:
    async with AioTransport(context=ssl.create_default_context(), connect_timeout=connect_timeout) as opened:
        yield opened


def request(port: int, method: str = "POST", *, host: str = "127.0.0.1", scheme: str = "http") -> httpx.Request:
    return httpx.Request(method, f"{scheme}://{host}:{port}/MAAS/", content=b"name=n1" if method == "POST" else b"")


async def body_of(response: httpx.Response) -> bytes:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    try:
        return b"".join([chunk async for chunk in response.stream])
    finally:
        await response.stream.aclose()


async def answer(sender: httpx.AsyncBaseTransport, asked: httpx.Request) -> bytes:
    with anyio.fail_after(PATIENCE.total_seconds()):
        return await body_of(await sender.handle_async_request(asked))


async def why(sender: httpx.AsyncBaseTransport, asked: httpx.Request) -> tuple[type[Exception], NoAnswer]:
    with pytest.raises((httpx.HTTPError, httpx.InvalidURL, OSError)) as caught:
        await answer(sender, asked)
    return caught.type, no_answer("MAAS", caught.value, within=PATIENCE)
