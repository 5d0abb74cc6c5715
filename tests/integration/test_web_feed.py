"""History over HTTP, in pages and with filters, and as a feed: a client that continues from its cursor misses no change
and gets none twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from farrier.config.token_file import ApiToken
from farrier.io.connections.pool import Connection
from farrier.model import api_token
from farrier.web.server.access import Access
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.support import pg
from tests.support.web import open_site, register

# After this time a change is in the feed, because no earlier change can become visible any more.
SETTLED = timedelta(seconds=5)
START = datetime(2027, 1, 1, tzinfo=UTC)
TOKEN = api_token.token("1" * 64)
VIEWER = ApiToken(name="tv", sha256=api_token.digest(TOKEN), scopes=("read",), expires=START + timedelta(hours=1))
OTHER = ApiToken(name="other", sha256="0" * 64, scopes=("read",))


async def read(web: httpx.AsyncClient, cursor: str | None, **params: str) -> tuple[list[str], str | None]:
    """The nodes that came into the fleet since the cursor, and the next cursor."""
    asked = {"order": "oldest", "layer": "status", **params} | ({"after": cursor} if cursor else {})
    page = (await web.get("/api/v1/history", params=asked)).json()
    return [change["name"] for change in page["changes"]], page["cursor"]


async def test_a_cursor_continues_after_the_last_change_that_was_read(
    web: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    await register(conn, "gpu-1")
    assert await read(web, None) == ([], None), "another change from before may still become visible"
    await db.advance(SETTLED)
    names, cursor = await read(web, None)
    assert names == ["gpu-1"]
    assert await read(web, cursor) == ([], cursor)
    await register(conn, "gpu-2")
    await db.advance(SETTLED)
    assert (await read(web, cursor))[0] == ["gpu-2"]


async def test_a_change_that_becomes_visible_late_is_not_missed(
    web: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    await register(conn, "gpu-1")
    await db.advance(SETTLED)
    names, cursor = await read(web, None)
    assert names == ["gpu-1"]
    async with db.connect() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await register(slow, "gpu-2")
        await register(conn, "gpu-3")
        await db.advance(SETTLED)
        assert await read(web, cursor) == ([], cursor), "gpu-2 is older than gpu-3, and cannot be seen yet"
        await transaction.commit()
    assert (await read(web, cursor))[0] == ["gpu-2", "gpu-3"]


async def test_the_key_of_a_change_continues_after_that_change(
    web: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        await register(conn, name)
    await db.advance(SETTLED)
    page = (await web.get("/api/v1/history", params={"order": "oldest", "layer": "status"})).json()
    assert (await read(web, page["changes"][0]["key"]))[0] == ["gpu-2", "gpu-3"]
    assert (await read(web, page["changes"][0]["key"], resource="node/gpu-3"))[0] == ["gpu-3"]
    assert (await read(web, page["changes"][2]["key"], resource="node/gpu-3"))[0] == []


class Events:
    """One client of a stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last_id = ""

    async def next(self) -> dict[str, Any]:
        """The next change."""
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            event = ""
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "id":
                    self.last_id = value
                elif field == "event":
                    event = value
                elif field == "data":
                    assert event == "change"
                    found: dict[str, Any] = json.loads(value)
                    return found
            raise AssertionError("the stream ended")

    async def begun(self) -> None:
        """Return once the server has said where the stream begins."""
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line.removeprefix("id: ")
                    return

    async def ended(self) -> None:
        """Return once the server has ended the stream. A change before its end is a failure."""
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            async for line in self._lines:
                assert not line.startswith("data: "), line


@asynccontextmanager
async def streamed(
    backend: Backend, last_id: str = "", *, access: Access | None = None, token: str = "", **params: str
) -> AsyncIterator[Events]:
    site = open_site(backend, access)
    headers = {"Last-Event-ID": last_id} if last_id else {}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        serving(site.app, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(trust_env=False, timeout=None) as client,
        client.stream("GET", f"{url}/api/v1/history/stream", params=params, headers=headers) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response.aiter_lines())


async def test_a_stream_has_the_changes_from_now_on_and_resumes_after_a_break(
    backend: Backend, conn: Connection, db: pg.Database
) -> None:
    await register(conn, "gpu-1")
    await db.advance(SETTLED)
    async with streamed(backend, layer="status") as events:
        await events.begun()
        quiet = events.last_id
        await register(conn, "gpu-2")
        await db.advance(SETTLED)
        change = await events.next()
        assert (change["name"], change["to"], change["key"]) == ("gpu-2", "enrolling", events.last_id)
    await register(conn, "gpu-3")
    await db.advance(SETTLED)
    for last, expected in ((quiet, "gpu-2"), (change["key"], "gpu-3")):
        async with streamed(backend, last, layer="status") as events:
            assert (await events.next())["name"] == expected


async def test_a_stream_ends_when_its_token_leaves_the_file_or_expires(
    backend: Backend, conn: Connection, db: pg.Database
) -> None:
    for end in ("leaves the file", "loses its scope", "expires", "never"):
        now = [START]
        access = Access((VIEWER, OTHER), loopback=False, now=lambda now=now: now[0])  # type: ignore[misc]
        async with streamed(backend, access=access, token=TOKEN, layer="status") as events:
            await events.begun()
            if end == "leaves the file":
                access.use((OTHER,))
            elif end == "loses its scope":
                access.use((msgspec.structs.replace(VIEWER, scopes=("intent",)),))
            elif end == "expires":
                now[0] = START + timedelta(hours=2)
            await register(conn, f"gpu-{end.replace(' ', '-')}")
            await db.advance(SETTLED)
            if end == "never":
                assert (await events.next())["name"] == "gpu-never"
            else:
                await events.ended()


async def test_a_stream_is_narrowed_like_history(backend: Backend, conn: Connection, db: pg.Database) -> None:
    await register(conn, "gpu-1", "gpu-2")
    await db.advance(SETTLED)
    async with streamed(backend, resource="node/gpu-2", layer="status", after="0.0.0.node.status") as events:
        assert (await events.next())["name"] == "gpu-2"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("after=x", 400, "after must be `next`, `cursor` or a `key` of an earlier response, not 'x'"),
        ("since=yesterday", 400, "since: expected an age"),
        ("resource=node/gpu-7", 404, "gpu-7"),
        ("limit=5", 400, "unknown parameter 'limit'"),
    ],
)
async def test_a_wrong_parameter_of_a_stream_is_refused_before_the_stream_begins(
    web: httpx.AsyncClient, query: str, status: int, text: str
) -> None:
    answer = await web.get(f"/api/v1/history/stream?{query}")
    assert answer.status_code == status
    assert text in answer.json()["detail"]


async def test_a_head_request_for_the_stream_ends_at_once(backend: Backend) -> None:
    site = open_site(backend)
    only_one = httpx.Limits(max_connections=1)
    async with (
        serving(site.app, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(trust_env=False, timeout=None, limits=only_one) as client,
    ):
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            head = await client.head(f"{url}/api/v1/history/stream")
            following = await client.get(f"{url}/api/v1/nodes")
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert following.status_code == 200


async def test_a_stop_of_the_server_does_not_wait_for_streams(backend: Backend) -> None:
    site = open_site(backend)
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            async with serving(site.app, host="127.0.0.1", port=0) as url:
                request = client.build_request("GET", f"{url}/api/v1/history/stream")
                response = await client.send(request, stream=True)
                await Events(response.aiter_lines()).begun()
        await response.aclose()


async def test_a_history_is_read_backwards_page_by_page(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    pages: list[str] = []
    before: dict[str, str] = {}
    for _ in range(4):
        page = (await web.get("/api/v1/nodes/gpu-1/history", params={"limit": 1, **before})).json()
        pages += [change["layer"] for change in page["changes"]]
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert sorted(pages) == ["management", "onboarding", "status"]


async def test_the_whole_fleet_s_history_is_read_page_by_page_both_ways(
    web: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    for name in ("gpu-1", "gpu-2"):
        await register(conn, name)
    await db.advance(timedelta(seconds=5))
    told = {}
    for order in ("newest", "oldest"):
        changes: list[tuple[str, str, str]] = []
        after: dict[str, str] = {}
        while True:
            page = (await web.get("/api/v1/history", params={"order": order, "limit": 4, **after})).json()
            changes += [(change["kind"], change["name"], change["layer"]) for change in page["changes"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        told[order] = changes
    assert len(set(told["newest"])) == len(told["newest"]) == 6
    assert told["newest"] == told["oldest"][::-1]


async def test_history_is_filtered_by_resource_layer_cause_and_time(web: httpx.AsyncClient, conn: Connection) -> None:
    for name in ("gpu-1", "gpu-2"):
        await register(conn, name)

    async def count(path: str, **params: str) -> int:
        return len((await web.get(f"/api/v1/{path}", params=params)).json()["changes"])

    assert await count("history", resource="node/gpu-2") == 3
    assert await count("history", layer="status", cause="register_node", since="1h", to="enrolling") == 2
    assert await count("history", until="1h") == 0
    assert await count("history", kind="maas_region") == 0
    assert await count("history", reason="REGIST") == 6
    assert await count("history", at_least="1s") == 0
    assert await count("history", requested_by="ann") == 0
    assert await count("nodes/gpu-1/history", layer="status") == 1
