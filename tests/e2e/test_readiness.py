"""`farrier run` tries again when a connection breaks at the start, and is ready only while the database commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread
import pytest

from farrier.io.connections.embedded import EmbeddedServer
from tests.support import pg, proxy, standby
from tests.support.process import Farrier, replica, until


@pytest.fixture
def own_directory() -> Iterator[Path]:
    """A directory outside of pytest's directory, which the account of the server may not enter."""
    with TemporaryDirectory(prefix="farrier-test-ready-") as directory:
        yield Path(directory)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("statement", [b"schema_steps", b"farrier.settings", b"farrier.set_sites"])
async def test_a_connection_that_breaks_during_the_start_is_tried_again(db: pg.Database, statement: bytes) -> None:
    async with proxy.before(db.dsn) as between:
        between.cut_after(statement)
        async with replica(between.dsn) as daemon:
            await daemon.until("daemon.ready")
            assert between.cuts == 1
            assert "Traceback" not in daemon.logged


@pytest.mark.full
async def test_a_daemon_is_unready_while_no_commit_succeeds(own_directory: Path) -> None:
    """Queries still succeed while commits wait for a standby that does not exist."""
    server = EmbeddedServer(own_directory, settings=pg.FAST)
    await anyio.to_thread.run_sync(server.start)
    try:
        async with pg.database_of(server.dsn_of) as db, replica(db.dsn) as daemon:
            await daemon.until("daemon.ready")
            await until(lambda: answers(daemon, 200))
            async with standby.waiting_for_standbys(db, "missing"):
                await until(lambda: answers(daemon, 503))
                assert "the database has committed no renewal" in (await daemon.get("/readyz")).text
            await until(lambda: answers(daemon, 200))
    finally:
        await anyio.to_thread.run_sync(server.stop)


async def answers(daemon: Farrier, status: int) -> bool:
    return (await daemon.get("/readyz")).status_code == status
