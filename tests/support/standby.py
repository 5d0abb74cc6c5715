"""A primary and its streaming standby, each with a proxy before it, for tests of fail-overs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from bench.wakes import standby_of
from farrier.io.connections.embedded import EmbeddedServer
from tests.support import pg, proxy


class Pair:
    """Both servers have the migrated database `db`; `dsn` leads through the proxies to the writable server."""

    def __init__(self, db: pg.Database, standby: pg.Database, ways: tuple[proxy.Proxy, proxy.Proxy]) -> None:
        self.db = db
        self.standby = standby
        self.primary_way, self.standby_way = ways
        self.dsn = proxy.one_of(*ways)

    async def fail_over(self) -> None:
        """Drop the primary's packets from now on, and promote the standby."""
        self.primary_way.drop()
        async with self.standby.connect() as conn:
            assert await conn.fetchval("SELECT pg_promote(wait => true, wait_seconds => 30)")


@asynccontextmanager
async def replicated(*, synchronous: bool = False) -> AsyncIterator[Pair]:
    """A primary and its standby, which has caught up when the block begins; both are removed after it. With
    `synchronous`, a commit on the primary waits until the standby has it."""
    with TemporaryDirectory(prefix="farrier-test-pair-") as directory:
        primary = EmbeddedServer(Path(directory) / "primary", settings=pg.FAST)
        await anyio.to_thread.run_sync(primary.start)
        try:
            async with pg.database_of(primary.dsn_of) as db:
                name = urlsplit(db.dsn).path.removeprefix("/")
                with standby_of(primary, Path(directory) / "standby", settings=pg.FAST) as standby:
                    second = pg.Database(standby.dsn_of(name))
                    async with (
                        waiting_for_standbys(db, "*" if synchronous else ""),
                        proxy.before(db.dsn) as first_way,
                        proxy.before(second.dsn) as second_way,
                    ):
                        yield Pair(db, second, (first_way, second_way))
        finally:
            await anyio.to_thread.run_sync(primary.stop)


@asynccontextmanager
async def waiting_for_standbys(db: pg.Database, names: str) -> AsyncIterator[None]:
    """Within the block, commits on the server of `db` wait for these standbys. The setting is reset however the block
    ends, since dropping the database would wait, too."""
    await _reload(db, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    try:
        yield
    finally:
        await _reload(db, "ALTER SYSTEM RESET synchronous_standby_names")


async def _reload(db: pg.Database, setting: str) -> None:
    async with db.connect() as conn:
        await conn.execute(setting)
        await conn.execute("SELECT pg_reload_conf()")
