"""The web application over a real database: JSON API, views, metrics, and how each refusal looks."""

from __future__ import annotations

import re

import httpx
import pytest
from msgspec.structs import replace

from farrier.errors import CredentialError
from farrier.io.connections.pool import Connection
from farrier.web.server.backend import Backend
from tests.support.web import DECLARED, WITH_TOKEN, client_of, closed_site, open_site, register

EVIL = "<script>alert(1)</script>"


async def test_a_probe_is_answered_before_the_database_is_reached() -> None:
    async with client_of(closed_site()) as client:
        assert (await client.get("/healthz")).text == "ok\n"
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "not ready: waiting for the test\n")
        assert (await client.get("/metrics")).status_code == 200
        nodes = await client.get("/api/v1/nodes")
        assert nodes.status_code == 503
        assert nodes.json()["detail"] == "the database cannot be reached now"
        page = await client.get("/")
        assert page.status_code == 503
        assert page.headers["content-type"].startswith("text/html")


async def test_nodes_come_in_pages_that_lead_to_each_other(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1", "gpu-2", "gpu-3")
    first = (await web.get("/api/v1/nodes", params={"limit": 2})).json()
    assert [node["name"] for node in first["nodes"]] == ["gpu-1", "gpu-2"]
    second = (await web.get("/api/v1/nodes", params={"limit": 2, "after": first["next"]})).json()
    assert [node["name"] for node in second["nodes"]] == ["gpu-3"]
    assert second["next"] is None


async def test_nodes_are_filtered_by_their_details_and_states(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    chosen = {"status": "enrolling", "management": "unmanaged", "site": "ams"}
    assert len((await web.get("/api/v1/nodes", params=chosen)).json()["nodes"]) == 1
    assert (await web.get("/api/v1/nodes", params=chosen | {"status": "active"})).json()["nodes"] == []
    await conn.execute("SELECT farrier.register_node('cpu-1', labels => '{\"row\": \"3\"}')")
    assert (await web.get("/api/v1/nodes", params={"name": ""})).json()["nodes"] == []
    for more in ({"name": "cpu-*"}, {"label": "row=3"}, {"label": ["row", "!spare"]}):
        nodes = (await web.get("/api/v1/nodes", params=more)).json()["nodes"]
        assert [node["name"] for node in nodes] == ["cpu-1"]


async def test_a_node_is_shown_with_the_clocks_that_run_for_it(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    told = (await web.get("/api/v1/nodes/gpu-1")).json()
    assert told["node"]["status"] == "enrolling"
    status = next(clock for clock in told["clocks"] if clock["layer"] == "status")
    assert status["state"] == "enrolling"
    assert {"since", "limit_seconds", "above_seconds", "note"} <= status.keys()


async def test_a_request_without_a_version_has_the_oldest_and_learns_the_newest(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    del web.headers["Farrier-Api-Version"]
    body = {"node": "gpu-1", "action": "pause", "params": {"reason": "x"}}
    for declared in ({}, {"Farrier-Api-Version": "1"}):
        old = await web.post("/api/v1/intents", json=body, headers=WITH_TOKEN | declared)
        assert (old.status_code, old.json()["sqlstate"]) == (400, "FR406")
        assert "requires api_version 2" in old.json()["detail"]
        assert "the header Farrier-Api-Version" in old.json()["hint"]
        assert "the newest version is 2" in old.json()["hint"]
        assert "INSERT" not in old.json()["hint"], "this client has no SQL"
        told = [old.headers[f"Farrier-Api-{bound}-Version"] for bound in ("Min", "Max")]
        assert told == ["1", "2"]
    drain = {"node": "gpu-1", "action": "quarantine", "params": {"reason": "x"}}
    stored = await web.post("/api/v1/intents", json=drain, headers=WITH_TOKEN)
    assert (stored.status_code, stored.json()["api_version"]) == (202, 1)
    newer = await web.post("/api/v1/intents", json=body, headers=WITH_TOKEN | {"Farrier-Api-Version": "99"})
    assert "Farrier-Api-Version must be a whole number from 1 to 2, not '99'" in newer.json()["detail"]
    new = await web.post("/api/v1/intents", json=body, headers=WITH_TOKEN | DECLARED)
    assert (new.status_code, new.json()["api_version"]) == (202, 2)


async def test_without_a_configured_token_intents_are_refused(backend: Backend) -> None:
    async with client_of(open_site(replace(backend, token=None))) as client:
        for headers, status in (({}, 403), (WITH_TOKEN, 401)):
            answer = await client.post("/api/v1/intents", json={}, headers=headers)
            assert answer.status_code == status
            assert "this server has no tokens; set http.tokens_file or http.bearer_token" in answer.json()["detail"]


@pytest.mark.parametrize(("temporary", "status"), [(True, 503), (False, 500)], ids=["for now", "until it is mended"])
@pytest.mark.parametrize("path", ["intents", "resource-intents"])
async def test_an_unreadable_token_is_reported_in_json_without_its_location(
    backend: Backend, path: str, temporary: bool, status: int
) -> None:
    async def unreadable() -> str:
        raise CredentialError("file:/secret/place", "no such file", temporary=temporary)

    async with client_of(open_site(replace(backend, token=unreadable))) as client:
        answer = await client.post(f"/api/v1/{path}", json={}, headers=WITH_TOKEN)
    assert answer.status_code == status
    assert "token" in answer.json()["detail"]
    assert "secret/place" not in answer.text


async def test_the_inventory_keeps_its_filters_from_page_to_page(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, *(f"gpu-{number:03}" for number in range(101)))
    page = (await web.get("/", params={"status": "enrolling"})).text
    assert 'href="?status=enrolling&amp;after=gpu-099"' in page
    assert "gpu-100" not in page
    assert "gpu-100" in (await web.get("/", params={"status": "enrolling", "after": "gpu-099"})).text


async def test_a_node_s_page_shows_its_status_an_advice_and_its_timeline(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    page = (await web.get("/nodes/gpu-1")).text
    for said in ("enrolling", "What to do:", "Timeline", "registered"):
        assert said in page


async def test_text_of_clients_is_never_markup_on_a_page(web: httpx.AsyncClient, conn: Connection) -> None:
    await conn.execute(
        "SELECT farrier.register_node('gpu-1', model => $1, labels => jsonb_build_object('a', $1::text))", EVIL
    )
    await conn.execute("UPDATE farrier.nodes SET site = $1", EVIL)
    for path in ("/", "/nodes/gpu-1", f"/nodes/{EVIL}"):
        page = await web.get(path)
        assert EVIL not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_a_missing_page_is_a_404_in_html(web: httpx.AsyncClient) -> None:
    answer = await web.get("/nodes/nobody")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "nobody" in answer.text


async def test_resources_above_their_limits_are_in_the_api_and_on_top_of_the_inventory(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await conn.execute("SET session_replication_role = replica")
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, site, status, management, status_entered_at, paused)
        SELECT name, site, 'offline', 'unmanaged', farrier.now() - above - interval '30 min', paused::jsonb
          FROM (VALUES ('gpu-1', 'ams', interval '1 h', NULL), ('gpu-2', 'ams', interval '2 h', '{"reason": "mine"}'),
                       ('gpu-3', 'ams', interval '-1 min', NULL), ('gpu-4', 'lon', interval '9 h', NULL))
               AS n (name, site, above, paused);
        INSERT INTO farrier.maas_regions (name, site, url, state, state_entered_at)
        SELECT site, site, 'http://maas', state, farrier.now() - interval '1 h'
          FROM (VALUES ('ams', 'failing'), ('lon', 'observing')) r (site, state)
        """
    )
    told = (await web.get("/api/v1/breaches", params={"site": "ams"})).json()
    assert [(late["node"]["name"], late["node"]["paused"]) for late in told["nodes"]] == [
        ("gpu-2", "mine"),
        ("gpu-1", None),
    ]
    (clock,) = told["nodes"][1]["clocks"]
    assert (clock["layer"], clock["state"], clock["limit_seconds"]) == ("status", "offline", 1800)
    assert [(one["kind"], one["name"], one["site"]) for one in told["resources"]] == [("maas_region", "ams", "ams")]
    page = (await web.get("/")).text
    rows = re.findall(
        r'<td class="name"><a href="/nodes/([^"]+)".*?data-label="above" class="late">([^<]*)', page, re.DOTALL
    )
    assert rows == [("gpu-4", "9h"), ("gpu-2", "2h"), ("gpu-1", "1h"), ("gpu-3", "")]
    assert "maas_region ams</a> by" in page and "maas_region lon" not in page
