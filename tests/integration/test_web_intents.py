"""Intents over HTTP: the status code of a POST is the answer; clients may wait for it, and read an intent by its ID."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from farrier.io.calls.requests import PostgresRequests
from tests.support import crates, pg
from tests.support.crates import Yard
from tests.support.web import WITH_TOKEN, backend_on, client_of, open_site

MANAGE = {"node": "gpu-1", "action": "manage"}
PAUSE = {"node": "gpu-1", "action": "pause", "params": {"reason": "to look at it"}, "requested_by": "ann"}


prepared, yard = crates.prepared, crates.yard


async def post(web: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
    return await web.post(f"/api/v1/{path}", json=body, headers=WITH_TOKEN)


@pytest.mark.usefixtures("site")
async def test_an_accepted_intent_is_200_and_a_rejected_one_is_a_problem(web: httpx.AsyncClient) -> None:
    accepted = await post(web, "intents?wait=30", PAUSE)
    assert (accepted.status_code, accepted.json()["status"]) == (200, "accepted")
    assert accepted.headers["location"] == "/api/v1/intents/1"
    rejected = await post(web, "intents?wait=1", MANAGE)
    assert rejected.status_code == 202, "a paused node answers it later"
    await post(web, "intents?wait=30", {"node": "gpu-1", "action": "unpause"})
    answered = await web.get(rejected.headers["location"], params={"wait": 30})
    assert (answered.status_code, answered.json()["status"]) == (200, "rejected")
    rejected = await post(web, "intents?wait=30", MANAGE)
    problem = rejected.json()
    assert (rejected.status_code, problem["type"], problem["title"]) == (
        409,
        "urn:farrier:intent-rejected",
        "The intent was rejected",
    )
    assert problem["intent"]["id"] == 4
    assert problem["intent"]["reason"] in problem["detail"]


async def test_a_superseded_intent_has_its_own_problem_type(web: httpx.AsyncClient, conn: Any) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    first = await post(web, "intents", MANAGE | {"idempotency_key": "k"})
    await conn.execute("UPDATE farrier.intents SET status = 'superseded', answered_at = farrier.now()")
    again = await post(web, "intents", MANAGE | {"idempotency_key": "k"})
    assert (first.status_code, again.status_code) == (202, 409)
    assert again.json()["type"] == "urn:farrier:intent-superseded"
    assert again.json()["intent"]["id"] == first.json()["id"], "the same key is the same intent"


async def test_an_intent_is_read_by_its_id_with_its_parameters(web: httpx.AsyncClient, conn: Any) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    submitted = await post(web, "intents", PAUSE)
    shown = (await web.get(submitted.headers["location"])).json()
    assert shown == submitted.json()
    assert (shown["kind"], shown["name"], shown["action"]) == ("node", "gpu-1", "pause")
    assert (shown["params"], shown["requested_by"]) == ({"reason": "to look at it"}, "ann")
    assert (shown["status"], shown["answered_at"]) == ("pending", None)


async def test_a_client_that_waits_gets_the_answer_when_it_comes(web: httpx.AsyncClient, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        url = (await post(web, "intents", MANAGE)).headers["location"]
        answers: list[str] = []

        async def wait() -> None:
            answers.append((await web.get(url, params={"wait": 30})).json()["status"])

        async with anyio.create_task_group() as clients:
            for _ in range(3):
                clients.start_soon(wait)
            await conn.execute("UPDATE farrier.intents SET status = 'accepted', answered_at = farrier.now()")
        assert answers == ["accepted"] * 3
        await conn.execute("UPDATE farrier.intents SET status = 'pending', answered_at = NULL")
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            assert (await web.get(url, params={"wait": 0.1})).json()["status"] == "pending"


async def test_clients_that_wait_share_one_connection(db: pg.Database) -> None:
    listeners = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    async with db.pool(size=3) as connections, db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        intent = await conn.fetchval(
            "INSERT INTO farrier.intents (node, action) VALUES ('gpu-1', 'manage') RETURNING id"
        )
        requests = PostgresRequests(connections, db.dsn)
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            async with anyio.create_task_group() as clients:
                for _ in range(5):
                    clients.start_soon(requests.answer, "node", intent, pg.PATIENCE)
                while await conn.fetchval(listeners) == 0:
                    await anyio.lowlevel.checkpoint()
                assert await conn.fetchval(listeners) == 1
                await conn.execute("UPDATE farrier.intents SET status = 'accepted', answered_at = farrier.now()")
            while await conn.fetchval(listeners):
                await anyio.lowlevel.checkpoint()


async def test_intents_are_listed_in_pages_that_lead_to_each_other(web: httpx.AsyncClient, conn: Any) -> None:
    await conn.execute("SELECT farrier.register_node(name) FROM unnest('{gpu-1, gpu-2}'::text[]) name")
    for number in range(4):
        await post(web, "intents", MANAGE | {"node": f"gpu-{1 + number % 2}"})
    first = (await web.get("/api/v1/intents", params={"limit": 3})).json()
    second = (await web.get("/api/v1/intents", params={"limit": 3, "before": first["next"]})).json()
    assert [intent["id"] for page in (first, second) for intent in page["intents"]] == [4, 3, 2, 1]
    assert second["next"] is None
    chosen = {"node": "gpu-2", "status": "pending", "action": "manage"}
    assert [each["id"] for each in (await web.get("/api/v1/intents", params=chosen)).json()["intents"]] == [4, 2]
    assert not (await web.get("/api/v1/intents", params=chosen | {"requested_by": "bob"})).json()["intents"]


async def test_an_intent_for_a_node_among_resources_is_the_nodes_intent(yard: Yard) -> None:
    site = open_site(backend_on(yard.pool, yard.db.dsn))
    await yard.pool.fetchval("SELECT farrier.register_node('gpu-1')")
    async with client_of(site) as web:
        await post(
            web, "resource-intents", {"kind": "crate", "resource": "c-1", "action": "create", "params": {"size": 3}}
        )
        asked = {"kind": "node", "resource": "gpu-1", "action": "drain"}
        stored = await post(web, "resource-intents", asked)
        assert (stored.status_code, stored.json()["name"]) == (202, "gpu-1")
        assert (await web.get(stored.headers["location"])).json()["action"] == "drain"
        newer = await web.post(
            "/api/v1/resource-intents", json=asked, headers=WITH_TOKEN | {"Farrier-Api-Version": "99"}
        )
        assert (newer.status_code, newer.json()["detail"][:19]) == (400, "Farrier-Api-Version")


async def test_intents_of_every_kind_are_read_waited_for_and_listed(yard: Yard) -> None:
    site = open_site(backend_on(yard.pool, yard.db.dsn))
    crate = {"kind": "crate", "resource": "c-1"}
    async with client_of(site) as web:
        created = await post(web, "resource-intents", crate | {"action": "create", "params": {"size": 3}})
        assert (created.status_code, created.json()["status"]) == (200, "accepted")
        async with yard.running():
            await yard.db.until("SELECT EXISTS (SELECT FROM farrier_crates.crates WHERE state = 'packed')")
            deleted = await post(web, "resource-intents?wait=30", crate | {"action": "delete"})
            assert (deleted.status_code, deleted.json()["status"]) == (200, "accepted")
        shown = await web.get(deleted.headers["location"], params={"wait": 1})
        assert shown.json() == deleted.json()
        chosen = {"kind": "crate", "resource": "1", "action": ["create", "delete"]}
        listed = (await web.get("/api/v1/resource-intents", params=chosen)).json()["intents"]
        assert [(each["name"], each["action"]) for each in listed] == [("c-1", "delete"), ("c-1", "create")]
        missing = await web.get("/api/v1/resource-intents", params={"resource": "c-1"})
        assert (missing.status_code, missing.json()["detail"]) == (400, "resource 'c-1' is given without its kind")
