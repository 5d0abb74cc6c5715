"""What keeps `farrier run` from starting, each cause with its exit code and its message."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from tests.support import pg
from tests.support.process import farrier, replica

NOWHERE = "postgresql://postgres:s3kr1t@127.0.0.1:1/farrier"


async def test_an_unknown_setting_is_named_with_the_nearest_known_setting(tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text("[controller]\nperoid = 30\n")
    async with farrier("run", "--config", str(file)) as daemon:
        assert await daemon.ended() == 2
    assert "unknown key 'peroid'" in daemon.logged
    assert "did you mean 'period'" in daemon.logged
    assert "Traceback" not in daemon.logged


async def test_a_dsn_that_cannot_be_read_is_refused_without_showing_it() -> None:
    async with farrier("run", "--dsn", "postgresql://me:s3kr1t@host:port/farrier") as daemon:
        assert await daemon.ended() == 2
    assert (await daemon.until("process.failed"))["label"] == "config"
    assert "s3kr1t" not in daemon.logged


async def test_a_missing_database_is_waited_for_and_then_given_up() -> None:
    async with replica(NOWHERE, database_db_timeout="1") as daemon:
        await daemon.until("database.unreachable")
        ready = await daemon.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "not ready: waiting for the database\n")
        assert await daemon.ended() == 4
    assert "daemon.ready" not in daemon.names
    assert "s3kr1t" not in daemon.logged


async def test_a_start_that_waits_for_the_database_ends_with_the_first_signal() -> None:
    async with replica(NOWHERE) as daemon:
        await daemon.until("database.unreachable")
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0


async def test_a_schema_newer_than_the_program_is_not_changed(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("INSERT INTO farrier.schema_steps (version, name, checksum) VALUES (999, 'future', 'x')")
    async with replica(db.dsn) as daemon:
        assert await daemon.ended() == 5
    assert "upgrade farrier" in (await daemon.until("process.failed"))["error"]


async def test_an_operator_s_database_is_not_migrated_by_the_daemon(empty_db: pg.Database) -> None:
    async with replica(empty_db.dsn) as daemon:
        assert await daemon.ended() == 1
    assert "farrier db migrate" in (await daemon.until("process.failed"))["error"]
    async with empty_db.connect() as conn:
        assert await conn.fetchval("SELECT to_regnamespace('farrier') IS NULL")


async def test_a_port_in_use_is_reported_before_the_start(db: pg.Database) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with farrier("run", "--dsn", db.dsn, "--metrics-port", port) as daemon:
            assert await daemon.ended() == 2
    assert f"cannot listen on 127.0.0.1:{port}" in (await daemon.until("process.failed"))["error"]
    assert "database.reached" not in daemon.names


async def test_a_kind_that_cannot_be_imported_is_refused_before_anything_is_started() -> None:
    async with farrier("run", "--dsn", NOWHERE, "--kind", "no_such_package.volumes:VOLUME") as daemon:
        assert await daemon.ended() == 2
    assert "no_such_package.volumes:VOLUME cannot be imported" in (await daemon.until("process.failed"))["error"]
    assert "http.listening" not in daemon.names
