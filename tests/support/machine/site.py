"""A site with one real machine: a region, a controller, a server for agents, and an operator's command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from farrier.model.loop.doors import DoorKind
from farrier.sim.bmc import SimulatedBmc
from farrier.sim.certificates import Authority
from farrier.sim.maas import ADMIN, Region, open_region
from tests.support import bmc as bmcs
from tests.support import logins, pg, process
from tests.support.machine import qemu
from tests.support.machine.console import PATIENCE_SECONDS
from tests.support.machine.image import Image
from tests.support.machine.rack import reset
from tests.support.machine.room import Room, region, room

NODE = "gpu-1"
# The user data is farrier's own, because the site has no template.
SITE = """
[maas]
url = "{url}"
key = "env:FARRIER_SECRET_MAAS"
[observe]
events_every = "1s"
[deploy]
hardware_sync = false
[cleaning]
by = "agent"
"""
REGISTER = """
    SELECT farrier.register_node($1, site => 'north', bmc_address => $2, bmc_credential => $3, macs => ARRAY[$4])
"""


class Site:
    """The machine and the region from outside, and an operator of farrier."""

    def __init__(self, room: Room, bmc: SimulatedBmc, region: Region, db: pg.Database, conn: pg.Single) -> None:
        self.room = room
        self.region = region
        self._bmc = bmc
        self._db = db
        self._conn = conn

    async def cut_power(self) -> None:
        """Cut the machine's power, as somebody does who carries it away."""
        await reset(self._bmc, "ForceOff", username=self._bmc.username, password=self._bmc.password)
        await self.room.console.ends()

    async def node(self, *arguments: str) -> str:
        """Run `farrier node ACTION gpu-1 …`, and return what it prints. The test fails if the command does."""
        code, printed = await self.asked(*arguments)
        assert code == 0, printed
        return printed

    async def asked(self, action: str, *options: str) -> tuple[int, str]:
        """Run `farrier node ACTION gpu-1 …`; its exit code and what it prints."""
        wait = ("--yes", "--timeout", f"{PATIENCE_SECONDS:.0f}s", "--dsn", self._db.dsn)
        async with process.farrier("node", action, NODE, *options, *wait) as command:
            with anyio.fail_after(PATIENCE_SECONDS):
                await command.is_over()
            return await command.ended(), command.printed + command.logged

    async def value(self, query: str) -> Any:
        """The value that a query finds for the node; $1 is the node's name."""
        return await self._conn.fetchval(query, NODE)

    async def until(self, query: str) -> None:
        """Wait until a query is true for the node."""
        await process.until(lambda: self.value(query), patience=PATIENCE_SECONDS)


@asynccontextmanager
async def site(db: pg.Database, directory: Path, image: Image) -> AsyncIterator[Site]:
    """A site whose machine is registered, and off."""
    maas = region()
    async with (
        _door(db, directory) as port,
        room(directory, image, maas, agents=port) as (place, bmc),
        open_region(maas, speed=1) as url,
        db.connect() as conn,
    ):
        sites = directory / "sites"
        sites.mkdir()
        (sites / "north.toml").write_text(SITE.format(url=url))
        async with process.replica(db.dsn, **_settings(bmc, directory, port)) as controller:
            await controller.until("daemon.ready")
            address = f"{bmc.base_url}{bmc.systems[0].path}"
            await conn.execute(REGISTER, NODE, address, bmcs.CREDENTIAL, place.hardware.mac)
            yield Site(place, bmc, maas, db, conn)


def _settings(bmc: SimulatedBmc, directory: Path, port: int) -> dict[str, str]:
    return {
        "sites_directory": str(directory / "sites"),
        "agents_url": f"https://{qemu.HOST}:{port}",
        "agents_ca": str(directory / "agents-ca.pem"),
        "secret_maas": ADMIN.key,
        "secret_bmc": f"{bmc.username}:{bmc.password}",
        "bmc_ca_file": str(bmc.ca_file),
        "bmc_allowed_networks": "127.0.0.0/8",
        "credentials_bindings": bmcs.BMC_ON_LOOPBACK,
        "node_max_task_attempts": "1",
    }


@asynccontextmanager
async def _door(db: pg.Database, directory: Path) -> AsyncIterator[int]:
    """The server for agents, with a login and a certificate of its own; yields its port."""
    authority = Authority("farrier agents", now=datetime.now(UTC))
    authority.write(directory / "agents-ca.pem")
    served = authority.issue(directory, hosts=(qemu.HOST,))
    settings = {"FARRIER_AGENTS_TLS_CERT": str(served.certificate), "FARRIER_AGENTS_TLS_KEY": str(served.key)}
    dsn = await logins.dsn_of(db, *logins.ROLES[DoorKind.AGENTS])
    async with process.farrier("serve", "--agents", "--dsn", dsn, "--port", "0", environment=settings) as door:
        url = (await door.until("http.listening"))["url"]
        await door.until("server.ready")
        port = urlsplit(url).port
        assert port is not None, "the port is in the URL"
        yield port
