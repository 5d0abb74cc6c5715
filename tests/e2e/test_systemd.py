"""What `farrier run` tells systemd, on a socket as systemd's is."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.abc

from farrier.config import Config
from farrier.errors import ExitCode
from tests.support import pg
from tests.support.process import farrier, until

# For longer than the watchdog of the test waits.
BOTH_LANES_HANG = """
    SELECT count(*) >= 2 FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND query_start < now() - interval '0.5 s'
"""
UNIT = Path(__file__).parents[2] / "systemd" / "farrier.service"


async def test_systemd_hears_of_the_start_of_life_and_of_the_end(db: pg.Database, tmp_path: Path) -> None:
    under_systemd = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    async with (
        await anyio.create_unix_datagram_socket(local_path=tmp_path / "notify") as notify,
        farrier("run", "--dsn", db.dsn, "--http-port", "0", environment=under_systemd) as daemon,
    ):
        with anyio.fail_after(30):
            await heard(notify, "READY=1")
            await heard(notify, "WATCHDOG=1")
            await heard(notify, "WATCHDOG=1")
            daemon.send(signal.SIGHUP)
            await heard(notify, "RELOADING=1")
            await heard(notify, "READY=1")
            daemon.send(signal.SIGTERM)
            await heard(notify, "STOPPING=1")
        assert await daemon.ended() == 0


async def test_a_daemon_whose_claims_hang_gives_no_sign_of_life(db: pg.Database, tmp_path: Path) -> None:
    """Then systemd starts it anew. A claim that comes back is enough, whatever it says."""
    under_systemd = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    async with (
        await anyio.create_unix_datagram_socket(local_path=tmp_path / "notify") as notify,
        farrier("run", "--dsn", db.dsn, "--http-port", "0", environment=under_systemd) as daemon,
        db.connect() as blocker,
        db.connect() as watcher,
    ):
        await daemon.until("daemon.ready")
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE farrier.schedule IN ACCESS EXCLUSIVE MODE")
            await until(lambda: watcher.fetchval(BOTH_LANES_HANG))
            while await comes(notify, "WATCHDOG=1", within=0.05):
                pass  # sent before they hung
            assert not await comes(notify, "WATCHDOG=1", within=0.6)
        assert await comes(notify, "WATCHDOG=1", within=30)


async def comes(notify: anyio.abc.UNIXDatagramSocket, message: str, *, within: float) -> bool:
    """Whether the message is there, or comes in so many seconds."""
    with anyio.move_on_after(within) as patience:
        await heard(notify, message)
    return not patience.cancelled_caught


async def heard(notify: anyio.abc.UNIXDatagramSocket, message: str) -> None:
    """Read until this message comes."""
    while True:
        said, _ = await notify.receive()
        if said.decode().partition("\n")[0] == message:
            return


def test_the_unit_gives_start_drain_and_watchdog_the_time_that_the_defaults_take() -> None:
    unit = UNIT.read_text()
    config = Config()
    assert seconds(unit, "TimeoutStartSec") > config.database.db_timeout
    assert seconds(unit, "TimeoutStopSec") > config.controller.drain_timeout + config.controller.lease
    assert seconds(unit, "WatchdogSec") > 2 * config.controller.lease
    refused = {str(code.value) for code in (ExitCode.USAGE, ExitCode.SCHEMA_TOO_NEW)}
    assert set(setting(unit, "RestartPreventExitStatus").split()) == refused


def setting(unit: str, name: str) -> str:
    (value,) = (line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{name}="))
    return value


def seconds(unit: str, name: str) -> timedelta:
    return timedelta(seconds=int(setting(unit, name)))
