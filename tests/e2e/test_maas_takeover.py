"""`farrier run` is killed while it deploys a node, before or after MAAS begins to deploy; another process finishes."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.sim.certificates import Authority
from farrier.sim.maas import ADMIN, Broken, Fault, Region, Status, open_region
from farrier.sim.maas.records import Machine
from tests.support import bmc, pg
from tests.support.onboarded import QUICK, token_of
from tests.support.process import Farrier, replica, until

SITE = """
[maas]
url = "{url}"
key = "env:FARRIER_SECRET_MAAS"
[observe]
events_every = "1s"
[deploy]
hardware_sync = false
[cloud_init]
template_file = "user-data.j2"
"""
# A minute of the region takes one second of the test.
SPEED = 60.0
ONBOARD = """
    INSERT INTO farrier.intents (node, action, params, api_version) VALUES ('gpu-1', 'onboard', '{"mode": "deploy"}', 2)
"""
IS_AT = """
    SELECT status = $1 OR coalesce(stage = $1, false) FROM farrier.node_lifecycle WHERE name = 'gpu-1'
"""
Kill: TypeAlias = Callable[[Region, Farrier], Awaitable[None]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[bmc.FakeBmc]:
    async with bmc.fake_bmc(tmp_path, Authority("farrier test", now=datetime.now(UTC))) as server:
        yield server


async def before(region: Region, daemon: Farrier) -> None:
    """Kill the daemon when the region has received the request to deploy, and has not acted on it."""
    held = region.faults.add(Fault(op="deploy", broken=Broken.HANG))

    async def is_held() -> bool:
        return bool(held.struck)

    await until(is_held)
    daemon.send(signal.SIGKILL)


async def after(region: Region, daemon: Farrier) -> None:
    """Kill the daemon when the region has begun to deploy, and has not responded yet."""

    def kill(machine: Machine, _before: Status) -> None:
        if machine.status is Status.DEPLOYING:
            region.on_move.clear()
            daemon.send(signal.SIGKILL)

    region.on_move.append(kill)


@pytest.mark.full
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kill", [before, after])
async def test_the_successor_of_a_daemon_that_is_killed_during_a_deployment_deploys_once(
    db: pg.Database, tmp_path: Path, server: bmc.FakeBmc, kill: Kill
) -> None:
    region = Region(durations=QUICK)
    settings = {
        "sites_directory": str(tmp_path),
        "secret_maas": ADMIN.key,
        "bmc_ca_file": str(server.ca_file),
        "bmc_allowed_networks": "127.0.0.0/8",
        "credentials_bindings": bmc.BMC_ON_LOOPBACK,
        "secret_bmc": f"{bmc.USERNAME}:{bmc.PASSWORD}",
    }
    (tmp_path / "user-data.j2").write_text("#cloud-config\ntoken: {{ bootstrap_token }}\n")
    async with open_region(region, speed=SPEED) as url, db.connect() as conn:
        (tmp_path / "north.toml").write_text(SITE.format(url=url))
        await conn.execute(
            "SELECT farrier.register_node('gpu-1', bmc_address => $1, bmc_credential => $2, site => 'north', "
            "macs => ARRAY['aa:bb:cc:00:00:01'])",
            server.url,
            bmc.CREDENTIAL,
        )
        await conn.execute(ONBOARD)
        async with replica(db.dsn, **settings) as killed:
            await killed.until("daemon.ready")
            await kill(region, killed)
            assert await killed.ended() == -signal.SIGKILL
        assert await conn.fetchval(IS_AT, "deploy_via_maas")
        async with replica(db.dsn, **settings) as heir:
            await until(lambda: conn.fetchval(IS_AT, "wait_for_agent_enrollment"))
            (machine,) = region.machines.values()
            key = await conn.fetchval("SELECT agent_key FROM farrier.enroll_agent($1)", token_of(machine))
            await conn.execute("SELECT farrier.heartbeat('gpu-1', '{\"ok\": true}', $1)", key)
            await until(lambda: conn.fetchval(IS_AT, "active"))
            heir.send(signal.SIGTERM)
            assert await heir.ended() == 0
        started = [event.description for event in region.events.of(machine.system_id) if event.type == START]
        assert [text.rpartition(" ")[2] for text in started] == ["1"]
        failed = "SELECT count(*) FROM farrier.history WHERE to_value LIKE 'failed%'"
        assert await conn.fetchval(failed) == 0
