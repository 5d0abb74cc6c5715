"""A server of `farrier serve`: what it serves with its own login, and when it is ready."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from datetime import timedelta
from hashlib import sha256
from uuid import uuid4

import anyio
import httpx
import pytest
from msgspec.structs import replace

from farrier.config import Config, DatabaseConfig
from farrier.errors import ConfigError, SchemaMissing
from farrier.model.loop.doors import DoorKind
from farrier.server import Server
from tests.support import again, logins, pg, served
from tests.support import site as sites
from tests.support.door import registered

BRISK = Config(database=DatabaseConfig(db_timeout=timedelta(seconds=1)))
every_kind = pytest.mark.parametrize("kind", DoorKind)


async def ready(url: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=pg.PATIENCE.total_seconds()) as client:
        return await client.get("/readyz")


@every_kind
async def test_a_server_is_ready_with_the_rights_of_its_own_login(db: pg.Database, kind: DoorKind) -> None:
    async with served.server(db, BRISK, kind) as url:
        assert (await ready(url)).text == "ready\n"


async def test_the_pages_and_the_api_need_no_other_right(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
    async with served.server(db, BRISK) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for path in ("/", "/nodes/gpu-1", "/history", "/controllers", "/monitors", "/resources", "/api/v1/nodes"):
            assert (await client.get(path)).status_code == 200, path
        assert "farrier_build_info" in (await client.get("/metrics")).text


async def test_the_server_of_the_agents_serves_no_page_and_no_api_of_people(db: pg.Database) -> None:
    async with (
        served.server(db, BRISK, DoorKind.AGENTS) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        for path in ("/", "/nodes/gpu-1", "/api/v1/nodes", "/api/v1/intents", "/login"):
            assert (await client.get(path)).status_code == 404, path


async def test_the_server_of_the_agents_enrols_an_agent_and_takes_its_heartbeat(db: pg.Database) -> None:
    async with sites.opened(db) as site:
        _, token = await registered(site)
    key = f"fak_{secrets.token_hex(32)}"
    boot = str(uuid4())
    enrolment = {"token": token, "key_digest": sha256(key.encode()).hexdigest(), "version": "0.1.0", "boot_id": boot}
    async with (
        served.server(db, BRISK, DoorKind.AGENTS) as url,
        httpx.AsyncClient(base_url=f"{url}/agent/v1", trust_env=False, timeout=pg.PATIENCE.total_seconds()) as agent,
    ):
        assert (await agent.post("/enroll", json=enrolment)).status_code == 200
        headers = {"Authorization": f"Bearer {key}"}
        assert (await agent.post("/heartbeat", json={"boot_id": boot}, headers=headers)).status_code == 200
        async with db.connect() as conn:
            assert await conn.fetchval("SELECT bool_and(by_door) FROM farrier.node_agents")
            listed = await conn.fetchval("SELECT array_agg(kind) FROM farrier.doors")
    assert listed == ["agents"]


async def test_metrics_of_the_server_of_the_agents_are_only_for_this_machine(db: pg.Database) -> None:
    async with (
        served.server(db, BRISK, DoorKind.AGENTS) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.7"})).status_code == 403
        assert (await client.get("/readyz", headers={"X-Forwarded-For": "192.0.2.7"})).status_code == 200


@every_kind
async def test_connections_that_send_nothing_keep_nobody_out(db: pg.Database, kind: DoorKind) -> None:
    async with served.server(db, BRISK, kind) as url, AsyncExitStack() as idle:
        for _ in range(600):
            await idle.enter_async_context(await anyio.connect_tcp("127.0.0.1", httpx.URL(url).port or 0))
        assert (await ready(url)).text == "ready\n"


@every_kind
async def test_a_server_is_not_ready_with_a_schema_that_it_does_not_know(db: pg.Database, kind: DoorKind) -> None:
    async with served.server(db, BRISK, kind) as url:
        async with db.connect() as conn:
            await conn.execute("INSERT INTO farrier.schema_steps (version, name, checksum) VALUES (99, 'later', '')")
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            while (answer := await ready(url)).status_code == 200:
                await again.later()
    assert answer.text == "not ready: the schema has version 99, and this release knows version 1\n"


async def test_a_server_of_the_agents_starts_before_the_schema_and_is_not_ready(empty_db: pg.Database) -> None:
    async with served.server(empty_db, BRISK, DoorKind.AGENTS) as url:
        assert (await ready(url)).text == "not ready: the schema has version 0, and this release knows version 1\n"


async def test_a_server_of_the_pages_does_not_start_without_the_schema(empty_db: pg.Database) -> None:
    dsn = await logins.dsn_of(empty_db, *logins.ROLES[DoorKind.PAGES])
    config = replace(BRISK, database=DatabaseConfig(dsn=dsn), http=replace(BRISK.http, port=0))
    with pytest.raises(BaseExceptionGroup) as refused:
        await Server(config, anyio.Event()).run()
    assert refused.group_contains(SchemaMissing)


async def test_a_server_without_a_database_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"set database\.dsn"):
        await Server(Config(), anyio.Event()).run()
