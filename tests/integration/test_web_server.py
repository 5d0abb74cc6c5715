"""The HTTP server: how long it keeps a connection without a request."""

from __future__ import annotations

import socket

import anyio
import anyio.abc
import httpx
import pytest

from farrier.asgi import served
from farrier.web import server
from farrier.web.server import serving
from tests.integration.test_web import closed_site
from tests.support import pg

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


async def everything(connection: anyio.abc.SocketStream) -> bytes:
    """What the server sends until it closes the connection."""
    return b"".join([part async for part in connection])
