"""The query string: the API refuses unknown parameters, and a page ignores them."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.routing import Route

from farrier.io.connections.pool import Connection
from farrier.web.api import table
from tests.integration import test_web
from tests.integration.test_web import WITH_TOKEN, register

backend, web, conn = test_web.backend, test_web.web, test_web.conn


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
