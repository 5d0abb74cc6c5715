"""Reloads of sites: none is lost while the daemon starts, and a change is applied as a whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from farrier.config import Config, DatabaseConfig, MetricsConfig, SitesConfig
from farrier.config.sites import MaasSite, Site
from farrier.daemon import Daemon
from farrier.errors import ConfigError, DatabaseUnreachable
from farrier.io.connections import pool
from farrier.io.kinds.maas_region import use
from farrier.metrics.sink import PrometheusSink
from farrier.wiring import loops, storage
from farrier.wiring.vocabulary import vocabulary
from tests.support import pg, proxy

MOMENT = timedelta(milliseconds=100)

# Refuses the first {times} writes of sites.
_MOMENTARY = """
CREATE SEQUENCE public.tries;
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.tries') <= {times} THEN RAISE EXCEPTION 'somebody was faster' USING ERRCODE = '{code}'; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON farrier.maas_regions EXECUTE FUNCTION public.refuse();
"""


def a_site(name: str) -> Site:
    return Site(name=name, maas=MaasSite(url=f"http://127.0.0.1:1/{name}/MAAS", key="env:KEY"))


@asynccontextmanager
async def at_work(db: pg.Database) -> AsyncIterator[loops.Runtime]:
    config = Config(database=DatabaseConfig(dsn=db.dsn))
    sink = PrometheusSink(vocabulary())
    async with (
        storage.database(config.database) as database,
        loops.runtime(config, database, sink=sink, observer=sink) as runtime,
    ):
        yield runtime


async def refusing(db: pg.Database, *, times: int, code: str = "40001") -> None:
    async with db.connect() as conn:
        await conn.execute(_MOMENTARY.format(times=times, code=code))


async def regions(db: pg.Database) -> list[str]:
    async with db.connect() as conn:
        return [row["site"] for row in await conn.fetch("SELECT site FROM farrier.maas_regions ORDER BY site")]


async def test_a_write_of_sites_that_conflicts_with_another_replica_is_retried(db: pg.Database) -> None:
    await refusing(db, times=2)
    async with at_work(db) as runtime:
        await runtime.use_sites({"north": a_site("north")})
        assert runtime.regions.client("north") is not None
    assert await regions(db) == ["north"]


@pytest.mark.parametrize(("code", "error"), [("40001", DatabaseUnreachable), ("FR409", ConfigError)])
async def test_sites_that_the_database_refuses_change_nothing(
    db: pg.Database, code: str, error: type[Exception]
) -> None:
    await refusing(db, times=100, code=code)
    async with at_work(db) as runtime:
        with pytest.raises(error, match="somebody was faster"):
            await runtime.use_sites({"north": a_site("north")})
        assert runtime.regions.client("north") is None
    assert await regions(db) == []


async def test_a_write_of_sites_over_a_silent_connection_is_given_up(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as between:
        connections = await pool.open_pool(between.dsn, size=1, patience=pg.PATIENCE)
        between.freeze()
        with anyio.fail_after(pg.PATIENCE.total_seconds()), pytest.raises(DatabaseUnreachable, match="no response"):
            await use(connections, {"north": a_site("north")}, patience=MOMENT)
        connections.terminate()


async def test_a_write_of_sites_that_waits_too_long_for_a_lock_changes_nothing(db: pg.Database) -> None:
    async with db.pool(1) as connections:
        async with db.connect() as somebody, somebody.transaction():
            await somebody.execute("LOCK farrier.maas_regions IN SHARE ROW EXCLUSIVE MODE")
            with anyio.fail_after(pg.PATIENCE.total_seconds()), pytest.raises(DatabaseUnreachable, match="no response"):
                await use(connections, {"north": a_site("north")}, patience=MOMENT)
        assert await regions(db) == []
        await use(connections, {"north": a_site("north")})
    assert await regions(db) == ["north"]


async def test_a_reload_while_the_daemon_starts_applies_to_its_start(db: pg.Database, tmp_path: Path) -> None:
    (tmp_path / "north.toml").write_text('[maas]\nurl = "http://127.0.0.1:1/MAAS"\nkey = "env:KEY"\n')
    stop = anyio.Event()
    config = Config(
        database=DatabaseConfig(dsn=db.dsn), metrics=MetricsConfig(port=0), sites=SitesConfig(directory=str(tmp_path))
    )
    daemon = Daemon(config, stop)
    async with db.connect() as conn, anyio.create_task_group() as tasks:
        async with conn.transaction():
            await conn.execute("LOCK farrier.maas_regions IN SHARE ROW EXCLUSIVE MODE")
            tasks.start_soon(daemon.run)
            await db.until_blocked()
            await daemon.use_sites({"south": a_site("south")})
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            while not (daemon.is_ready and "south" in await regions(db)):
                await anyio.lowlevel.checkpoint()
        stop.set()
