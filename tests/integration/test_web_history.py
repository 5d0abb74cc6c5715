"""History over HTTP: of one node and of the fleet, page by page, and with filters."""

from __future__ import annotations

from datetime import timedelta

import httpx

from farrier.io.connections.pool import Connection
from tests.support import pg
from tests.support.web import register


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
