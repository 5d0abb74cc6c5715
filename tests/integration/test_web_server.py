"""The HTTP server: how long it keeps a connection without a request, and how it responds beyond its limit."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack

import anyio
import anyio.abc
import httpx
import pytest

from farrier.asgi import served
from farrier.web.server import serving as server
from farrier.web.server.serving import serving
from tests.support import again, pg
from tests.support.web import closed_site

# The usual time of proxies such as nginx (`keepalive_timeout` of an upstream), in seconds.
PROXY_SECONDS = 60


async def test_an_idle_connection_is_kept_longer_than_proxies_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server._IDLE_SECONDS > PROXY_SECONDS
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0)
    app, listener = closed_site().app, socket.create_server(("127.0.0.1", 0))
    closed: list[str] = []

    async def connect(name: str, port: int) -> None:
        async with await anyio.connect_tcp("127.0.0.1", port) as connection:
            await connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await everything(connection)).endswith(b"ok\n")
        closed.append(name)
        group.cancel_scope.cancel()

    async with serving(app, host="127.0.0.1", port=0) as url, served(app, listener, name="http"):
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            async with anyio.create_task_group() as group:
                group.start_soon(connect, "with uvicorn's own setting", listener.getsockname()[1])
                group.start_soon(connect, "with farrier's setting", httpx.URL(url).port or 0)
    assert closed == ["with farrier's setting"]


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_a_server_beyond_its_limit_responds_503_and_serves_again_afterwards(parser: str) -> None:
    listener = server.bind("127.0.0.1", 0, section="http")
    async with (
        server.serving_on(closed_site().app, listener, parser=parser, most=3) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        port = httpx.URL(url).port or 0
        async with AsyncExitStack() as idle:
            for _ in range(3):
                connection = await idle.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
                await connection.send(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            with anyio.fail_after(pg.PATIENCE.total_seconds()):
                while (answer := await client.get("/healthz")).status_code == 200:  # they are not accepted yet
                    await again.later()
            assert answer.status_code == 503
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            while (await client.get("/healthz")).status_code != 200:
                await again.later()


async def everything(connection: anyio.abc.SocketStream) -> bytes:
    """What the server sends until it closes the connection."""
    return b"".join([part async for part in connection])
