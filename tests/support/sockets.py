"""A server that runs a test's script on each connection, byte by byte, and records the requests that it receives.

Used by the tests of transports and clients, for behaviour that no HTTP server can be brought to. `LEFT` is for every
server of the tests, and `free_port` for tests that need a port without a server.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TypeAlias

import anyio
import anyio.abc
from anyio.streams.tls import TLSListener

from farrier.sim.certificates import ServerFiles

ENOUGH = timedelta(seconds=2)
"""Time for one response, also on a busy machine. Tests in which a server is silent on purpose may wait for less."""

# The errors of a server's stream when the client closes the connection, which it may do at any point.
LEFT = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)


@contextmanager
def free_port() -> Iterator[int]:
    """A port of 127.0.0.1 on which no program listens. A socket is bound to it until the end of the block, so that the
    kernel gives it to no other program; a server with this port can still bind to it, because servers reuse addresses.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


class Peer:
    """The server's end of one connection. `requests` are those of all connections."""

    def __init__(self, stream: anyio.abc.ByteStream, requests: list[bytes]) -> None:
        self._stream = stream
        self._unread = b""
        self._requests = requests

    async def request(self) -> bytes:
        """The next request with its body. Raises `anyio.EndOfStream` when the client sends no more."""
        while b"\r\n\r\n" not in self._unread:
            self._unread += await self._stream.receive()
        head, _, rest = self._unread.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(rest) < length:
            rest += await self._stream.receive()
        self._unread = rest[length:]
        self._requests.append(head + b"\r\n\r\n" + rest[:length])
        return self._requests[-1]

    async def say(self, text: bytes) -> None:
        await self._stream.send(text)

    async def until_closed(self) -> None:
        """Read and discard until the client closes the connection."""
        try:
            while True:
                await self._stream.receive()
        except LEFT:
            return

    async def end(self) -> None:
        """Close the sending side of the connection."""
        await self._stream.send_eof()

    async def reset(self) -> None:
        """Close the connection by a reset, so that the client gets an error instead of the end of the stream."""
        raw = self._stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self._stream.aclose()


def parsed(request: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """The method and the path of a request, its headers with names in lower case, and its body."""
    head, _, body = request.partition(b"\r\n\r\n")
    start, *lines = head.decode().split("\r\n")
    method, path, _ = start.split(" ", 2)
    return (
        method,
        path,
        {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)},
        body,
    )


def head(status: int, *headers: tuple[str, str], length: int) -> bytes:
    """The head of a response whose body is JSON, unless a header names another type."""
    named = {"Content-Type": "application/json", "Content-Length": str(length), **dict(headers)}
    lines = [f"HTTP/1.1 {status} Some Reason", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def tls_with(files: ServerFiles) -> ssl.SSLContext:
    """The TLS settings of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


Script: TypeAlias = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def talking(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on 127.0.0.1 that runs `script` on each connection and hangs up; yields its port and its requests."""
    requests: list[bytes] = []

    async def handle(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            try:
                await script(Peer(stream, requests))
            except LEFT:
                return

    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    listener = tcp if tls is None else TLSListener(tcp, tls, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield tcp.extra(anyio.abc.SocketAttribute.local_port), requests
        tasks.cancel_scope.cancel()
