"""Requests of agents over kept TLS connections, made by hand so that they cost the client little."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec

BOOT = str(UUID(int=1))


class Server(msgspec.Struct, frozen=True):
    """The address of a server, and the TLS of its clients."""

    host: str
    port: int
    tls: ssl.SSLContext


class Connection:
    """A kept connection of agents."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, request: bytes) -> int:
        """Send a request, and return the status of the response."""
        self._writer.write(request)
        head = await message(self._reader)
        return int(head[9:12])

    def close(self) -> None:
        self._writer.transport.abort()


async def message(reader: asyncio.StreamReader) -> bytes:
    """Read a request or a response, and return what stands before its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return head


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Connection]:
    """Open a connection."""
    reader, writer = await asyncio.open_connection(
        server.host, server.port, ssl=server.tls, server_hostname="localhost"
    )
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        connection.close()


def request(path: str, body: Mapping[str, object], key: str | None = None) -> bytes:
    """Return a request with this body."""
    content = json.dumps(body).encode()
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST /agent/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def beat(key: str) -> bytes:
    """Return a heartbeat of a healthy machine."""
    body = {"boot_id": BOOT, "uptime": 86400.5, "version": "0.1.0", "ok": True, "conditions": []}
    return request("heartbeat", body, key)
