"""Tokens over a real database: whose name an intent has, which tokens are refused, and how refusals are limited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
from msgspec.structs import replace

from farrier.config.token_file import ApiToken
from farrier.io.connections.pool import Single
from farrier.model import api_token
from farrier.web.server.access import AT_ONCE, SECONDS_EACH, Access
from tests.support import pg
from tests.support.clock import HandClock
from tests.support.web import backend_on, open_site

BEARER = "s3kr1t"
CI, ADMIN, WRONG = (api_token.token(digit * 64) for digit in "123")
TOKENS = (
    ApiToken(name="ci", sha256=api_token.digest(CI), scopes=("intent",)),
    ApiToken(name="gateway", sha256=api_token.digest(ADMIN), scopes=("admin",)),
)
QUARANTINE = {"node": "gpu-1", "action": "quarantine", "params": {"reason": "smoke"}}
SEGMENT = {
    "kind": "network_segment",
    "resource": "lan",
    "action": "create",
    "params": {"site": "ams", "prefixes": ["10.0.0.0/24"]},
}


async def bearer() -> str:
    return BEARER


class Web:
    """A site with tokens, on a database with one node."""

    def __init__(self, client: httpx.AsyncClient, conn: Single, clock: HandClock, access: Access) -> None:
        self._client = client
        self.conn = conn
        self.clock = clock
        self.access = access

    async def read(self, path: str, authorization: str = "") -> httpx.Response:
        """Read a path, with this header."""
        return await self._client.get(path, headers={"Authorization": authorization} if authorization else {})

    async def submit(self, token: str, requested_by: str | None = None) -> httpx.Response:
        """Submit an intent for the node."""
        return await self._post("/api/v1/intents", QUARANTINE, token, requested_by)

    async def register(self, token: str, name: str) -> httpx.Response:
        """Register a node."""
        return await self._post("/api/v1/nodes", {"name": name}, token, None)

    async def create(self, token: str, requested_by: str | None = None) -> httpx.Response:
        """Submit an intent that creates a network segment."""
        return await self._post("/api/v1/resource-intents", SEGMENT, token, requested_by)

    async def _post(self, path: str, body: dict[str, Any], token: str, requested_by: str | None) -> httpx.Response:
        given = body if requested_by is None else body | {"requested_by": requested_by}
        return await self._client.post(path, json=given, headers={"Authorization": f"Bearer {token}"})

    async def clients(self) -> list[str]:
        """The clients of the stored intents, in order."""
        return [
            row["requested_by"] for row in await self.conn.fetch("SELECT requested_by FROM farrier.intents ORDER BY id")
        ]


@asynccontextmanager
async def opened(db: pg.Database, *, with_bearer: bool = True) -> AsyncIterator[Web]:
    clock = HandClock()
    access = Access(TOKENS, clock=clock)
    async with db.connect() as conn, db.pool(size=1) as connections:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        site = open_site(replace(backend_on(connections, db.dsn), token=bearer if with_bearer else None), access)
        transport = httpx.ASGITransport(app=site.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Web(client, conn, clock, access)


async def test_an_intent_has_the_name_of_the_token_and_only_admin_may_name_another_client(db: pg.Database) -> None:
    async with opened(db) as web:
        assert (await web.submit(CI)).is_success
        assert (await web.submit(CI, "ci")).is_success
        refused = await web.submit(CI, "ann")
        assert refused.status_code == 403
        assert "requested_by must be the name of the token, ci, not 'ann'" in refused.text
        assert (await web.submit(ADMIN, "ann")).is_success
        assert (await web.submit(BEARER)).is_success
        assert (await web.submit(BEARER, "bob")).is_success
        assert await web.clients() == ["ci", "ci", "ann", "http.bearer_token", "bob"]


async def test_an_intent_for_a_resource_has_the_name_of_the_token(db: pg.Database) -> None:
    async with opened(db) as web:
        assert (await web.create(CI, "ann")).status_code == 403
        made = await web.create(CI)
        assert made.is_success, made.text
        assert await web.conn.fetchval("SELECT requested_by FROM farrier.resource_intents") == "ci"


async def test_history_names_the_token_of_the_client_that_creates_something_and_not_the_login(db: pg.Database) -> None:
    async with opened(db) as web:
        await web.conn.execute("DELETE FROM farrier.history")
        for token in (ADMIN, BEARER):
            made = await web.register(token, f"of-{token[-4:]}")
            assert made.is_success, made.text
        assert (await web.create(CI)).is_success
        told = await web.conn.fetch("SELECT DISTINCT requested_by FROM farrier.history ORDER BY 1")
        assert [row["requested_by"] for row in told] == ["ci", "gateway", "http.bearer_token"]


async def test_a_token_that_is_not_in_the_file_is_refused_and_changes_nothing(db: pg.Database) -> None:
    async with opened(db, with_bearer=False) as web:
        assert (await web.submit(WRONG)).status_code == 401
        assert (await web.submit(BEARER)).status_code == 401
        web.access.use(TOKENS[1:])
        assert (await web.submit(CI)).status_code == 401, "the token left the file"
        assert await web.clients() == []


async def test_over_loopback_a_reader_needs_no_token_but_a_wrong_one_is_refused(db: pg.Database) -> None:
    async with opened(db) as web:
        for path in ("/api/v1/nodes", "/", "/nodes/gpu-1"):
            assert (await web.read(path)).is_success
            for token in (CI, ADMIN, BEARER):
                assert (await web.read(path, f"Bearer {token}")).is_success
            for header in (f"Bearer {WRONG}", f"Basic {BEARER}", "Bearer"):
                assert (await web.read(path, header)).status_code == 401, (path, header)
        assert (await web.read("/metrics", f"Bearer {WRONG}")).is_success, "it takes no token"


async def test_refusals_are_limited_and_an_accepted_token_is_not(db: pg.Database) -> None:
    async with opened(db) as web:
        for _ in range(AT_ONCE):
            assert (await web.submit(WRONG)).status_code == 401
        limited = await web.submit(WRONG)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, f"{SECONDS_EACH:.0f}")
        assert "try again in 6 s" in limited.text
        assert (await web.submit(CI)).is_success
        assert (await web.submit(BEARER)).is_success
        web.clock.advance(timedelta(seconds=SECONDS_EACH))
        assert (await web.submit(WRONG)).status_code == 401
        assert await web.clients() == ["ci", "http.bearer_token"]
