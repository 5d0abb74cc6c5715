"""Which requests need a token and which scopes, and which tokens of the file are accepted.

There is no database: a request that is let through gets 503.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.routing import Mount, Route

from farrier.config.processes import is_loopback
from farrier.config.token_file import ApiToken
from farrier.model import api_token
from farrier.model.api_token import Scope
from farrier.web.api import table
from farrier.web.server.access import COOKIE, Access
from farrier.web.server.site import WebApplication
from tests.support.clock import HandClock

NOW = datetime(2027, 1, 1, tzinfo=UTC)
LET_THROUGH = 503
SECRETS = {name: api_token.token(f"{number:064x}") for number, name in enumerate((*Scope, "old", "gone"))}


def a_token(name: str, *scopes: str, expires: datetime | None = None) -> ApiToken:
    return ApiToken(name=name, sha256=api_token.digest(SECRETS[name]), scopes=scopes, expires=expires)


TOKENS = tuple(a_token(scope, scope) for scope in Scope)


class Server:
    """A site that has not reached its database, and its clients."""

    def __init__(self, *tokens: ApiToken, loopback: bool = False) -> None:
        self.clock = HandClock()
        self.access = Access(tokens or TOKENS, loopback=loopback, clock=self.clock, now=lambda: NOW)
        self.site = WebApplication(CollectorRegistry(), unready_because=lambda: None, access=self.access)

    async def get(self, path: str, **more: str) -> httpx.Response:
        return await self.request("GET", path, **more)

    async def request(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        cookie: str = "",
        address: str = "127.0.0.1",
        scheme: str = "http",
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {"Cookie": cookie} if cookie else {}
        transport = httpx.ASGITransport(app=self.site.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://localhost", headers=headers) as client:
            return await client.request(method, path)


def paths(site: WebApplication) -> list[tuple[str, str]]:
    """Every method and path of the application, with names in place of parameters."""
    found = []
    for route in site._site.routes:
        inner = [(route.path, each) for each in route.routes] if isinstance(route, Mount) else [("", route)]
        for above, each in inner:
            assert isinstance(each, Route)
            path = above + each.path.replace("{", "").replace("}", "")
            found += [(method, path) for method in sorted(each.methods or ())]
    return found


PUBLIC = {"/healthz", "/readyz", "/metrics", "/style.css", "/live.js", "/login"}


async def test_beyond_loopback_every_path_needs_a_token_but_metrics_and_probes() -> None:
    server = Server()
    found = paths(server.site)
    assert ("POST", "/api/v1/intents") in found and ("GET", "/nodes/node") in found
    without = {(method, path): (await server.request(method, path)).status_code for method, path in found}
    assert {path for (_, path), status in without.items() if status != 401} == PUBLIC
    assert (await server.get("/nothing/here")).status_code == 401


async def test_over_loopback_reading_needs_no_token_and_every_change_does() -> None:
    server = Server(loopback=True)
    for method, path in paths(server.site):
        status = (await server.request(method, path)).status_code
        if method in ("GET", "HEAD"):
            assert status in (200, LET_THROUGH) or (path, status) == ("/runs/key", 404), path
        else:
            assert status == 401 or (path, status) == ("/login", 403), "no form of the server"


async def test_a_client_behind_a_proxy_on_this_host_needs_a_token_on_a_loopback_server() -> None:
    server = Server(loopback=True)
    assert (await server.get("/api/v1/nodes", address="192.0.2.1")).status_code == 401
    assert (await server.get("/api/v1/nodes", address="192.0.2.1", token=SECRETS["read"])).status_code == LET_THROUGH


async def test_a_page_waits_for_the_database_after_a_log_in_with_the_token_of_the_settings() -> None:
    session = "http.bearer_token:99999999:abc"
    for loopback in (False, True):
        page = await Server(loopback=loopback).get("/", cookie=f"{COOKIE}={session}")
        assert page.status_code == 503


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [("GET", "/api/v1/nodes", "read"), ("GET", "/", "read"), ("POST", "/api/v1/intents", "intent")],
)
async def test_a_request_is_let_through_with_its_scope_or_admin_and_no_other(
    method: str, path: str, scope: str
) -> None:
    server = Server()
    for held in Scope:
        answer = await server.request(method, path, token=SECRETS[held])
        assert answer.status_code == (LET_THROUGH if held in (scope, "admin") else 403), held
        assert answer.status_code != 403 or f"the scope {scope}" in answer.text


# A dry run changes nothing.
DRY_RUN = "/foreseen"
REGISTERING = {("POST", "/nodes"), ("POST", "/nodes/{node}/bootstrap")}
STATING = {*((method, "/nodes/{node}/conditions") for method in ("PUT", "DELETE")), ("POST", "/alertmanager")}


async def test_every_change_needs_its_scope_or_admin_and_no_other_is_enough() -> None:
    server = Server(loopback=True)
    changes = [(each.method, each.path) for each in table.OPERATIONS if each.method != "GET" and each.path != DRY_RUN]
    assert set(changes) > REGISTERING | STATING
    scopes = dict.fromkeys(changes, "intent") | dict.fromkeys(REGISTERING, "register")
    scopes |= dict.fromkeys(STATING, "conditions")
    for method, path in changes:
        url = "/api/v1" + path.replace("{", "").replace("}", "")
        assert (await server.request(method, url)).status_code == 401, path
        for held in Scope:
            status = (await server.request(method, url, token=SECRETS[held])).status_code
            expected = LET_THROUGH if held in (scopes[method, path], "admin") else 403
            assert status == expected, (method, path, held)


async def test_a_token_is_refused_from_the_moment_at_which_it_expires() -> None:
    server = Server(a_token("old", "read", expires=NOW), a_token("read", "read", expires=NOW + timedelta(seconds=1)))
    assert (await server.get("/api/v1/nodes", token=SECRETS["read"])).status_code == LET_THROUGH
    expired = await server.get("/api/v1/nodes", token=SECRETS["old"])
    assert expired.status_code == 401
    assert "the token old expired at 2027-01-01" in expired.text


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", SECRETS["read"], f"bearer{SECRETS['read']}"])
async def test_a_header_that_has_no_bearer_token_is_refused_without_repeating_it(header: str) -> None:
    transport = httpx.ASGITransport(app=Server().site.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/api/v1/nodes", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "expected the header Authorization: Bearer TOKEN" in answer.text
    assert "fat_" not in answer.text


def test_only_addresses_of_this_host_count_as_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "farrier.example", "")))


async def test_the_headers_forbid_foreign_content_and_frames_and_over_tls_plain_http() -> None:
    server = Server(loopback=True)
    for path in ("/", "/metrics", "/api/v1/nodes", "/nothing/here"):
        headers = (await server.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in headers
    assert (await server.get("/", scheme="https")).headers["strict-transport-security"].startswith("max-age=")
