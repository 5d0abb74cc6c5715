"""Services that respond badly: scripted responses in memory, and a server that sends one response to every request.

Used by the suites of the clients of MAAS and UFM.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.lowlevel
import httpx
from typing_extensions import override

from tests.support.sockets import Peer, talking

PAGE = b"<html><body>Bad Gateway</body></html>"


class Once(httpx.AsyncByteStream):
    """A body that can be read only once, as one from the network."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class Scripted(httpx.AsyncBaseTransport):
    """Returns one response after the other, and the last one for ever; an exception among them is raised."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        stream = answer.stream if isinstance(answer.stream, Endless) else Once(answer.content)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)


class Endless(httpx.AsyncByteStream):
    """A body without end, in pieces of this size."""

    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self.closed = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield self._piece
            await anyio.lowlevel.checkpoint()

    @override
    async def aclose(self) -> None:
        self.closed = True


def text(status: int, body: bytes = b"", *, retry_after: str | None = None) -> httpx.Response:
    stay = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(status, content=body, headers={"Content-Type": "text/plain", **stay})


def said(value: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=json.dumps(value).encode(), headers={"Content-Type": "application/json"})


@asynccontextmanager
async def serving(answer: bytes, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run a server that sends this response to each request and hangs up; yields its port and the received requests."""

    async def once(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)

    async with talking(once, tls=tls) as server:
        yield server


def http(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", "")).encode() + body
