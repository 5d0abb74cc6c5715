"""Nodes are registered and changed over HTTP, one or many; no change overwrites that of another client."""

from __future__ import annotations

import html
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node.details import DETAILS, REMOVABLE
from tests.support import owners, pg
from tests.support.details import VALUES
from tests.support.site import Site
from tests.support.web import WITH_TOKEN


async def register(web: httpx.AsyncClient, body: Any) -> httpx.Response:
    return await web.post("/api/v1/nodes", json=body, headers=WITH_TOKEN)


async def change(web: httpx.AsyncClient, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await web.patch("/api/v1/nodes/gpu-1", json=body, headers=WITH_TOKEN | named)


async def test_a_node_is_registered_with_all_its_details(web: httpx.AsyncClient) -> None:
    made = await register(
        web, {"name": "gpu-1", "bmc_address": "https://192.0.2.7", "bmc_credential": "env:B", **VALUES}
    )
    assert made.status_code == 201
    (registered,) = made.json()["nodes"]
    assert registered == {"id": registered["id"], "name": "gpu-1"}
    assert made.headers["location"] == f"/api/v1/nodes/{registered['id']}"
    node = (await web.get(made.headers["location"])).json()["node"]
    assert {name: node[name] for name in DETAILS} == VALUES
    assert (node["bmc_address"], node["bmc_credential"]) == ("https://192.0.2.7", "env:B")


async def test_a_bootstrap_token_is_shown_once_and_works(web: httpx.AsyncClient, conn: Connection) -> None:
    (registered,) = (await register(web, {"name": "gpu-1", "bootstrap": True})).json()["nodes"]
    assert registered["bootstrap_token"] not in (await web.get("/api/v1/nodes/gpu-1")).text
    assert await conn.fetchval("SELECT agent_key FROM farrier.enroll_agent($1)", registered["bootstrap_token"])


@pytest.mark.full
async def test_a_thousand_nodes_are_registered_in_one_request(web: httpx.AsyncClient, conn: Connection) -> None:
    nodes = [{"name": f"gpu-{number}", "labels": {"rack": "x" * 500}} for number in range(1000)]
    made = await register(web, nodes)
    assert (made.status_code, len(made.json()["nodes"])) == (201, 1000)
    assert await conn.fetchval("SELECT count(*) FROM farrier.nodes") == 1000


async def test_one_invalid_node_prevents_the_whole_registration_and_is_named(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-3')")
    for wrong, status, text in (
        ({"name": "gpu-3"}, 409, "gpu-3: node gpu-3 is already registered"),
        (
            {"name": "gpu-4", "site": "no site"},
            400,
            "[1].site 'no site' is not usable: expected the name of the site's file",
        ),
        ({"name": "no name"}, 400, "[1].name 'no name' is not usable"),
        ({"site": "dc-1"}, 400, "[1]: Object missing required field `name`"),
        ({"name": "gpu-4", "colour": "red"}, 400, "[1]: Object contains unknown field `colour`"),
        ({"name": "gpu-4", "macs": ["xx"]}, 400, "gpu-4: "),
        ({"name": "gpu-1", "site": "dc-1"}, 400, "name 'gpu-1' occurs 2 times in the list; give each node once"),
        ({"name": "gpu-4", "bmc_credential": "s3cret"}, 400, "must be a reference"),
    ):
        refused = await register(web, [{"name": "gpu-1"}, wrong])
        assert refused.status_code == status, refused.text
        assert text in refused.json()["detail"]
        assert "s3cret" not in refused.text
    assert await conn.fetchval("SELECT count(*) FROM farrier.nodes") == 1


async def test_nodes_are_returned_in_the_order_of_the_request(web: httpx.AsyncClient) -> None:
    made = await register(web, [{"name": "gpu-2"}, {"name": "gpu-1"}])
    assert [each["name"] for each in made.json()["nodes"]] == ["gpu-2", "gpu-1"]


async def test_two_clients_that_register_the_same_nodes_in_another_order_do_not_deadlock(
    web: httpx.AsyncClient, db: pg.Database, conn: Connection
) -> None:
    refused = []

    async def late() -> None:
        refused.append(await register(web, [{"name": "gpu-2"}, {"name": "gpu-1"}]))

    async with anyio.create_task_group() as tasks, conn.transaction():
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        tasks.start_soon(late)
        await db.until_blocked()
        await conn.execute("SELECT farrier.register_node('gpu-2')")
    assert refused[0].json()["detail"] == "gpu-1: node gpu-1 is already registered"


@pytest.mark.usefixtures("site")
async def test_every_detail_is_changed_and_an_optional_one_is_removed_with_null(web: httpx.AsyncClient) -> None:
    changed = await change(web, VALUES)
    assert changed.status_code == 200, changed.text
    assert {name: changed.json()["node"][name] for name in DETAILS} == VALUES
    removed = await change(web, dict.fromkeys(REMOVABLE))
    assert [removed.json()["node"][name] for name in REMOVABLE] == [None] * len(REMOVABLE)
    assert removed.json()["node"]["labels"] == VALUES["labels"], "what is not named stays"


@pytest.mark.usefixtures("site")
async def test_a_change_of_an_outdated_version_is_refused(web: httpx.AsyncClient) -> None:
    seen = (await web.get("/api/v1/nodes/gpu-1")).headers["etag"]
    first = await change(web, {"rack": "r1"}, If_Match=seen)
    assert first.status_code == 200
    assert first.headers["etag"] != seen
    late = await change(web, {"rack": "r2"}, If_Match=seen)
    assert (late.status_code, late.headers["etag"]) == (412, first.headers["etag"])
    assert f"has the version {first.headers['etag']}, not {seen}" in late.json()["detail"]
    assert (await change(web, {"rack": "r3"}, If_Match="*")).status_code == 200
    assert (await web.get("/api/v1/nodes/gpu-1")).json()["node"]["rack"] == "r3"


async def test_the_second_of_two_concurrent_changes_of_one_version_is_rejected(site: Site) -> None:
    """The version is checked in the commit, and not only when the intent is inserted."""
    version = await site.conn.fetchval("SELECT version FROM farrier.nodes")
    async with site.conn.transaction():
        ids = [
            await site.conn.fetchval(
                "SELECT farrier.intent('gpu-1', 'set', $1::text::jsonb, api_version => 2)",
                msgspec.json.encode({"rack": rack, "if_version": version}).decode(),
            )
            for rack in ("r1", "r2")
        ]
    await site.settled()
    first, second = [await site.answer(id_) for id_ in ids]
    assert first.status == "accepted"
    assert (second.status, second.reason) == ("rejected", f"set: node gpu-1 has version {version + 1}, not {version}")
    assert await site.conn.fetchval("SELECT rack FROM farrier.nodes") == "r1"


async def test_an_unchanged_node_is_answered_with_304(web: httpx.AsyncClient, site: Site) -> None:
    seen = (await web.get("/api/v1/nodes/gpu-1")).headers["etag"]
    same = await web.get("/api/v1/nodes/gpu-1", headers={"If-None-Match": seen})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", seen)
    await change(web, {"rack": "r1"})
    assert (await web.get("/api/v1/nodes/gpu-1", headers={"If-None-Match": seen})).status_code == 200


async def test_a_change_that_the_node_rejects_is_a_problem(web: httpx.AsyncClient, site: Site) -> None:
    await site.conn.execute("SELECT farrier.register_node('gpu-2', macs => '{02:00:00:00:00:02}')")
    refused = await change(web, {"macs": ["02:00:00:00:00:02"]})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:farrier:intent-rejected")
    assert "already belongs to node gpu-2" in refused.json()["detail"]


@pytest.mark.usefixtures("site")
async def test_a_change_in_a_version_that_lacks_it_is_refused(web: httpx.AsyncClient) -> None:
    assert (await change(web, {"rack": "r1"}, Farrier_Api_Version="1")).json()["sqlstate"] == "FR406"


async def test_a_node_is_shown_with_the_recommended_next_action(
    web: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    await register(web, {"name": "gpu-1"})
    await conn.execute("""UPDATE farrier.nodes SET paused = '{"reason": "mine", "at": "2026-01-01T00:00:00Z"}'""")
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 2.0})
    following = (await web.get("/api/v1/nodes/gpu-1")).json()["next_action"]
    assert following["command"] == "farrier node unpause gpu-1"
    page = html.unescape((await web.get("/nodes/gpu-1")).text)
    assert following["advice"] in page and following["command"] in page
    assert [intent["action"] for intent in following["intents"]] == ["unpause"] and following["ends_by"] == "person"
    assert "button recommended" not in page  # a client without a token may submit nothing
    offered = (await web.get("/nodes/gpu-1", headers=WITH_TOKEN)).text
    assert '<a class="button recommended" href="/nodes/gpu-1/act/unpause">unpause' in offered
