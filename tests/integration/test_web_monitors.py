"""Monitors over HTTP: the token's name is the monitor, and groups of alerts become conditions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from farrier.config.token_file import ApiToken
from farrier.io.connections.pool import Connection
from farrier.model import api_token
from farrier.web.server.access import Access
from farrier.web.server.backend import Backend
from tests.support.monitors import grant, refused, report, standing
from tests.support.web import TOKEN, client_of, open_site

SECRETS = {name: api_token.token(digit * 64) for name, digit in (("am", "1"), ("ci", "2"), ("stranger", "3"))}
SCOPES = {"am": ("conditions",), "ci": ("intent",), "stranger": ("conditions",)}
TOKENS = tuple(
    ApiToken(name=name, sha256=api_token.digest(secret), scopes=SCOPES[name]) for name, secret in SECRETS.items()
)
ONE = "/api/v1/nodes/gpu-1/conditions"
ALERTS = "/api/v1/alertmanager"


@pytest.fixture
async def web(backend: Backend, conn: Connection) -> AsyncIterator[httpx.AsyncClient]:
    """A server with tokens, on a database with two nodes and a monitor, and no loop."""
    await conn.execute("SELECT farrier.register_node(n, site => 'ams') FROM unnest('{gpu-1,gpu-2}'::text[]) n")
    await grant(conn, ids=["gpu/*"])
    site = open_site(backend, Access(TOKENS))
    async with client_of(site) as client:
        yield client


def of(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


def group(*alerts: dict[str, str], status: str = "firing", truncated: int = 0) -> dict[str, Any]:
    """A payload of Alertmanager, with an alert for each of these sets of labels."""
    each = {"status": status, "annotations": {}, "endsAt": "0001-01-01T00:00:00Z"}
    firing = [each | {"labels": labels} for labels in alerts]
    return {"version": "4", "groupKey": "{}:{node}", "truncatedAlerts": truncated, "alerts": firing}


async def test_a_monitor_states_and_ends_a_condition_of_a_node(web: httpx.AsyncClient, conn: Connection) -> None:
    key = {"id": "gpu/xid-79", "target": "GPU-5e"}
    stated = await web.put(ONE, params=key, json={"message": "fallen off the bus"}, headers=of("am"))
    assert (stated.status_code, stated.json()["verdict"]) == (200, "taken"), stated.text
    assert await standing(conn) == [("gpu-1", "gpu/xid-79", "GPU-5e", "note", True)]
    for said in (
        "None",
        "nothing ended: monitor:am states no condition gpu/xid-79/GPU-5e of node gpu-1; expected none",
    ):
        ended = await web.delete(ONE, params=key, headers=of("am"))
        assert (ended.status_code, str(ended.json()["reason"]).startswith(said)) == (200, True), ended.text
        assert await standing(conn) == []


@pytest.mark.parametrize(
    ("client", "node", "given", "refusal"),
    [
        ("am", "gpu-9", {}, "404 no node is 'gpu-9'"),
        ("am", "gpu-1", {"id": "disk/full"}, "403 monitor am may not state the condition 'disk/full'"),
        ("am", "gpu-1", {"effect": "quarantine"}, "403 monitor am may request at most the effect note"),
        ("am", "gpu-1", {"effect": "reboot"}, "400 effect"),
        ("am", "gpu-1", {"message": "a\tb"}, "400 the message must not have control characters"),
        ("am", "gpu-1", {"expires_at": "2000-01-01T00:00:00Z"}, "400 expires_at must be within the next 30 days"),
        ("am", "gpu-1", {"id": ""}, "400 id"),
        ("ci", "gpu-1", {}, "403 a token with the scope conditions is required; the token ci has: intent"),
        ("stranger", "gpu-1", {}, "403 no monitor is named 'stranger'"),
    ],
)
async def test_a_condition_without_right_is_refused_in_one_line(
    web: httpx.AsyncClient, client: str, node: str, given: dict[str, str], refusal: str
) -> None:
    body = {"id": "gpu/hot"} | given
    path, key = f"/api/v1/nodes/{node}/conditions", {"id": body.pop("id")}
    answer = await web.put(path, params=key, json=body, headers=of(client))
    said = f"{answer.status_code} {answer.json()['detail']}"
    assert (said.startswith(refusal), "\n" in said) == (True, False), said
    assert (await web.get("/api/v1/monitors")).json()["monitors"][0]["conditions"] == 0


async def test_a_group_of_alerts_becomes_conditions_and_the_rest_is_counted_and_listed(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    alerts = (
        {"node": "gpu-1", "condition": "gpu/hot", "target": "GPU-1"},
        {"node": "gpu-2", "condition": "gpu/hot"},
        {"node": "gpu-9", "condition": "gpu/hot"},
        {"node": "gpu-1", "condition": "disk/full"},
        {"node": "gpu-1"},
    )
    answer = (await web.post(ALERTS, json=group(*alerts), headers=of("am"))).json()
    assert answer["taken"] == 2
    assert {(each["node"], each["id"], each["verdict"]) for each in answer["refused"]} == {
        ("gpu-9", "gpu/hot", "unmapped"),
        ("gpu-1", "disk/full", "forbidden"),
        ("gpu-1", None, "unmapped"),
    }
    assert [each[:3] for each in await standing(conn)] == [("gpu-1", "gpu/hot", "GPU-1"), ("gpu-2", "gpu/hot", "")]
    assert len(await refused(conn)) == 3
    await web.post(ALERTS, json=group(*alerts, status="resolved"), headers=of("am"))
    assert (await standing(conn), await refused(conn)) == ([], [])


async def test_of_a_truncated_group_no_alert_is_taken(web: httpx.AsyncClient, conn: Connection) -> None:
    cut = group({"node": "gpu-1", "condition": "gpu/hot"}, truncated=7)
    for times in (1, 2):
        answer = await web.post(ALERTS, json=cut, headers=of("am"))
        assert answer.status_code == 400, "Alertmanager repeats the group only after an error"
        assert answer.json()["detail"] == "7 alerts of the group are missing, so none is taken"
        assert await refused(conn) == [("", "{}:{node}", "truncated", times)]
    assert await standing(conn) == []
    assert await conn.fetchval("SELECT refused FROM farrier.monitors") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "3"},
        {"alerts": None},
        {"alerts": [{"status": "firing"}]},
        {"truncatedAlerts": "many"},
        {"alerts": [{"status": "firing", "labels": {"node": "gpu-1\0", "condition": "gpu/hot"}}]},
    ],
)
async def test_a_payload_of_another_form_is_refused_in_one_line(
    web: httpx.AsyncClient, conn: Connection, wrong: dict[str, Any]
) -> None:
    body = msgspec.json.encode(group({"node": "gpu-1", "condition": "gpu/hot"}) | wrong)
    answer = await web.post(ALERTS, content=body, headers=of("am"))
    assert (answer.status_code, "\n" in answer.json()["detail"]) == (400, False)
    assert await standing(conn) == []


async def test_the_pages_and_the_api_list_the_monitors_and_what_was_not_taken(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await report(conn, {"node": "gpu-1", "id": "gpu/hot"}, {"node": "<gpu-9>", "id": "gpu/hot", "target": "GPU-1"})
    (monitor,) = (await web.get("/api/v1/monitors")).json()["monitors"]
    assert (monitor["name"], monitor["ids"], monitor["lasts_seconds"]) == ("am", ["gpu/*"], 5 * 3600)
    assert (monitor["conditions"], monitor["unknown"], monitor["refused"], monitor["refused_now"]) == (1, 0, 1, 1)
    (refusal,) = (await web.get("/api/v1/monitors/refusals", params={"monitor": "am"})).json()["refusals"]
    assert (refusal["node"], refusal["verdict"], refusal["times"]) == ("<gpu-9>", "unmapped", 1)
    assert (await web.get("/api/v1/monitors/refusals", params={"monitor": "other"})).json()["refusals"] == []
    page = (await web.get("/monitors")).text
    assert "&lt;gpu-9&gt;" in page and "<gpu-9>" not in page
    assert "gpu/hot/GPU-1" in page and "1 report in total" in page


async def test_the_token_of_the_operators_is_no_monitor(web: httpx.AsyncClient) -> None:
    answer = await web.post(ALERTS, json=group(), headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.json()["detail"]) == (403, "no monitor is named 'http.bearer_token'")
