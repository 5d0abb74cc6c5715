"""A daemon that is killed leaves its sessions at BMCs open; its successor closes these sessions, and no others."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farrier.sim.certificates import Authority
from tests.support import bmc, pg
from tests.support.process import replica, until


@pytest.mark.full
@pytest.mark.timeout(120)
async def test_the_successor_of_a_killed_daemon_closes_the_session_that_it_left(
    db: pg.Database, tmp_path: Path
) -> None:
    authority = Authority("farrier test", now=datetime.now(UTC))
    async with bmc.fake_bmc(tmp_path, authority) as server, db.connect() as conn:
        settings = {
            "bmc_ca_file": str(server.ca_file),
            "bmc_allowed_networks": "127.0.0.0/8",
            "bmc_auth": "session",
            "bmc_session_directory": str(tmp_path / "sessions"),
            "credentials_bindings": bmc.BMC_ON_LOOPBACK,
            "secret_bmc": f"{bmc.USERNAME}:{bmc.PASSWORD}",
        }

        async def is_manageable() -> bool:
            return bool(await conn.fetchval("SELECT management = 'manageable' FROM farrier.nodes WHERE id = 1"))

        async def is_closed() -> bool:
            return left not in server.sessions

        async with replica(db.dsn, **settings) as killed:
            await conn.execute(
                "SELECT farrier.register_node('gpu-1', bmc_address => $1, bmc_credential => $2)",
                server.url,
                bmc.CREDENTIAL,
            )
            await conn.execute("SELECT farrier.enqueue('node', 1)")
            await until(is_manageable)
            killed.send(signal.SIGKILL)
            assert await killed.ended() == -signal.SIGKILL
        (left,) = server.sessions
        server.sessions.add("another's")
        await db.advance(timedelta(minutes=3))  # a read is due
        async with replica(db.dsn, **settings) as heir:
            await until(is_closed)
            heir.send(signal.SIGTERM)
            assert await heir.ended() == 0
        assert server.sessions == {"another's"}
