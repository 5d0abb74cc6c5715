"""The query string: the API refuses unknown parameters, and a page ignores them."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.routing import Route

from farrier.io.pool import Connection
from farrier.web import api
from tests.integration import test_web
from tests.integration.test_web import WITH_TOKEN, register

backend, web, conn = test_web.backend, test_web.web, test_web.conn


@pytest.mark.parametrize("route", api.ROUTES, ids=lambda route: route.path)
async def test_an_unknown_query_parameter_is_refused_with_the_known_ones(web: httpx.AsyncClient, route: Route) -> None:
    path = re.sub(r"{\w+}", "x", route.path)
    method = "POST" if "POST" in (route.methods or ()) else "GET"
    answer = await web.request(method, f"/api/v1{path}?bogus=1", headers=WITH_TOKEN)
    assert answer.status_code == 400
    assert "unknown parameter 'bogus'; " in answer.json()["detail"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("nodes?wiat=2", "unknown parameter 'wiat'; parameters of this path: name, label, status"),
        ("nodes/gpu-1?limit=1", "unknown parameter 'limit'; this path has no parameters"),
        ("nodes?label=!a=b", "label: expected KEY, !KEY, KEY=VALUE or KEY!=VALUE"),
        ("nodes?limit=1&limit=2", "limit occurs 2 times; give it once"),
        ("nodes?status=Active", "status must be one of bootstrap_issued, enrolling, active"),
        ("nodes?status=active&status=", "not ''"),
        ("nodes?management=none", "management must be one of unmanaged, "),
        ("breaches?status=Active", "status must be one of"),
    ],
)
async def test_unknown_and_invalid_query_parameters_are_refused(
    web: httpx.AsyncClient, conn: Connection, question: str, text: str
) -> None:
    await register(conn, "gpu-1")
    answer = await web.get(f"/api/v1/{question}")
    assert answer.status_code == 400
    assert text in answer.json()["detail"]


async def test_pages_ignore_unknown_query_parameters(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    assert "gpu-1" in (await web.get("/?bogus=1")).text
    assert (await web.get("/?status=Active")).status_code == 200
