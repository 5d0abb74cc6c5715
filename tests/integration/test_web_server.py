"""The HTTP server: how long it keeps a connection without a request."""

from __future__ import annotations

import anyio
import anyio.abc
import httpx
import pytest

from farrier.web import server
from farrier.web.server import serving
from tests.integration.test_web import closed_site
from tests.support import pg

# The usual time of proxies such as nginx (`keepalive_timeout` of an upstream), in seconds.
PROXY_SECONDS = 60


async def test_an_idle_connection_is_kept_longer_than_proxies_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server._IDLE_SECONDS > PROXY_SECONDS
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0)
    async with serving(closed_site().app, host="127.0.0.1", port=0) as url:
        address = httpx.URL(url)
        async with await anyio.connect_tcp(address.host, address.port or 0) as connection:
            begun = anyio.current_time()
            await connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with anyio.fail_after(pg.PATIENCE.total_seconds()):
                assert (await everything(connection)).endswith(b"ok\n")
            assert anyio.current_time() - begun < 5, "the time of this module applies, not uvicorn's own five seconds"


async def everything(connection: anyio.abc.SocketStream) -> bytes:
    """What the server sends until it closes the connection."""
    return b"".join([part async for part in connection])
