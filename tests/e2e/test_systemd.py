"""What `farrier run` reports to systemd, on a socket like the one that systemd provides."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import TaskStatus

from farrier.errors import ExitCode
from tests.support import pg, proxy
from tests.support.process import PATIENCE, until
from tests.support.supervised import SERVE, supervised

HANGS = """
    SELECT count(*) >= 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
NO_RENEWAL = "LOCK TABLE farrier.controllers IN ACCESS EXCLUSIVE MODE"
NOWHERE = "postgresql://postgres@127.0.0.1:1/farrier"


async def test_systemd_is_notified_of_start_watchdog_and_stop(db: pg.Database, tmp_path: Path) -> None:
    async with supervised(tmp_path, "--dsn", db.dsn) as systemd:
        await systemd.hears("READY=1")
        await systemd.hears("WATCHDOG=1")
        await systemd.hears("WATCHDOG=1")
        systemd.daemon.send(signal.SIGTERM)
        await systemd.hears("STOPPING=1")
        assert await systemd.daemon.ended() == 0
        assert systemd.heard.count("READY=1") == 1


async def test_a_reload_is_begun_with_the_time_and_ended_with_ready(db: pg.Database, tmp_path: Path) -> None:
    async with supervised(tmp_path, "--dsn", db.dsn) as systemd:
        await systemd.hears("READY=1")
        before = time.monotonic_ns() // 1000
        systemd.daemon.send(signal.SIGHUP)
        begun = await systemd.hears("RELOADING=1")
        await systemd.hears("READY=1")
        stamp = begun.split("\n")[1].removeprefix("MONOTONIC_USEC=")
        assert before <= int(stamp) <= time.monotonic_ns() // 1000


async def test_without_a_database_the_daemon_is_never_ready(tmp_path: Path) -> None:
    async with supervised(tmp_path, "--dsn", NOWHERE, "--db-timeout", "1s") as systemd:
        await systemd.hears("STATUS=waiting for the database")
        assert await systemd.daemon.ended() == ExitCode.DATABASE_UNREACHABLE
        assert "READY=1" not in await systemd.reads_what_is_there()


async def test_with_an_unsuitable_schema_the_daemon_is_never_ready(empty_db: pg.Database, tmp_path: Path) -> None:
    async with supervised(tmp_path, "--dsn", empty_db.dsn) as systemd:
        assert await systemd.daemon.ended() == ExitCode.FAILED
        assert "READY=1" not in await systemd.reads_what_is_there()


async def test_a_daemon_is_not_ready_before_it_has_joined(db: pg.Database, tmp_path: Path) -> None:
    async with (
        supervised(tmp_path, "--dsn", db.dsn) as systemd,
        db.connect() as blocker,
        db.connect() as watcher,
    ):
        async with blocker.transaction():
            await blocker.execute(NO_RENEWAL)
            await systemd.daemon.until("schema.current")
            await until(lambda: watcher.fetchval(HANGS))
            assert "READY=1" not in await systemd.reads_what_is_there()
        await systemd.hears("READY=1")


@pytest.mark.full
async def test_a_daemon_whose_renewals_hang_gives_them_up_and_notifies_systemd(db: pg.Database, tmp_path: Path) -> None:
    """The event loop is alive, so the daemon feeds the watchdog: a restart would change nothing."""
    async with supervised(tmp_path, "--dsn", db.dsn, watchdog="9") as systemd, db.connect() as blocker:
        await systemd.daemon.until("daemon.ready")
        async with blocker.transaction():
            await blocker.execute(NO_RENEWAL)
            while not any("the database has committed no renewal for" in said for said in systemd.heard):
                await systemd.hears("WATCHDOG=1")
            await systemd.hears("WATCHDOG=1")
        await systemd.hears("STATUS=at work")


async def test_a_daemon_without_a_database_feeds_the_watchdog(db: pg.Database, tmp_path: Path) -> None:
    """A restart would not bring the database back, so the daemon feeds the watchdog and reports its status."""
    gone = anyio.Event()
    async with anyio.create_task_group() as network:
        dsn = await network.start(reachable_until, gone, db.dsn)
        async with supervised(tmp_path, "--dsn", dsn, watchdog="9") as systemd:
            await systemd.hears("READY=1")
            gone.set()
            await systemd.daemon.until("renew.failed")
            while not any("the database has committed no renewal for" in said for said in systemd.heard):
                await systemd.hears("WATCHDOG=1")
            await systemd.hears("WATCHDOG=1")


async def test_the_status_line_follows_the_state_however_rarely_the_watchdog_is_fed(
    db: pg.Database, tmp_path: Path
) -> None:
    gone = anyio.Event()
    async with anyio.create_task_group() as network:
        dsn = await network.start(reachable_until, gone, db.dsn)
        async with supervised(tmp_path, "--dsn", dsn, watchdog="3600") as systemd:
            await systemd.hears("READY=1")
            assert systemd.shown == "at work"
            gone.set()
            await systemd.shows("at work, but the last renewal failed: ")
            await systemd.shows("the database has committed no renewal for ")
            systemd.daemon.send(signal.SIGTERM)
            await systemd.shows("stopping: ")


async def test_the_status_line_goes_on_while_postgresql_does_not_respond_at_all(
    db: pg.Database, tmp_path: Path
) -> None:
    """Connections stay open, and no packet arrives. The beats of the watchdog, every 2 s, are the measure of time."""
    async with proxy.before(db.dsn) as between, supervised(tmp_path, "--dsn", between.dsn, watchdog="6") as systemd:
        await systemd.hears("READY=1")
        assert systemd.shown == "at work"
        between.drop()
        await systemd.shows("the database has committed no renewal for ")
        await systemd.hears("WATCHDOG=1")
        for _ in range(4):
            before = systemd.shown
            await systemd.hears("WATCHDOG=1")
            assert systemd.shown.startswith("the database has committed no renewal for ")
            assert systemd.shown != before, "the line of the previous beat"
        systemd.daemon.send(signal.SIGTERM)
        await systemd.shows("stopping: ")


async def reachable_until(gone: anyio.Event, dsn: str, *, task_status: TaskStatus[str]) -> None:
    """Run a proxy to the database until the event `gone`; `task_status` reports the DSN that leads through it."""
    async with proxy.before(dsn) as between:
        task_status.started(between.dsn)
        await gone.wait()


async def test_the_unit_s_credentials_hold_the_dsn_and_the_token(db: pg.Database, tmp_path: Path) -> None:
    """The credentials lie as LoadCredential= stores them: one file each, readable only by the service's user."""
    credentials = tmp_path / "credentials"
    credentials.mkdir(mode=0o700)
    for name, content in {"dsn": f"{db.dsn}\n", "api-token": "t0ken-of-the-api\n"}.items():
        (credentials / name).write_text(content)
        (credentials / name).chmod(0o400)
    (tmp_path / "farrier.toml").write_text(
        '[database]\ndsn = "systemd:dsn"\n[http]\nbearer_token = "systemd:api-token"\n'
    )
    settings = ("--config", str(tmp_path / "farrier.toml"))
    async with supervised(tmp_path, *settings, command=SERVE, CREDENTIALS_DIRECTORY=str(credentials)) as systemd:
        await systemd.hears("READY=1")
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            url = f"{(await systemd.daemon.until('http.listening'))['url']}/api/v1/intents"
            request = {"node": "gpu-1", "action": "drain"}
            unknown = await client.post(url, json=request, headers={"Authorization": "Bearer wrong"})
            known = await client.post(url, json=request, headers={"Authorization": "Bearer t0ken-of-the-api"})
        assert (unknown.status_code, known.status_code) == (401, 404)
        assert "t0ken-of-the-api" not in systemd.daemon.logged


async def test_a_dsn_in_a_credential_that_the_unit_lacks_ends_the_start_for_good(tmp_path: Path) -> None:
    async with supervised(tmp_path, "--dsn", "systemd:dsn") as systemd:
        assert await systemd.daemon.ended() == ExitCode.USAGE
        failed = await systemd.daemon.until("process.failed")
        assert failed["error"].startswith("database.dsn: credential systemd:dsn: CREDENTIALS_DIRECTORY is not set")
