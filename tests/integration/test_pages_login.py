"""A browser logs in with a token: pages then read and act with it, and the API does not accept its cookie."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import httpx
import pytest

from farrier.config.token_file import ApiToken
from farrier.io.connections.pool import Connection
from farrier.model import api_token
from farrier.web.server.access import AT_ONCE, Access
from farrier.web.server.backend import Backend
from farrier.web.server.sessions import LIFETIME
from tests.integration.test_pages_actions import choices, hidden
from tests.support.clock import HandClock
from tests.support.web import TOKEN, client_of, open_site, register

OPERATOR, VIEWER = (api_token.token(digit * 64) for digit in "12")
TOKENS = (
    ApiToken(name="ann", sha256=api_token.digest(OPERATOR), scopes=("read", "intent")),
    ApiToken(name="tv", sha256=api_token.digest(VIEWER), scopes=("read",)),
)


@pytest.fixture
async def web(backend: Backend) -> AsyncIterator[httpx.AsyncClient]:
    """A site that is reachable from other machines."""
    access = Access(TOKENS, loopback=False)
    site = open_site(backend, access)
    async with client_of(site) as client:
        yield client


async def log_in(web: httpx.AsyncClient, token: str, path: str = "/login") -> httpx.Response:
    form = await web.get(path)
    return await web.post(path, data=hidden(form.text) | {"token": token})


async def test_pages_need_a_token_beyond_loopback_and_lead_to_the_log_in(web: httpx.AsyncClient) -> None:
    refused = await web.get("/")
    assert refused.status_code == 401
    assert "log in at /login" in refused.text and 'href="/login"' in refused.text
    entered = await log_in(web, VIEWER)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert (await web.get("/")).status_code == 200
    assert "tv" in (await web.get("/login")).text


async def test_the_log_in_returns_to_the_page_that_asked_for_it(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    for page in ("/nodes/gpu-1", "/?site=ams&label=row%3D1", "/history?resource=node/gpu-1"):
        refused = await web.get(page)
        (link,) = set(re.findall(r'href="(/login\?next=[^"]*)"', refused.text))
        entered = await log_in(web, VIEWER, html.unescape(link))
        assert (entered.status_code, entered.headers["location"]) == (303, page)
        assert (await web.get(entered.headers["location"])).status_code == 200
        web.cookies.clear()


async def test_each_page_that_is_read_without_a_token_leads_to_a_log_in_that_returns_to_it(
    backend: Backend, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    site = open_site(backend, Access(TOKENS))
    async with client_of(site) as web:
        for path, leads_to in (("/nodes/gpu-1", "/login?next=%2Fnodes%2Fgpu-1"), ("/", "/login")):
            assert f'href="{leads_to}"' in (await web.get(path)).text
        entered = await log_in(web, OPERATOR, "/login?next=%2Fnodes%2Fgpu-1")
        assert "quarantine" in choices((await web.get(entered.headers["location"])).text)


@pytest.mark.parametrize(
    "foreign",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "evil.example",
        "/\t/evil.example",
        "\t//evil.example",
        " //evil.example",
        "/\r\nLocation: https://evil.example",
        "/nodes\\..\\evil",
        "/n\x00",
        "/nöde",
        "",
    ],
)
async def test_the_log_in_leads_to_no_other_server(web: httpx.AsyncClient, foreign: str) -> None:
    entered = await log_in(web, VIEWER, f"/login?{urlencode({'next': foreign})}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")


async def test_a_browser_is_offered_what_its_token_may_do_and_acts_in_its_name(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await log_in(web, VIEWER)
    assert not choices((await web.get("/nodes/gpu-1")).text)
    assert (await web.get("/nodes/gpu-1/act/quarantine")).status_code == 403
    await log_in(web, OPERATOR)
    assert "quarantine" in choices((await web.get("/nodes/gpu-1")).text)
    form = await web.get("/nodes/gpu-1/act/quarantine")
    await web.post("/nodes/gpu-1/act/quarantine", data=hidden(form.text) | {"reason": "smoke"})
    assert await conn.fetchval("SELECT requested_by FROM farrier.intents") == "ann"


async def test_each_page_names_the_token_with_which_the_browser_is_logged_in(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await log_in(web, OPERATOR)
    for path in ("/", "/nodes/gpu-1", "/history", "/nodes/nosuch", "/login"):
        assert "Log out (ann)" in (await web.get(path)).text, path
    form = await web.get("/login")
    await web.post("/login", data=hidden(form.text) | {"leave": "1"})
    assert "Log out" not in (await web.get("/")).text


async def test_the_api_ignores_the_cookie_of_a_browser(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    await log_in(web, OPERATOR)
    assert (await web.get("/api/v1/nodes")).status_code == 401
    body = {"node": "gpu-1", "action": "manage"}
    assert (await web.post("/api/v1/intents", json=body)).status_code == 401
    assert await conn.fetchval("SELECT count(*) FROM farrier.intents") == 0


async def test_a_browser_that_logs_out_has_no_token_any_more(web: httpx.AsyncClient) -> None:
    await log_in(web, OPERATOR)
    form = await web.get("/login")
    left = await web.post("/login", data=hidden(form.text) | {"leave": "1"})
    assert left.headers["location"] == "/login"
    assert (await web.get("/")).status_code == 401


async def test_a_wrong_token_is_refused_and_guessing_is_slowed(web: httpx.AsyncClient) -> None:
    statuses = [(await log_in(web, "guess")).status_code for _ in range(AT_ONCE + 1)]
    assert statuses == [401] * AT_ONCE + [429]
    page = await log_in(web, "guess")
    assert re.search(r'role="alert">[^<]*try again in \d+ s', page.text)
    assert "farrier-session" not in web.cookies
    assert (await log_in(web, OPERATOR)).status_code == 303


async def test_another_site_cannot_log_a_browser_in(web: httpx.AsyncClient) -> None:
    assert (await web.post("/login", data={"token": OPERATOR})).status_code == 403
    assert "farrier-session" not in web.cookies


async def test_a_session_is_not_the_token_and_ends_with_it(backend: Backend) -> None:
    clock = HandClock()
    access = Access(TOKENS, loopback=False, clock=clock)
    site = open_site(backend, access)
    async with client_of(site) as web:
        for token in (OPERATOR, TOKEN):
            assert (await log_in(web, token)).status_code == 303
            assert token not in web.cookies["farrier-session"]
            assert (await web.get("/")).status_code == 200
        clock.advance(LIFETIME)
        assert (await web.get("/")).status_code == 401
        await log_in(web, OPERATOR)
        access.use(TOKENS[1:])
        assert (await web.get("/")).status_code == 401, "the token left the file"
