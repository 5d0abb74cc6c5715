"""The OpenAPI document has the responses of requests for names that do not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest

from farrier.config.token_file import BEARER_TOKEN
from farrier.io.connections.pool import Connection
from farrier.web.api import table
from farrier.web.api.operation import Operation
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.support.monitors import grant
from tests.support.web import TOKEN, open_site

DOCUMENT: dict[str, Any] = msgspec.json.decode(table.document())
UNKNOWN = "nothing"
# A resource is given with its kind.
WITH_KIND = {("/history", "resource"), ("/history/stream", "resource")}
BESIDE = {("/resource-intents", "resource"): {"kind": "network_segment"}}
PAUSE = {"action": "pause", "params": {"reason": "a test"}}
BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "/nodes"): {"name": "gpu-1"},
    ("PATCH", "/nodes/{node}"): {"site": "ams"},
    ("PUT", "/nodes/{node}/conditions"): {"message": "a test"},
    ("POST", "/alertmanager"): {"version": "4", "alerts": []},
    ("POST", "/intents"): {"node": UNKNOWN, **PAUSE},
    ("POST", "/resource-intents"): {"kind": "network_segment", "resource": UNKNOWN, "action": "delete"},
    ("POST", "/foreseen"): {"intents": [{"resource": UNKNOWN, "action": "drain"}]},
    ("POST", "/restore-holds/lift"): {"kind": "node", "names": [UNKNOWN], "reason": "a test"},
    ("POST", "/sites/{site}/brake-lift"): {"reason": "a test"},
}


@pytest.fixture
async def client(backend: Backend, conn: Connection) -> AsyncIterator[httpx.AsyncClient]:
    await grant(conn, BEARER_TOKEN)
    site = open_site(backend)
    async with (
        serving(site.app, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {TOKEN}", "Farrier-Api-Version": "2"}
        ) as client,
    ):
        yield client


def queries(operation: Operation) -> Iterator[dict[str, str]]:
    """A query without parameters, and one for each parameter, with a name that does not exist."""
    yield {}
    for each in DOCUMENT["paths"][operation.path][operation.method.lower()]["parameters"]:
        key = operation.path, each["name"]
        if each["in"] == "query":
            yield {each["name"]: f"node/{UNKNOWN}" if key in WITH_KIND else UNKNOWN} | BESIDE.get(key, {})


async def statuses(client: httpx.AsyncClient, operation: Operation) -> set[int]:
    """The statuses of requests for names that do not exist. A stream does not end, so no body is read."""
    path = operation.path
    for name in ("node", "kind", "name", "site"):
        path = path.replace(f"{{{name}}}", UNKNOWN)
    path = path.replace("{intent}", "1000000")
    body = BODIES[operation.method, operation.path] if operation.body is not None else None
    found = set()
    for query in queries(operation):
        async with client.stream(operation.method, path, params=query, json=body) as response:
            found.add(response.status_code)
    return found


async def test_each_status_of_an_unknown_name_is_documented_and_404_only_where_it_is_returned(
    client: httpx.AsyncClient,
) -> None:
    undocumented, unreturned = [], []
    for operation in table.OPERATIONS:
        responses = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]
        found = await statuses(client, operation)
        at = operation.method, operation.path
        undocumented += [(*at, status) for status in found if str(status) not in responses]
        unreturned += [at] if "404" in responses and 404 not in found else []
    assert undocumented == []
    assert unreturned == [("POST", "/sites/{site}/brake-lift")], "a site that does not exist has no brake that holds"
