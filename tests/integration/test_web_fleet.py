"""The HTTP API besides nodes and intents: tasks, figures, limits, bootstrap tokens, enqueueing, and lifts of brakes."""

from __future__ import annotations

import httpx
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node.snapshot import TaskType
from tests.support import pg
from tests.support.site import opened
from tests.support.web import WITH_TOKEN, backend_on, client_of, open_site, register


async def test_tasks_are_listed_by_node_and_status(web: httpx.AsyncClient, db: pg.Database) -> None:
    async with opened(db) as site:
        machine = await site.draining()
        (task,) = (await web.get("/api/v1/tasks", params={"node": machine.name, "status": "queued"})).json()["tasks"]
        assert (task["node"], task["type"], task["status"]) == (machine.name, TaskType.DRAIN, "queued")
        assert not (await web.get("/api/v1/tasks", params={"status": "failed"})).json()["tasks"]
        wrong = await web.get("/api/v1/tasks", params={"status": "done"})
        assert "status must be one of queued, dispatched" in wrong.json()["detail"]


async def test_figures_count_the_fleet(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1", "gpu-2")
    assert (await web.get("/api/v1/figures")).json()["statuses"] == {"enrolling": 2}


async def test_a_new_token_replaces_the_one_before(web: httpx.AsyncClient, conn: Connection) -> None:
    made = await web.post("/api/v1/nodes", json={"name": "gpu-1", "bootstrap": True}, headers=WITH_TOKEN)
    first = made.json()["nodes"][0]["bootstrap_token"]
    issued = await web.post("/api/v1/nodes/gpu-1/bootstrap", headers=WITH_TOKEN)
    assert issued.status_code == 201
    with pytest.raises(pg.PostgresError):
        await conn.execute("SELECT farrier.enroll_agent($1)", first)
    await conn.execute("SELECT farrier.enroll_agent($1)", issued.json()["bootstrap_token"])


async def test_a_resource_of_any_kind_is_enqueued(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    made = {"kind": "network_segment", "resource": "lan", "action": "create"}
    params = {"site": "ams", "prefixes": ["10.0.0.0/24"]}
    await web.post("/api/v1/resource-intents", json=made | {"params": params}, headers=WITH_TOKEN)
    nodes = ("nodes/gpu-1", "node"), ("resources/node/gpu-1", "node")
    for path, kind in (*nodes, ("resources/network_segment/lan", "network_segment")):
        await conn.execute("DELETE FROM farrier.wakes")
        enqueued = await web.post(f"/api/v1/{path}/enqueue", headers=WITH_TOKEN)
        assert (enqueued.status_code, enqueued.json()["kind"]) == (202, kind)
        assert await conn.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = $1", kind) == 1
    for path in ("nodes/gpu-7", "resources/node/gpu-7", "resources/network_segment/wan", "resources/barrel/b"):
        assert (await web.post(f"/api/v1/{path}/enqueue", headers=WITH_TOKEN)).status_code == 404


async def test_a_brake_that_holds_no_node_is_not_lifted(web: httpx.AsyncClient) -> None:
    lift = {"reason": "a planned move", "seconds": 600, "requested_by": "ann"}
    refused = await web.post("/api/v1/sites/ams/brake-lift", json=lift, headers=WITH_TOKEN)
    assert (refused.status_code, refused.json()["detail"]) == (409, "the brake of site 'ams' holds no node")


async def test_holds_after_a_restore_are_listed_and_lifted(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1", "gpu-2")
    assert not (await web.get("/api/v1/restore-holds")).json()["holds"]
    await conn.execute("SELECT farrier.hold_restored()")
    held = (await web.get("/api/v1/restore-holds", params={"kind": "node"})).json()["holds"]
    assert [each["name"] for each in held] == ["gpu-1", "gpu-2"]
    of_all = {"reason": "compared", "requested_by": "ann"}
    skipped = await web.post("/api/v1/restore-holds/lift", json=of_all, headers=WITH_TOKEN)
    whys = [each["why"] for each in skipped.json()["resources"]]
    assert whys == ["not compared with the systems outside yet"] * 2
    one = {"kind": "node", "names": ["gpu-1"], "then": "end", **of_all}
    await web.post("/api/v1/restore-holds/lift", json=one, headers=WITH_TOKEN)
    held = (await web.get("/api/v1/restore-holds")).json()["holds"]
    assert [each["choice"] for each in held] == ["end", None]
    unknown = await web.post("/api/v1/restore-holds/lift", json={**one, "then": "undo"}, headers=WITH_TOKEN)
    assert unknown.status_code == 400


async def test_the_worst_thousand_nodes_are_listed_with_the_number_of_the_others(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(
            """
            INSERT INTO farrier.nodes (name, status, management, status_entered_at)
            SELECT 'gpu-' || n, 'offline', 'unmanaged', farrier.now() - interval '1 h' - n * interval '1 min'
              FROM generate_series(1, 1003) n
            """
        )
    async with db.pool(size=1) as connections, client_of(open_site(backend_on(connections, db.dsn))) as web:
        told = (await web.get("/api/v1/breaches")).json()
        page = (await web.get("/")).text
    assert told["more_nodes"] == 3
    assert "gpu-1003" in page
    assert "983 more" in page
    assert [late["node"]["name"] for late in told["nodes"]] == [f"gpu-{n}" for n in range(1003, 3, -1)]
