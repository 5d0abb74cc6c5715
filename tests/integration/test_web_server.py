"""The HTTP server: how long it keeps an idle connection, how it responds beyond its limit, and which Host header it
accepts: a foreign page whose host name resolves to this server can neither read nor write."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack

import anyio
import httpx
import pytest
from prometheus_client import CollectorRegistry

from farrier.asgi import served
from farrier.config import HttpConfig
from farrier.web.server import serving as server
from farrier.web.server.hosts import UNDER_ANY_NAME
from farrier.web.server.serving import serving
from farrier.web.server.site import WebApplication
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
            assert b"".join([part async for part in connection]).endswith(b"ok\n"), "the server closes it"
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


PATHS = ["/", "/nodes/gpu-1", "/api/v1/nodes", "/api/v1/nowhere", "/metrics/", "//metrics", "/healthz/.."]
FOREIGN = [
    *("evil.test", "evil.test:9464", "farrier.test.evil.test", "localhost.evil.test", "127.0.0.1.evil.test"),
    *("", "a b", "[::1", "evil.test@localhost", "localhost,evil.test"),
]
OURS = [
    *("127.0.0.1:9464", "10.1.2.3", "[::1]:9464", "[2001:db8::1]", "localhost", "LOCALHOST:80", "localhost."),
    *("x.localhost", "farrier.test", "Farrier.Test:443", "farrier.test."),
]


def client() -> httpx.AsyncClient:
    site = WebApplication(CollectorRegistry(), unready_because=lambda: None, names=("farrier.test",))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=site.app), base_url="http://127.0.0.1")


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", PATHS)
async def test_a_request_for_another_host_is_refused_before_anything_is_read(host: str, path: str) -> None:
    async with client() as web:
        for method in ("GET", "POST"):
            answer = await web.request(method, f"http://127.0.0.1{path}", headers={"host": host})
            assert answer.status_code == 421
            assert "http.names" in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", OURS)
async def test_addresses_localhost_and_names_in_the_settings_are_accepted_as_host(host: str) -> None:
    async with client() as web:  # this application has no database
        assert (await web.get("/api/v1/nodes", headers={"host": host})).status_code == 503


@pytest.mark.parametrize("path", sorted(UNDER_ANY_NAME))
@pytest.mark.parametrize("host", ["evil.test", "farrier-0.farrier.svc"])
async def test_metrics_and_probes_are_served_under_any_host_name(path: str, host: str) -> None:
    async with client() as web:
        assert (await web.get(path, headers={"host": host})).status_code == 200


@pytest.mark.parametrize("name", ["", "https://farrier.test", "farrier.test:443", "farrier.test/x", "*.test", "a b"])
def test_a_name_in_the_settings_has_to_be_a_host_name(name: str) -> None:
    with pytest.raises(ValueError, match="expected host names"):
        HttpConfig(names=(name,))
