"""A MAAS region for the contract suites of its client: simulated, or the live region that the environment names.

A live region is used when FARRIER_TEST_MAAS_URL and FARRIER_TEST_MAAS_KEY (of an administrator) are set. Tests make
machines of their own there and delete them. Tests that need hardware commission, deploy and release the machine whose
BMC FARRIER_TEST_MAAS_BMC names (`address,user,password,mac`); they are skipped without it. Used by
`tests/contract/test_maas_{contract,forms,protocol}.py`.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network

import anyio
import httpx
import msgspec
import pytest

from farrier.model.maas.changes import Delete, NewMachine, PowerAccess
from farrier.model.maas.reading import Machine
from farrier.model.maas.reading import StatusNumber as N
from farrier.services.maas.service import api_key
from farrier.sim.maas import ADMIN, Region, RegionTransport
from tests.support.maas import COMMISSION, DEPLOY, LONG, NEW, World, world_of

URL, KEY, BMC = "FARRIER_TEST_MAAS_URL", "FARRIER_TEST_MAAS_KEY", "FARRIER_TEST_MAAS_BMC"
Form = Mapping[str, str | Sequence[str]]
# Real hardware installs itself in half an hour.
HARDWARE_TAKES = timedelta(hours=2)
_ON_ITS_WAY = frozenset({N.COMMISSIONING, N.TESTING, N.DEPLOYING, N.RELEASING, N.DISK_ERASING})


class Site:
    """A region, a client of it, and signed requests by hand. `region` is None for a live region."""

    def __init__(self, world: World, http: httpx.AsyncClient, key: str, region: Region | None) -> None:
        self.world, self.region = world, region
        self.client = world.client
        self.key = key
        self._http, self._parsed = http, api_key(key)
        self._made: list[str] = []

    async def send(self, method: str, path: str, form: Form | None = None, *, json: object = None) -> httpx.Response:
        headers = self._parsed.headers(time.time())
        if json is not None:
            return await self._http.request(method, path, json=json, headers=headers)
        return await self._http.request(method, path, data=form, headers=headers)

    async def bare(self, path: str, header: str | None) -> httpx.Response:
        """A GET with this Authorization header, or with none."""
        return await self._http.get(path, headers={} if header is None else {"Authorization": header})

    async def new(self, *, ports: int = 1, deployed: bool = False) -> Machine:
        """Create a machine without hardware, in status New or declared as deployed. `forget_all` deletes it."""
        mine = secrets.token_hex(4)
        macs = tuple(f"02:{mine[:2]}:{mine[2:4]}:{mine[4:6]}:{mine[6:]}:{port:02x}" for port in range(ports))
        wanted = msgspec.structs.replace(NEW, hostname=f"farrier-test-{mine}", mac_addresses=macs)
        if not deployed:
            made = await self.client.create(wanted)
            self._made.append(made.system_id)
            return made
        form = {"hostname": wanted.hostname, "mac_addresses": macs, "architecture": wanted.architecture}
        answer = await self.send("POST", "machines/", {**form, "deployed": "true"})
        self._made.append(answer.json()["system_id"])
        return await self.client.machine(self._made[-1])

    async def free_address(self, place: int) -> str:
        """The address of the first subnet at this place, counted from the subnet's end."""
        cidr = (await self.client.subnets())[0].cidr
        assert cidr is not None
        return str(ip_network(cidr)[-place])

    def with_hardware(self) -> NewMachine:
        """The parameters of a machine that can be commissioned. Skips the test if there is no such machine."""
        if self.region is not None:
            return NEW
        if not os.environ.get(BMC):
            pytest.skip(f"{BMC} names no machine that may be commissioned and deployed")
        address, user, password, mac = os.environ[BMC].split(",")
        access = PowerAccess(address=address, username=user, password=password)
        return msgspec.structs.replace(
            NEW, hostname=f"farrier-test-{secrets.token_hex(4)}", mac_addresses=(mac,), power=access
        )

    async def commissioned(self) -> Machine:
        made = await self.client.create(self.with_hardware())
        self._made.append(made.system_id)
        await self.client.do(made, COMMISSION)
        return await self.settled(made.system_id)

    async def deployed(self) -> Machine:
        ready = await self.commissioned()
        await self.client.do(ready, DEPLOY)
        return await self.settled(ready.system_id)

    async def settled(self, system_id: str) -> Machine:
        """Wait until no operation on the machine is under way, and return it. The client paces reads of a live
        region."""
        if self.region is not None:
            self.region.advance(LONG)
        with anyio.fail_after(HARDWARE_TAKES.total_seconds()):
            while (machine := await self.client.machine(system_id)).status in _ON_ITS_WAY:
                pass
        return machine

    async def forget_all(self) -> None:
        """Delete all machines that the tests made, in any status."""
        for system_id in self._made:
            await self.send("POST", f"machines/{system_id}/?op=unlock")
            await self.send("DELETE", f"machines/{system_id}/")

    def forgotten(self, system_id: str) -> Delete:
        self._made.remove(system_id)
        return Delete()


@asynccontextmanager
async def site_of(kind: str) -> AsyncIterator[Site]:
    """A `simulated` or `live` site. Skips the test if the environment names no live region."""
    region, transport = None, None
    url, key = "http://maas.test/MAAS", ADMIN.key
    if kind == "simulated":
        region = Region()
        transport = RegionTransport(region)
    elif not os.environ.get(URL) or not os.environ.get(KEY):
        pytest.skip(f"{URL} and {KEY} name no live region")
    else:
        url, key = os.environ[URL].rstrip("/"), os.environ[KEY]
    root = f"{url}/api/2.0/"
    async with (
        world_of(transport, url=url, change_timeout=timedelta(minutes=2)) as world,
        httpx.AsyncClient(transport=transport, base_url=root, timeout=120) as http,
    ):
        world.key = key
        site = Site(world, http, key, region)
        yield site
        await site.forget_all()
