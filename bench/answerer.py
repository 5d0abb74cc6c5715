"""A stand-in for a server for agents: it responds to every request at once, over TLS, and does nothing else. It takes
the arguments and the settings of `farrier serve --agents`, keeps connections as this does, so that the machines
cost the same with both, and gives way as this does.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys

import msgspec
import uvloop

from bench import agent_calls
from farrier.process import give_way

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            await agent_calls.message(reader)
            writer.write(_ANSWER)
    except (OSError, asyncio.IncompleteReadError):
        pass  # the machine has gone
    finally:
        writer.close()


def _log(**fields: str) -> None:
    sys.stderr.buffer.write(msgspec.json.encode(fields) + b"\n")
    sys.stderr.flush()


async def _main() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(os.environ["FARRIER_AGENTS_TLS_CERT"], os.environ["FARRIER_AGENTS_TLS_KEY"])
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=tls, backlog=2048)
    _log(event="http.listening", url=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    _log(event="server.ready")
    await server.serve_forever()


if __name__ == "__main__":
    give_way()
    uvloop.run(_main())
