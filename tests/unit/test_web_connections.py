"""The limit of the HTTP server's connections: clients that send no request make room for those that do."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from farrier.asgi import served
from farrier.web.connections import limited

MOST = 4
PATIENCE = 20.0
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = WHOLE.replace(b"/", b"/slow", 1)


class Server:
    """A server with room for four connections. Requests of /slow are answered once `let_go` is set; `begun` is set when
    `expected` of them have begun."""

    def __init__(self) -> None:
        self.expected = 1
        self.begun, self.let_go = anyio.Event(), anyio.Event()
        self.app = Starlette(routes=[Route("/", self._answer, methods=["GET", "POST"]), Route("/slow", self._slow)])
        self.port = 0

    async def connect(self, sent: bytes = b"") -> SocketStream:
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        if sent:
            await stream.send(sent)
        return stream

    async def answers(self) -> bool:
        """Whether a new client gets a response."""
        async with await self.connect(WHOLE) as stream:
            return b"200 OK" in await stream.receive()

    async def _answer(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse(await request.body())

    async def _slow(self, _request: Request) -> PlainTextResponse:
        self.expected -= 1
        if self.expected == 0:
            self.begun.set()
        await self.let_go.wait()
        return PlainTextResponse("slow")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server, listener = Server(), socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    async with served(server.app, listener, name="http", http=limited(MOST)):
        with anyio.fail_after(PATIENCE):
            yield server


@asynccontextmanager
async def connected(server: Server, number: int, sent: bytes = b"") -> AsyncIterator[list[SocketStream]]:
    streams = [await server.connect(sent) for _ in range(number)]
    try:
        yield streams
    finally:
        for stream in streams:
            await stream.aclose()


async def is_closed(stream: SocketStream) -> bool:
    """Wait until the server closes the connection."""
    try:
        await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return True
    return False


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
    ],
    ids=["nothing", "half a head", "half a body"],
)
async def test_connections_without_a_whole_request_make_room_for_a_new_client(server: Server, sent: bytes) -> None:
    async with connected(server, 3 * MOST, sent) as streams:
        assert await server.answers()
        assert [await is_closed(stream) for stream in streams[: 2 * MOST]] == [True] * 2 * MOST


async def test_a_connection_that_waits_for_a_next_request_makes_room_for_a_new_client(server: Server) -> None:
    async with connected(server, 1, WHOLE) as (stream,):
        assert b"200 OK" in await stream.receive()
        async with connected(server, MOST):
            assert await is_closed(stream)


async def test_a_request_in_progress_is_answered_however_many_clients_connect(server: Server) -> None:
    async with connected(server, 1, SLOW) as (stream,):
        await server.begun.wait()
        async with connected(server, 3 * MOST):
            assert await server.answers()
            server.let_go.set()
            assert (await stream.receive()).endswith(b"slow")


async def test_while_all_connections_have_requests_a_new_connection_is_closed(server: Server) -> None:
    server.expected = MOST
    async with connected(server, MOST, SLOW) as streams:
        await server.begun.wait()
        async with connected(server, 1) as (late,):
            assert await is_closed(late)
        server.let_go.set()
        assert [(await stream.receive()).endswith(b"slow") for stream in streams] == [True] * MOST
