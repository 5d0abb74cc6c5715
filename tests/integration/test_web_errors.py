"""Errors over HTTP that are not the client's: sent in the format of the path, JSON or HTML, and logged once."""

from __future__ import annotations

import io
from typing import NoReturn

import anyio
import httpx
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from farrier import log
from farrier.io.connections import pool
from farrier.model.node.limits import Limits
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from farrier.web.server.site import WebApplication
from tests.support import logged, pg
from tests.support.web import WITH_TOKEN, backend_on, client_of, open_site, register, token

SECRET = "postgresql://me:hunter2@db"


async def broken() -> str:
    raise ZeroDivisionError(SECRET)


class Unwell(Collector):
    """A metric that cannot be collected."""

    @override
    def collect(self) -> NoReturn:
        raise ZeroDivisionError(SECRET)


@pytest.fixture
def said() -> io.StringIO:
    """The log of the daemon."""
    stream = io.StringIO()
    log.configure(log.Level.INFO, log.Format.JSON, stream=stream)
    return stream


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("path", ["intents", "resource-intents"])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"params": {"x": ' + b"[" * 5000, "it is nested too deeply"),
        (b'{"action": "\xff"}', "the request body is not valid JSON: "),
        (b'{"params": {"x": 1e400}}', "the request body is not valid JSON: Number out of range"),
    ],
    ids=["deep", "no text", "out of range"],
)
async def test_a_body_that_cannot_be_decoded_is_400_with_the_expected_fields(
    web: httpx.AsyncClient, path: str, body: bytes, text: str
) -> None:
    answer = await web.post(f"/api/v1/{path}", content=body, headers=WITH_TOKEN)
    assert answer.status_code == 400
    assert text in answer.json()["detail"]
    assert "the request body must be a JSON object with these fields" in answer.json()["hint"]


async def test_a_state_that_cannot_be_read_is_named_and_logged_once(
    web: httpx.AsyncClient, db: pg.Database, said: io.StringIO
) -> None:
    async with db.connect() as conn:
        await register(conn, "gpu-1")
        await conn.execute("ALTER TABLE farrier.nodes DROP CONSTRAINT nodes_labels_check")
        await conn.execute("UPDATE farrier.nodes SET labels = '[]'")
    told = await web.get("/api/v1/nodes/gpu-1")
    assert told.status_code == 500
    assert "cannot decode" in told.json()["detail"]
    assert "newer release" in told.json()["hint"]
    (line,) = logged.lines(said)
    assert (line["event"], line["level"], line["path"]) == ("http.undecodable", "error", "/api/v1/nodes/gpu-1")
    assert "Traceback" not in said.getvalue()
    page = await web.get("/nodes/gpu-1")
    assert page.status_code == 500
    assert page.headers["content-type"].startswith("text/html")
    assert "cannot decode" in page.text


@pytest.mark.parametrize(
    ("role", "change", "told", "advice"),
    [
        ("farrier_reader", "SELECT 1", "permission denied", "grant the roles farrier_intents and farrier_reader"),
        ("none", "ALTER TABLE farrier.intents RENAME params TO given", '"params"', "farrier db check"),
    ],
)
async def test_a_fault_of_the_database_is_a_fault_of_the_server_and_logged_once(
    db: pg.Database, said: io.StringIO, role: str, change: str, told: str, advice: str
) -> None:
    async with db.connect() as conn:
        await register(conn, "gpu-1")
        await conn.execute(change)
    dsn = f"{db.dsn}{'&' if '?' in db.dsn else '?'}role={role}"
    connections = await pool.open_pool(dsn, size=1, patience=pg.PATIENCE)
    async with client_of(open_site(backend_on(connections, db.dsn))) as client:
        body = {"node": "gpu-1", "action": "manage"}
        answer = await client.post("/api/v1/intents", json=body, headers=WITH_TOKEN)
    connections.terminate()
    assert answer.status_code == 500
    assert told in answer.json()["detail"]
    assert advice in answer.json()["hint"]
    (line,) = logged.lines(said)
    assert (line["event"], line["level"], line["path"]) == ("http.database_fault", "error", "/api/v1/intents")


async def test_an_unforeseen_error_has_the_format_of_its_path_and_is_logged_once(
    backend: Backend, said: io.StringIO
) -> None:
    registry = CollectorRegistry()
    registry.register(Unwell())
    site = WebApplication(registry, unready_because=lambda: None)
    site.open(Backend(backend.queries, backend.requests, Limits(), broken, backend.monitors))
    async with serving(site.app, host="127.0.0.1", port=0) as url, httpx.AsyncClient(trust_env=False) as client:
        told = await client.post(f"{url}/api/v1/intents", json={}, headers=WITH_TOKEN)
        (line,) = logged.lines(said)
        page = await client.get(f"{url}/metrics")
    assert (told.status_code, told.json()["title"]) == (500, "Internal Server Error")
    assert page.status_code == 500
    assert page.headers["content-type"].startswith("text/html")
    assert "unexpected error" in page.text
    for answer in (told, page):
        assert "hunter2" not in answer.text
        assert "Traceback" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert line["level"] == "error"
    assert "ZeroDivisionError" in str(line)
    assert "hunter2" not in said.getvalue()


class Watched:
    """An application that sets `done` when it has handled a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.done = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            self.done.set()


async def test_a_client_that_disconnects_during_its_request_causes_no_error(
    backend: Backend, said: io.StringIO
) -> None:
    asked = anyio.Event()

    async def token_is_asked() -> str:
        asked.set()
        return await token()

    app = Watched(open_site(replace(backend, token=token_is_asked)).app)
    head = "POST /api/v1/intents HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
    with anyio.fail_after(pg.PATIENCE.total_seconds()):
        async with serving(app, host="127.0.0.1", port=0) as url:
            async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])) as client:
                await client.send(f'{head}Authorization: {WITH_TOKEN["Authorization"]}\r\n\r\n{{"node"'.encode())
                await asked.wait()
            await app.done.wait()
    assert said.getvalue() == ""
