"""The HTTP API for resources of a kind that no process runs: a read needs no token, an intent does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from farrier.model.node.limits import Limits
from tests.support import crates
from tests.support.crates import Yard
from tests.support.web import WITH_TOKEN, backend_on, client_of, open_site

LIMITS = Limits(sites={"north": {"crate.packing": timedelta(hours=1)}})


prepared, yard = crates.prepared, crates.yard


@pytest.fixture
async def web(yard: Yard) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(open_site(backend_on(yard.pool, yard.db.dsn, limits=LIMITS))) as client:
        yield client


async def test_the_list_of_kinds_counts_the_resources_of_each_state(web: httpx.AsyncClient, yard: Yard) -> None:
    await yard.create("c-1")
    told = (await web.get("/api/v1/resources")).json()["kinds"]
    (crate,) = [kind for kind in told if kind["kind"] == "crate"]
    assert (await web.get("/api/v1/resources?kind=crate")).json()["kinds"] == [crate]
    assert (await web.get("/api/v1/resources?kind=barrel")).status_code == 400
    assert {state["state"]: state["count"] for state in crate["states"]} == {
        "packing": 1,
        "packed": 0,
        "emptying/unpack": 0,
        "gone": None,
    }
    assert "size" in crate["actions"][0]["params"]["fields"]
    assert {each["action"]: (each["states"], each["instead"]) for each in crate["actions"]} == {
        "create": ([], ""),
        "delete": (["packed"], "wait until it is packed"),
        "update": (["packed"], ""),
    }


async def test_resources_come_in_pages_that_lead_to_each_other(web: httpx.AsyncClient, yard: Yard) -> None:
    for name in ("c-3", "c-1", "c-2"):
        await yard.create(name)
    first = (await web.get("/api/v1/resources/crate", params={"limit": 2})).json()
    assert [each["name"] for each in first["resources"]] == ["c-1", "c-2"]
    second = (await web.get("/api/v1/resources/crate", params={"limit": 2, "after": first["next"]})).json()
    assert [each["name"] for each in second["resources"]] == ["c-3"]
    assert second["next"] is None
    named = (await web.get("/api/v1/resources/crate", params={"name": "c-[12]"})).json()["resources"]
    assert [each["name"] for each in named] == ["c-1", "c-2"]
    none = await web.get("/api/v1/resources/crate", params={"state": "packed", "site": "ams", "ended": "true"})
    assert none.json()["resources"] == []


async def test_ended_resources_that_share_a_name_are_paged_without_a_gap(web: httpx.AsyncClient, yard: Yard) -> None:
    for _ in range(2):
        await yard.create("c-1")
        async with yard.running():
            await yard.db.until("SELECT NOT EXISTS (SELECT FROM farrier_crates.crates WHERE state = 'packing')")
            await yard.ask("delete", "c-1")
            await yard.db.until("SELECT NOT EXISTS (SELECT FROM farrier_crates.crates WHERE ended_at IS NULL)")
    seen, after = [], None
    while True:
        given = {"limit": "1", "ended": "true"} | ({"after": after} if after else {})
        page = (await web.get("/api/v1/resources/crate", params=given)).json()
        seen += [each["id"] for each in page["resources"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [1, 2]
    newest = (await web.get("/api/v1/resources/crate/c-1")).json()["resource"]
    assert (newest["id"], newest["state"], newest["clocks"]) == (2, "gone", [])


async def test_a_resource_is_shown_with_its_clock_its_intents_and_its_history(
    web: httpx.AsyncClient, yard: Yard
) -> None:
    id_ = await yard.create("c-1")
    async with yard.running():
        await yard.db.until(
            "SELECT EXISTS (SELECT FROM farrier.history WHERE kind = 'crate' AND from_value IS NOT NULL)"
        )
    for given in ("c-1", str(id_)):
        told = (await web.get(f"/api/v1/resources/crate/{given}")).json()
        assert told["resource"]["detail"]["size"] == 3
        assert told["resource"]["clocks"][0]["note"] == "this is where a crate belongs"
        assert [request["action"] for request in told["requests"]] == ["create"]
    past = (await web.get("/api/v1/resources/crate/c-1/history")).json()
    assert [(change["name"], change["to"]) for change in past["changes"]] == [("c-1", "packed"), ("c-1", "packing")]
    everything = (await web.get("/api/v1/history", params={"kind": "crate"})).json()
    assert everything["changes"] == past["changes"]


@pytest.mark.parametrize("path", ["barrel", "barrel/x", "barrel/x/history", "crate/c-9", "crate/c-9/history"])
async def test_a_missing_kind_or_resource_is_not_found(web: httpx.AsyncClient, path: str) -> None:
    answer = await web.get(f"/api/v1/resources/{path}")
    assert answer.status_code == 404
    assert path.split("/", maxsplit=1)[0] in answer.json()["detail"]


async def test_members_are_listed_with_their_owners_and_a_missing_resource_is_404(
    web: httpx.AsyncClient, yard: Yard
) -> None:
    await yard.pool.execute("SELECT farrier.set_pool('pkey', 5, 6)")
    made = {"network_segment": '{"site": "ams", "prefixes": ["10.0.0.0/24"]}', "ib_partition": "{}"}
    for kind, params in made.items():
        await yard.pool.execute("SELECT farrier.resource_intent($1, 'lan', 'create', $2::text::jsonb)", kind, params)
    await yard.pool.execute("SELECT farrier.join_partition('lan', '0002c903000e0b72', 'gpu-1')")
    members = (await web.get("/api/v1/resources/ib_partition/lan/members")).json()["members"]
    assert [(m["guid"], m["owner"], m["state"]) for m in members] == [("0002c903000e0b72", "gpu-1", "pending")]
    assert (await web.get("/api/v1/resources/network_segment/lan/addresses")).json()["addresses"] == []
    for path in ("ib_partition/wan/members", "network_segment/wan/addresses"):
        assert (await web.get(f"/api/v1/resources/{path}")).status_code == 404
    for path in ("ib_partition/%00/members", "network_segment/%00/addresses"):
        assert (await web.get(f"/api/v1/resources/{path}")).status_code == 400


@pytest.mark.parametrize("path", ["crate?state=%00", "crate?site=%00", "crate/%00", "crate/%00/history", "%00"])
async def test_a_text_that_the_database_cannot_store_is_400_and_not_404(web: httpx.AsyncClient, path: str) -> None:
    answer = await web.get(f"/api/v1/resources/{path}")
    assert answer.status_code == 400
    assert answer.json()["detail"]


async def test_a_create_is_accepted_even_if_the_client_does_not_wait(web: httpx.AsyncClient) -> None:
    asked = {"kind": "crate", "resource": "c-1", "action": "create", "params": {"size": 3}, "idempotency_key": "k"}
    for _ in range(2):
        made = await web.post("/api/v1/resource-intents", json=asked, headers=WITH_TOKEN)
        assert (made.status_code, made.json()["status"]) == (200, "accepted")
        shown = await web.get(f"/api/v1/resources/crate/{made.json()['resource']}")
        assert shown.json()["resource"]["name"] == "c-1"


async def test_a_create_that_is_repeated_without_a_key_is_refused(web: httpx.AsyncClient) -> None:
    asked = {"kind": "crate", "resource": "c-1", "action": "create", "params": {"size": 3}}
    made = await web.post("/api/v1/resource-intents", json=asked, headers=WITH_TOKEN, params={"wait": 5})
    assert (made.status_code, made.json()["status"]) == (200, "accepted")
    again = await web.post("/api/v1/resource-intents", json=asked, headers=WITH_TOKEN)
    assert again.status_code == 409
    pending = {"kind": "crate", "resource": "c-1", "action": "delete"}
    answer = await web.post("/api/v1/resource-intents", json=pending, headers=WITH_TOKEN)
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")


async def test_a_resource_above_its_limit_is_among_the_breaches_and_on_the_page(
    web: httpx.AsyncClient, yard: Yard
) -> None:
    for name, site in (("c-1", None), ("c-2", "north")):
        await yard.pool.execute("INSERT INTO farrier_crates.crates (name, site) VALUES ($1, $2)", name, site)
    await yard.db.advance(timedelta(minutes=7))
    (late,) = (await web.get("/api/v1/breaches")).json()["resources"]
    assert (late["kind"], late["name"], late["clocks"][0]["limit_seconds"]) == ("crate", "c-1", 300)
    assert (await web.get("/api/v1/breaches", params={"site": "north"})).json()["resources"] == []
    page = (await web.get("/")).text
    assert "/resources/crate/1" in page
    kinds = (await web.get("/resources")).text
    assert "2 packing" in kinds
    assert 'href="/resources/network_segment"' in kinds


async def test_every_kind_has_a_page_with_its_resources_and_every_resource_a_page(
    web: httpx.AsyncClient, yard: Yard
) -> None:
    await yard.pool.execute("INSERT INTO farrier_crates.crates (name) VALUES ('c-1')")
    await yard.db.advance(timedelta(minutes=7))
    listed = (await web.get("/resources/crate")).text
    assert '<a href="/resources/crate/1">c-1</a>' in listed
    assert '<td data-label="above" class="late">2m' in listed
    shown = (await web.get("/resources/crate/c-1")).text
    for text in ("waits for", "<h3>state</h3>", "packing", "of 5m", "<dt>size", "created"):
        assert text in shown
    assert (await web.get("/resources/crate/c-7")).status_code == 404
    assert (await web.get("/resources/barrel")).status_code == 404


async def test_nodes_are_found_like_resources_of_any_kind(web: httpx.AsyncClient, yard: Yard) -> None:
    await yard.pool.execute("SELECT farrier.register_node('gpu-1')")
    (listed,) = (await web.get("/api/v1/resources/node", params={"status": "enrolling"})).json()["nodes"]
    assert listed["name"] == "gpu-1"
    for below in ("", "/history"):
        own = (await web.get(f"/api/v1/nodes/gpu-1{below}")).json()
        assert (await web.get(f"/api/v1/resources/node/gpu-1{below}")).json().keys() == own.keys()
    assert "gpu-1" in (await web.get("/resources/node")).text
    assert "waits for" in (await web.get("/resources/node/gpu-1")).text
    missing = (await web.get("/api/v1/resources/node/gpu-7")).json()
    assert missing["hint"] == "list the nodes to find its name"
