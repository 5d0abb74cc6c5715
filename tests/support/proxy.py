"""A proxy in front of a server, which can cut a connection at the worst moment.

`Proxy.cut_after(b"; COMMIT")` lets the next message that contains these bytes through to the server, waits
until the server has answered it, and closes the client's side without passing the answer on: to the client
that is a connection lost in mid-COMMIT, to the server a commit like any other. `Proxy.drop` makes the server vanish as
a host does whose packets are dropped: nothing passes, and nothing is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import ByteStream, SocketAttribute
from typing_extensions import override

from tests.support.sockets import LEFT

_MOST = 1 << 16


class _UnixStream(ByteStream):
    """A Unix socket on asyncio's own streams: anyio's leaves a callback behind when a wait for it is cancelled, and on
    uvloop that callback fails."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @override
    async def receive(self, max_bytes: int = _MOST) -> bytes:
        try:
            data = await self._reader.read(max_bytes)
        except ConnectionError as broken:
            raise anyio.BrokenResourceError from broken
        if not data:
            raise anyio.EndOfStream
        return data

    @override
    async def send(self, item: bytes) -> None:
        try:
            self._writer.write(item)
            await self._writer.drain()
        except ConnectionError as broken:
            raise anyio.BrokenResourceError from broken

    @override
    async def send_eof(self) -> None:
        self._writer.write_eof()

    @override
    async def aclose(self) -> None:
        self._writer.close()


class Proxy:
    """Passes bytes in both directions until a test cuts, freezes or drops connections."""

    def __init__(self, upstream: str, port: int) -> None:
        self._upstream = upstream
        self.port = port
        self._trigger: bytes | None = None
        self._on_message: Callable[[int], None] | None = None
        self._messages = 0
        self._connections = 0
        self._frozen = 0
        self._dropping = False
        self.cuts = 0

    def cut_after(self, trigger: bytes) -> None:
        """Cut one connection, once the server has responded to a message with `trigger` in it."""
        self._trigger = trigger

    def watch(self, on_message: Callable[[int], None]) -> None:
        """Call `on_message` with 1, 2, … as the messages of clients pass, each before the server has it."""
        self._on_message = on_message
        self._messages = 0

    def freeze(self) -> None:
        """From now on nothing reaches the connected clients; their connections stay open. New clients are served."""
        self._frozen = self._connections

    @property
    def connections(self) -> int:
        """How many clients have connected so far."""
        return self._connections

    def drop(self) -> None:
        """From now on no byte passes in either direction. Connections stay open, and new ones get no answer."""
        self._dropping = True

    async def serve(self, client: ByteStream) -> None:
        """Serve one client's connection until its end."""
        self._connections += 1
        number = self._connections
        async with client:
            await self._way()
            async with await self._connect() as server, anyio.create_task_group() as group:
                doomed = anyio.Event()
                group.start_soon(self._pass_up, client, server, doomed)
                await self._pass_down(client, server, doomed, number)
                group.cancel_scope.cancel()

    async def _pass_up(self, client: ByteStream, server: ByteStream, doomed: anyio.Event) -> None:
        try:
            while True:
                data = await client.receive(_MOST)
                if self._trigger is not None and self._trigger in data:
                    self._trigger = None
                    doomed.set()
                if self._on_message is not None:
                    self._messages += 1
                    self._on_message(self._messages)
                await self._way()
                await server.send(data)
        except LEFT:
            await self._way()
            await server.aclose()

    async def _pass_down(self, client: ByteStream, server: ByteStream, doomed: anyio.Event, number: int) -> None:
        try:
            while True:
                answer = await server.receive(_MOST)
                if number <= self._frozen:
                    await anyio.sleep_forever()
                await self._way()
                if doomed.is_set():
                    self.cuts += 1
                    return
                await client.send(answer)
        except LEFT:
            return

    async def _way(self) -> None:
        """Wait for ever if packets are dropped."""
        if self._dropping:
            await anyio.sleep_forever()

    async def _connect(self) -> ByteStream:
        parts = urlsplit(self._upstream)
        directory = parse_qs(parts.query).get("host")
        if directory:
            return _UnixStream(*await asyncio.open_unix_connection(f"{directory[0]}/.s.PGSQL.5432"))
        return await anyio.connect_tcp(parts.hostname or "127.0.0.1", parts.port or 5432)

    @property
    def dsn(self) -> str:
        """The upstream's DSN, by way of the proxy."""
        parts = urlsplit(self._upstream)
        login = parts.netloc.rpartition("@")[0] or "postgres"
        return f"postgresql://{login}@127.0.0.1:{self.port}{parts.path}?sslmode=disable"


def one_of(*proxies: Proxy) -> str:
    """A DSN that lists the proxies in this order, and connects to the first whose server is writable."""
    parts = urlsplit(proxies[0].dsn)
    login = parts.netloc.rpartition("@")[0]
    hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
    return f"postgresql://{login}@{hosts}{parts.path}?{parts.query}&target_session_attrs=read-write"


@asynccontextmanager
async def before(dsn: str) -> AsyncIterator[Proxy]:
    """A proxy in front of the server of `dsn`, on a free port of 127.0.0.1."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        proxy = Proxy(dsn, listener.extra(SocketAttribute.local_port))
        group.start_soon(listener.serve, proxy.serve)
        yield proxy
        group.cancel_scope.cancel()
