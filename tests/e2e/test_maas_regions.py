"""`farrier run` with sites: it observes their regions over HTTP, and on SIGHUP applies changes of the site files."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from farrier.sim.maas import ADMIN, Region, open_region
from tests.support import pg
from tests.support.maas_region import Caller, created
from tests.support.process import replica, until

SITE = """
[maas]
url = "{url}"
key = "env:FARRIER_SECRET_MAAS"
[observe]
events_every = "1s"
"""


async def is_seen(db: pg.Database, node: str) -> bool:
    async with db.connect() as conn:
        seen: bool = await conn.fetchval(
            """
            SELECT o.state = 'new' FROM farrier.node_observations o JOIN farrier.nodes n ON n.id = o.node_id
             WHERE n.name = $1
            """,
            node,
        )
        return seen


@pytest.mark.full
async def test_regions_are_observed_and_a_site_that_is_added_takes_a_signal(db: pg.Database, tmp_path: Path) -> None:
    north, south = Region(), Region()
    for name, region in (("north", north), ("south", south)):
        system_id = await created(Caller(region))
        async with db.connect() as conn:
            await conn.execute("SELECT farrier.register_node($1, site => $1, maas_id => $2)", name, system_id)
    settings = {"sites_directory": str(tmp_path), "secret_maas": ADMIN.key}
    async with open_region(north) as north_url, open_region(south) as south_url:
        (tmp_path / "north.toml").write_text(SITE.format(url=north_url))
        async with replica(db.dsn, **settings) as daemon:
            assert (await daemon.until("sites.used"))["sites"] == ["north"]
            await until(lambda: is_seen(db, "north"))
            metrics = (await daemon.get("/metrics")).text
            assert 'farrier_service_requests_total{operation="machines",result="ok",service="maas"} 1.0' in metrics
            assert 'farrier_resources{kind="maas_region",state="observing",substate=""}' in metrics
            (tmp_path / "south.toml").write_text(SITE.format(url=south_url))
            assert not await is_seen(db, "south")
            daemon.send(signal.SIGHUP)
            await daemon.until("config.reloaded")
            await until(lambda: is_seen(db, "south"))
            (tmp_path / "south.toml").write_text("[maas]\n")
            daemon.send(signal.SIGHUP)
            assert "south.toml" in (await daemon.until("config.refused"))["error"]
            daemon.send(signal.SIGTERM)
            assert await daemon.ended() == 0
