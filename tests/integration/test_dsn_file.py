"""A DSN in a file: every new connection uses the DSN that the file has now."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from farrier import config as settings
from farrier.errors import DatabaseUnreachable
from farrier.io.connections import pool
from farrier.io.connections.hosts import Hosts, NoHostServes, Renewable
from farrier.wiring import storage
from tests.support import pg


@pytest.fixture
def file(db: pg.Database, tmp_path: Path) -> Path:
    made = tmp_path / "dsn"
    made.write_text(db.dsn)
    return made


@pytest.fixture
async def database(file: Path) -> AsyncIterator[storage.Database]:
    """The database of a daemon whose DSN is in the file."""
    async with storage.database(settings.DatabaseConfig(dsn=f"file:{file}", pool_max=1)) as opened:
        yield opened


def replace(file: Path, content: str | None) -> None:
    """Give the file this content, or remove the file."""
    if content is None:
        file.unlink()
    else:
        file.write_text(content)


def other(dsn: str) -> str:
    """The same DSN with another session."""
    return f"{dsn}{'&' if '?' in dsn else '?'}work_mem=5MB"


async def reconnected(database: storage.Database) -> str:
    """Close all connections, and return a setting of the session of the next one."""
    await database.pool.expire_connections()
    return str(await database.pool.fetchval("SHOW work_mem"))


async def test_new_connections_use_the_dsn_that_replaced_the_first(
    db: pg.Database, file: Path, database: storage.Database
) -> None:
    before = await reconnected(database)
    replace(file, other(db.dsn))
    assert (before, await reconnected(database)) == ("4MB", "5MB")
    single = await pool.reconnect(database.dsn, patience=timedelta(0), pgbouncer=False)
    assert await single.fetchval("SHOW work_mem") == "5MB", "so does the connection that listens"
    await single.close()


@pytest.mark.parametrize("content", [None, "", "not a URL", "postgresql://h:port/farrier"])
async def test_while_the_file_has_no_valid_dsn_the_last_one_is_used(
    db: pg.Database, file: Path, database: storage.Database, content: str | None
) -> None:
    replace(file, other(db.dsn))
    await reconnected(database)
    replace(file, content)
    with capture_logs() as logged:
        assert await reconnected(database) == "5MB"
    assert [line["event"] for line in logged] == ["database.dsn_refused"]
    assert logged[0]["error"].startswith("database.dsn: ")


async def test_an_error_names_the_server_of_the_present_dsn(file: Path, database: storage.Database) -> None:
    replace(file, "postgresql://farrier@127.0.0.1:1/new")
    with pytest.raises(DatabaseUnreachable, match=r"farrier@127\.0\.0\.1:1/new"):
        await pool.reconnect(database.dsn, patience=timedelta(0), pgbouncer=False)


async def test_a_dsn_may_lose_its_hosts_while_another_connection_tries_them(db: pg.Database) -> None:
    tried = anyio.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        dsns = [f"postgresql://farrier@{host},{host}/farrier"]

        async def read() -> str:
            tried.set()
            return dsns[-1]

        async def connect_to_silent_hosts() -> None:
            with pytest.raises(NoHostServes):
                await hosts.connect(timeout=0.5)

        hosts = Hosts(Renewable.of(dsns[0], read))
        async with anyio.create_task_group() as beside:
            beside.start_soon(connect_to_silent_hosts)
            await tried.wait()
            dsns.append(db.dsn)
            second = await hosts.connect(timeout=5)
            await second.close()
