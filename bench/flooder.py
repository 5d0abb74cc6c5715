"""A hostile client of a server: `python -m bench.flooder PORT`. It runs until it is killed.

Of ten thousand connections, some send their headers byte by byte, some read no response, some send large bodies, and
the others are opened again as soon as the server has closed them. A connection that is refused is tried again.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

_CONNECTIONS = 10_000
_PAUSE = 1.0
_BODY = b"x" * (1 << 20)
_BIG = b"POST /agent/v1/heartbeat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n"
_PIPELINED = b"GET /agent/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50
_BEAT = b'{"boot_id": "6a2f41a3-c54c-fce8-32d2-0324e1c32e22"}'
_UNKNOWN = (
    b"POST /agent/v1/heartbeat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer fak_%s\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s"
) % (b"0" * 64, len(_BEAT), _BEAT)


async def _slow_headers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(_PAUSE)


async def _slow_reader(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_PIPELINED)
    await asyncio.sleep(60 * _PAUSE)


async def _large_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_BIG + _BODY)
    await writer.drain()
    await reader.read(1 << 16)


async def _again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_UNKNOWN)
    await reader.read(1 << 16)


# The share of each in a hundred connections.
_KINDS: tuple[tuple[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], int], ...] = (
    (_slow_headers, 70),
    (_slow_reader, 20),
    (_large_body, 2),
    (_again, 8),
)


async def _keep(port: int, attack: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await attack(reader, writer)
            finally:
                writer.close()
        await asyncio.sleep(_PAUSE)


async def _main(port: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attacks = [attack for attack, share in _KINDS for _ in range(share)]
    async with anyio.create_task_group() as tasks:
        for number in range(_CONNECTIONS):
            tasks.start_soon(_keep, port, attacks[number % len(attacks)])
            if number % 200 == 0:
                await anyio.sleep(0.01)


if __name__ == "__main__":
    anyio.run(_main, int(sys.argv[1]))
