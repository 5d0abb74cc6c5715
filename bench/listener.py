"""A stand-in for a server of farrier: it responds to every request at once, and does nothing else. `python -m
bench.listener`.

It prints its URL and reads each connection to its end, so that a flood costs the machine what any server costs. The
argument `leak` makes it occupy memory without end, up to its limit.
"""

from __future__ import annotations

import asyncio
import sys

from bench.leak import leak

_ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_ANSWER)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client has gone, or sends no request
    finally:
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    if "leak" in sys.argv:
        leak()
    asyncio.run(_main())
