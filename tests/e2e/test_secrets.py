"""No secret leaks, although each service that the daemon calls repeats the secrets in its responses.

A real daemon runs with BMCs, a MAAS region and a Vault. The tests search its log, its metrics, its API and pages, and
every row of its database for secrets.
"""

from __future__ import annotations

import base64
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec
import pytest

from farrier.sim.certificates import Authority
from tests.support import bmc, pg, vault
from tests.support.process import PATIENCE, Farrier, farrier, until
from tests.support.sockets import Peer, talking
from tools import log_events

DSN, API, STRANGER = "pl4nted-dsn", "pl4nted-api-of-daemon", "pl4nted-api-wrong"
FILE, WRONG, VAULTED = "pl4nted-bmc-file", "pl4nted-bmc-refused", "pl4nted-bmc-vault"
VAULT, MAAS = "hvs.pl4nted-vault", "pl4ntedmaas"
SECRETS = (DSN, API, STRANGER, FILE, WRONG, VAULTED, VAULT, MAAS)

# Secrets that clients put where none belongs. They remain there, and appear nowhere else.
LABEL, MISPLACED, PARAM = "pl4nted-label", "pl4nted-as-reference", "pl4nted-as-param"
MISLAID = (LABEL, MISPLACED, PARAM)


class Bystander(msgspec.Struct, frozen=True):
    """A region that fulfils no request, and repeats every byte of it in its response."""

    url: str
    heard: list[bytes]


@asynccontextmanager
async def echo() -> AsyncIterator[Bystander]:
    """Run a `Bystander` on a free port of 127.0.0.1. It responds with refusals, failures, and bodies unlike MAAS's."""
    statuses = cycle(["500 Internal Server Error", "401 Unauthorized", "200 OK", "403 Forbidden", "409 Conflict"])

    async def answer(peer: Peer) -> None:
        request = await peer.request()
        reason = quote(request.decode()).encode()
        head = f"HTTP/1.1 {next(statuses)}\r\nConnection: close\r\nX-Heard: ".encode() + reason
        await peer.say(head + f"\r\nContent-Length: {len(request)}\r\n\r\n".encode() + request)

    async with talking(answer) as (port, heard):
        yield Bystander(f"http://127.0.0.1:{port}/MAAS", heard)


PLACES = (("/nodes/", ""), ("/api/v1/nodes/", ""), ("/api/v1/nodes/", "/history"))


class World(msgspec.Struct, frozen=True):
    """A daemon and a server of pages, the services that repeat their secrets, and the token and key that an agent was
    given (`handed_out`)."""

    daemon: Farrier
    server: Farrier
    db: pg.Database
    bmcs: list[bmc.FakeBmc]
    store: vault.FakeVault
    region: Bystander
    handed_out: list[str]

    async def is_worked_through(self) -> bool:
        """Whether every secret was sent, and every intent answered."""
        if not all(server.logins for server in self.bmcs) or not self.store.requests or len(self.region.heard) <= 2:
            return False
        async with self.db.connect() as conn:
            failed = await conn.fetchval("SELECT count(*) > 2 FROM farrier.nodes WHERE bmc->>'failure' IS NOT NULL")
            answered = await conn.fetchval("SELECT bool_and(status <> 'pending') FROM farrier.intents")
            return bool(failed and answered)

    async def rows(self) -> dict[str, str]:
        """Every row of every table, as text."""
        async with self.db.connect() as conn:
            names = "SELECT tablename FROM pg_tables WHERE schemaname = 'farrier'"
            tables = [str(row["tablename"]) for row in await conn.fetch(names)]
            return {
                table: str(await conn.fetchval(f"SELECT string_agg(t::text, chr(10)) FROM farrier.{table} t"))
                for table in tables
            }

    async def served(self) -> dict[str, str]:
        """The server's pages and API responses, by path."""
        names = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        each = [f"{place}{name}{more}" for name in names for place, more in PLACES]
        return {path: (await self.server.get(path)).text for path in ["/", "/api/v1/nodes", "/readyz", *each]}


def settings(directory: Path, ca_file: Path, store: vault.FakeVault, region: Bystander) -> Path:
    """Settings in which everything that may have a secret has one."""
    sites = directory / "sites"
    sites.mkdir()
    secrets = {
        "answered": f"{bmc.USERNAME}\n{FILE}",
        "refused": f"{bmc.USERNAME}\n{WRONG}",
        "vault": VAULT,
        "maas": f"{MAAS}:{MAAS}:{MAAS}",
        "api": API,
    }
    for name, text in secrets.items():
        (directory / name).write_text(text)
    (sites / "ams1.toml").write_text(f'[maas]\nurl = "{region.url}"\nkey = "file:{directory}/maas"\n')
    file = directory / "farrier.toml"
    file.write_text(f"""
        [credentials]
        file_roots = ["{directory}"]
        [[credentials.bindings]]
        references = ["file:{directory}/*", "vault:farrier/*/*", "env:*"]
        networks = ["127.0.0.0/8"]
        [bmc]
        ca_file = "{ca_file}"
        allowed_networks = ["127.0.0.0/8"]
        [vault]
        address = "{store.address}"
        token = "file:{directory}/vault"
        ca_file = "{store.ca_file}"
        [sites]
        directory = "{sites}"
        [metrics]
        port = 0
        [http]
        port = 0
        bearer_token = "file:{directory}/api"
        [log]
        level = "debug"
    """)
    return file


@pytest.fixture
async def world(db: pg.Database, tmp_path: Path) -> AsyncIterator[World]:
    authority = Authority("farrier test", now=datetime.now(UTC))
    dsn = db.dsn.replace("//postgres@", f"//postgres:{DSN}@")
    assert DSN in dsn
    async with AsyncExitStack() as open_:
        bmcs = []
        for number in range(3):
            (tmp_path / str(number)).mkdir()
            bmcs.append(await open_.enter_async_context(bmc.fake_bmc(tmp_path / str(number), authority)))
        store = await open_.enter_async_context(vault.fake_vault(tmp_path, authority))
        region = await open_.enter_async_context(echo())
        file = settings(tmp_path, store.ca_file, store, region)
        store.tokens.add(VAULT)
        store.put("farrier/bmc/1", username=bmc.USERNAME, password=VAULTED)
        command = farrier("run", "--config", str(file), environment={"FARRIER_DATABASE_DSN": dsn})
        daemon = await open_.enter_async_context(command)
        await daemon.until("daemon.ready")
        command = farrier("serve", "--config", str(file), environment={"FARRIER_DATABASE_DSN": dsn})
        server = await open_.enter_async_context(command)
        await server.until("server.ready")
        known = World(daemon, server, db, bmcs, store, region, [])
        await register(known, tmp_path)
        yield known


async def register(world: World, directory: Path) -> None:
    """Register nodes with references to files, Vault and the environment, enrol an agent, and submit intents."""
    world.bmcs[0].password, world.bmcs[2].password = FILE, VAULTED
    # farrier quotes the message of a BMC, and a BMC may repeat what farrier sent to it.
    for server, sent in zip(world.bmcs, (FILE, WRONG, VAULTED), strict=True):
        said = f"{sent} {spelled(sent)}"
        server.answer(bmc.SYSTEM, bmc.Page(500, f'{{"error": {{"message": "{said}"}}}}'.encode()))
    references = [f"file:{directory}/answered", f"file:{directory}/refused", "vault:farrier/bmc/1", "env:NONE"]
    addresses = [*(server.url for server in world.bmcs), "https://127.0.0.1:1"]
    statement = """
        SELECT farrier.register_node($1, bmc_address => $2, bmc_credential => $3, site => 'ams1',
                                     labels => jsonb_build_object('api_password', $4::text))
    """
    async with world.db.connect() as conn:
        async with conn.transaction():
            for number, (reference, address) in enumerate(zip(references, addresses, strict=True)):
                await conn.execute(statement, f"gpu-{number}", address, reference, LABEL)
            # An UPDATE by hand, which the checks of `register_node` do not see.
            await conn.execute("UPDATE farrier.nodes SET bmc_credential = $1 WHERE name = 'gpu-3'", MISPLACED)
        token = await conn.fetchval("SELECT farrier.issue_bootstrap('gpu-0')")
        key = await conn.fetchval("SELECT agent_key FROM farrier.enroll_agent($1, '{}')", token)
        await conn.execute("""SELECT farrier.heartbeat('gpu-0', '{"ok": true, "alerts": []}', $1)""", key)
        await conn.execute("SELECT farrier.enqueue('node', id) FROM farrier.nodes")
        ask = "SELECT farrier.intent($1, $2, $3::jsonb)"
        await conn.execute(ask, "gpu-3", "onboard", '{"mode": "deploy"}')
        with pytest.raises(pg.PostgresError) as refused:
            await conn.execute(ask, "gpu-3", "set_bmc", f'{{"credential": "{PARAM}"}}')
        assert PARAM not in str(refused.value)
        await conn.execute(ask, "gpu-0", "release", "{}")
    world.handed_out.extend([str(token), str(key)])


def spelled(password: str) -> str:
    """User and password as basic authentication encodes them."""
    return base64.b64encode(f"{bmc.USERNAME}:{password}".encode()).decode()


async def test_no_secret_is_in_the_log_the_metrics_the_api_or_the_database(world: World) -> None:
    await world.daemon.until("request.failed")
    await until(world.is_worked_through)
    url = (await world.server.until("http.listening"))["url"]
    async with httpx.AsyncClient(
        base_url=url, headers={"Farrier-Api-Version": "2"}, trust_env=False, timeout=PATIENCE
    ) as client:
        body = {"node": "gpu-0", "action": "pause", "params": {"reason": "to look at it"}}
        for token, statuses in ((STRANGER, (401,)), (API, (200, 202))):
            asked = await client.post("/api/v1/intents", json=body, headers={"Authorization": f"Bearer {token}"})
            assert asked.status_code in statuses, asked.text
    served = await world.served()
    metrics = (await world.daemon.get("/metrics")).text
    for process in (world.daemon, world.server):
        process.send(signal.SIGHUP)
        await process.until("config.reloaded")
        process.send(signal.SIGTERM)
        assert await process.ended() == 0

    secrets = [*SECRETS, spelled(FILE), spelled(WRONG), spelled(VAULTED), *world.handed_out]
    assert {"intent.answered", "state.moved", "request.failed"} <= set(world.daemon.names)
    said = {
        "log": world.daemon.logged,
        "output": world.daemon.printed,
        "log of the server": world.server.logged,
        "output of the server": world.server.printed,
        "metrics": metrics,
    }
    for place, text in said.items():
        assert not [secret for secret in (*secrets, *MISLAID) if secret in text], place
    for place, text in (served | await world.rows()).items():
        assert not [secret for secret in secrets if secret in text], place


@pytest.mark.full
async def test_every_log_event_is_listed_for_operators(world: World) -> None:
    await until(world.is_worked_through)
    world.daemon.send(signal.SIGTERM)
    assert await world.daemon.ended() == 0
    known = {
        event.name: {*event.keys, "event", "level", "timestamp", "repeated", "kind", "id", "name"}
        for event in log_events.events()
    }
    world.server.send(signal.SIGTERM)
    assert await world.server.ended() == 0
    # A server adds its own name to each of its lines.
    of_server = [{key: value for key, value in line.items() if key != "server"} for line in world.server.events]
    ours = [line for line in (*world.daemon.events, *of_server) if "logger" not in line]
    assert not [line for line in ours if not set(line) <= known.get(line["event"], set())]
