"""A mistaken API request gets one line that names the field, the value and what is expected, and writes nothing. A page
ignores unknown parameters."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from farrier.io.connections.pool import Connection
from farrier.web.api import table
from tests.support.web import WITH_TOKEN, register

NODE = {"node": "gpu-1", "action": "quarantine"}
SET = {"node": "gpu-1", "action": "set"}
SITE = "letters, digits, dots, dashes and underscores"
CREATE = {"kind": "network_segment", "resource": "lan", "action": "create"}
LAN = CREATE | {"params": {"site": "ams", "prefixes": ["10.0.0.0/24"]}}

Mistake = tuple[str, str, Any, int, tuple[str, ...]]
"""Method, path, body, status, and the texts that the line has to contain."""
MISTAKES: list[Mistake] = [
    ("GET", "nodes?status=activ", None, 400, ("status", "'activ'", "active, offline")),
    ("GET", "nodes?sit=ams", None, 400, ("'sit'", "parameters of this path", "site")),
    ("GET", "nodes?limit=5000", None, 400, ("limit", "'5000'", "1 to 1000")),
    ("GET", "nodes?limit=1&limit=2", None, 400, ("limit occurs 2 times; give it once",)),
    ("GET", "nodes?status=active&status=", None, 400, ("status", "not ''")),
    ("GET", "nodes/gpu-1?limit=1", None, 400, ("'limit'", "this path has no parameters")),
    ("GET", "nodes?label=!row=3", None, 400, ("label", "'!row=3'", "KEY=VALUE")),
    ("GET", "nodes/gpu-7", None, 404, ("'gpu-7'", "list the nodes to find its name")),
    ("GET", "intents/7", None, 404, ("ID 7", "list the intents to find its ID")),
    ("GET", "resource-intents/7", None, 404, ("ID 7", "list the intents to find its ID")),
    ("GET", "intents?node=gpu-7", None, 404, ("'gpu-7'", "list the nodes to find its name")),
    ("POST", "nodes/gpu-7/enqueue", None, 404, ("'gpu-7'", "list the nodes to find its name")),
    ("POST", "nodes/gpu-7/bootstrap", None, 404, ("'gpu-7'", "List the nodes to find its name")),
    ("POST", "resource-intents", CREATE | {"action": "delete"}, 404, ("'lan'", "resources of kind network_segment")),
    ("GET", "node/gpu-1", None, 404, ("/api/v1/node/gpu-1", "openapi.json")),
    ("GET", "history?since=yesterday", None, 400, ("since", "'yesterday'", "2h")),
    ("GET", "history?since=9999-12-31T23:59:59-23:00", None, 400, ("since", "9999-12-31T23:59:59-23:00", "2h")),
    ("GET", "history?at_least=long", None, 400, ("at_least", "'long'", "a duration such as")),
    ("GET", "history?to=activ", None, 400, ("to", "'activ'", "did you mean 'active'?")),
    ("GET", "nodes/gpu-1/history?from=activ", None, 400, ("from", "'activ'", "did you mean 'active'?")),
    ("GET", "nodes/gpu-1/history?before=x", None, 400, ("before", "'x'", "`next`, `cursor` or a `key`")),
    ("GET", "intents?before=null", None, 400, ("before", "'null'", "must be omitted or have a value")),
    ("GET", "intents?action=paus", None, 400, ("action", "'paus'", "did you mean 'pause'?")),
    ("GET", "resource-intents?kind=network_segment&action=creat", None, 400, ("action", "'creat'", "'create'")),
    ("GET", "resource-intents?kind=segment", None, 400, ("kind", "'segment'", "'network_segment'")),
    ("GET", "resource-intents?kind=barrel&resource=b", None, 400, ("'barrel'", "network_segment")),
    ("GET", "resources?kind=segment", None, 400, ("kind", "'segment'", "did you mean 'network_segment'?")),
    ("GET", "resources/network_segment?state=zz", None, 400, ("state", "'zz'", "ready")),
    ("GET", "resources/network_segment?after=lan", None, 400, ("after", "'lan'", "`next` of an earlier response")),
    ("GET", "resources/network_segment?after=lan:x", None, 400, ("after", "'lan:x'", "`next` of an earlier response")),
    ("GET", "resources/network_segment?ended=maybe", None, 400, ("ended", "'maybe'", "true or false")),
    ("GET", "nodes?site=%00", None, 400, ("site", "NUL")),
    ("POST", "intents", NODE | {"params": {"reason": "a\0b"}}, 400, ("params.reason", "NUL")),
    ("GET", "history?resource=gpu-1", None, 400, ("resource", "'gpu-1'", "KIND/NAME")),
    ("GET", "history?order=oldest&after=12", None, 400, ("after", "'12'", "cursor")),
    ("GET", "resources/crates", None, 404, ("'crates'", "ib_partition")),
    ("GET", "../../api", None, 404, ("/api", "openapi.json")),
    ("GET", "../v1", None, 404, ("/api/v1", "openapi.json")),
    ("POST", "intents/", NODE, 404, ("/api/v1/intents/", "openapi.json")),
    ("GET", "intents/latest", None, 400, ("intent", "'latest'", "a whole number")),
    ("GET", "intents/0", None, 400, ("intent", "'0'", "from 1 to 9223372036854775807")),
    ("DELETE", "nodes/gpu-1", None, 405, ("DELETE", "/api/v1/nodes/gpu-1", "GET, HEAD, PATCH")),
    ("POST", "intents", "quarantine gpu-1", 400, ("'quarantine gpu-1'", "a JSON object", "fields: node, action")),
    ("POST", "intents", [], 400, ("not []", "a JSON object", "fields: node, action")),
    ("POST", "intents", "x" * 65536, 413, ("at most 65536 bytes",)),
    ("POST", "intents", {"node": "gpu-1"}, 400, ("missing required field `action`",)),
    ("POST", "intents", NODE, 400, ("quarantine", "reason is missing")),
    ("POST", "intents", NODE | {"params": {"reson": "x"}}, 400, ("reson", "reason")),
    ("POST", "intents", NODE | {"param": {"reason": "x"}}, 400, ("`param`", "fields: node, action, params")),
    ("POST", "intents", NODE | {"action": "quarantene"}, 400, ("'quarantene'", "Known:", "quarantine")),
    ("POST", "intents", NODE | {"node": "gpu-7", "params": {"reason": "x"}}, 404, ("'gpu-7'", "List the nodes")),
    ("POST", "intents?wait=5m", NODE | {"params": {"reason": "x"}}, 400, ("wait", "'5m'", "0 to 30")),
    ("POST", "resource-intents", CREATE | {"kind": "vlan"}, 400, ("'vlan'", "network_segment")),
    ("POST", "resource-intents", CREATE | {"action": "paint"}, 400, ("'paint'", "Known:", "create")),
    ("POST", "resource-intents", LAN | {"colour": "red"}, 400, ("`colour`", "fields: kind, resource, action")),
    ("POST", "resource-intents", CREATE | {"params": {"site": 7}}, 400, ("site", "a string")),
    ("POST", "nodes", {"name": "gpu 1"}, 400, ("name", "'gpu 1'", SITE)),
    ("POST", "nodes", {"name": "gpu-1"}, 409, ("gpu-1", "is already registered", "free again once its node")),
    ("POST", "nodes", [{"name": "gpu-8"}, {"name": "gpu-9", "site": "a b"}], 400, ("[1].site", "'a b'", SITE)),
    ("POST", "nodes", {"name": "gpu-8", "labels": {"a": "1", "row": 3}}, 400, ("labels.row", "a text", "not 3")),
    ("PATCH", "nodes/gpu-1", {"labels": {"row": {"at": "3"}}}, 400, ("labels.row", "a text", 'not {"at": "3"}')),
    ("POST", "intents", SET | {"params": {"labels": {"row": 3}}}, 400, ("labels", "'row'", "value 3", "a string")),
    ("PATCH", "nodes/gpu-1", {"sites": "ams"}, 400, ("`sites`", "fields: site, model")),
    ("PATCH", "nodes/gpu-1", {}, 400, ("at least one detail", "site, model")),
    ("PATCH", "nodes/gpu-1", {"agentless": None}, 400, ("agentless", "true or false", "not null")),
    ("PATCH", "nodes/gpu-1", {"macs": "02:00:00:00:00:02"}, 400, ("macs", "a list of 0 to 100", "1 to 50 characters")),
    ("PATCH", "nodes/gpu-1", {"macs": ["zz"]}, 400, ("macs", '"zz"', "macaddr")),
    ("POST", "sites/ams/brake-lift", {"reason": "x", "seconds": 90000}, 400, ("seconds", "90000", "0 to 86400")),
    ("POST", "sites/ams/brake-lift", {"reason": ""}, 400, ("reason", "''", "1 to 500 characters")),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: f"{each[0]} {each[1]} {each[2]}"[:99])
async def test_a_mistake_is_named_in_one_line_and_writes_nothing(
    web: httpx.AsyncClient, conn: Connection, mistake: Mistake
) -> None:
    method, path, body, status, named = mistake
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    answer = await web.request(method, f"/api/v1/{path}", json=body, headers=WITH_TOKEN)
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem.keys() >= {"type", "title"}
    said = f"{problem['detail']} | {problem.get('hint', '')}"
    assert "\n" not in said
    assert "farrier " not in said and "SELECT" not in said, "the client has neither the command line nor SQL"
    assert not [text for text in named if text not in said], said
    tables = ("intents", "resource_intents", "nodes")
    counts = [await conn.fetchval(f"SELECT count(*) FROM farrier.{each}") for each in tables]
    assert counts == [0, 0, 1]


@pytest.mark.parametrize("route", table.ROUTES, ids=lambda route: route.path)
async def test_an_unknown_query_parameter_is_refused_with_the_known_ones(web: httpx.AsyncClient, route: Route) -> None:
    path = re.sub(r"{\w+}", "x", route.path)
    method = next(each for each in ("POST", "GET", "PUT") if each in (route.methods or ()))
    answer = await web.request(method, f"/api/v1{path}?bogus=1", headers=WITH_TOKEN)
    assert answer.status_code == 400
    assert "unknown parameter 'bogus'; " in answer.json()["detail"]


async def test_pages_ignore_unknown_query_parameters(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    assert "gpu-1" in (await web.get("/?bogus=1")).text
    assert (await web.get("/?status=active")).status_code == 200
