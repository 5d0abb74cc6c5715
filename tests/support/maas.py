"""Shared by the suites of the MAAS client: a region in memory, a client of it, and the client's reports."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import msgspec
from typing_extensions import override

from farrier.errors import CredentialError
from farrier.model.credential import Credential
from farrier.model.maas.changes import Abort, Commission, Deploy, NewMachine, PowerAccess, Release
from farrier.model.maas.reading import MaasStatus, Machine
from farrier.protocols import CredentialStore
from farrier.services.http.client import Times
from farrier.services.maas.client import Maas, open_maas
from farrier.services.maas.service import KEY_KEPT, MaasSettings
from farrier.sim.maas import ADMIN, Region, RegionTransport
from tests.support.clock import HandClock
from tests.support.observed import Observed

SITE = "north"
SETTINGS = MaasSettings(url="http://maas.test/MAAS", key="env:KEY")
POWER = PowerAccess(address="10.0.0.1", username="root", password="calvin&co%1")
NEW = NewMachine(
    hostname="gpu001", mac_addresses=("52:54:00:00:00:01",), power=POWER, description="workflow 7", domain="maas"
)
COMMISSION = Commission(skip_networking=False, skip_storage=False)  # nothing to lose yet
DEPLOY = Deploy(user_data="#cloud-config\n", comment="workflow 7/1", distro_series="noble")
RELEASE = Release(comment="workflow 7/2")
ABORT = Abort(comment="workflow 7/3")
LONG = timedelta(hours=3)


def state_of(number: int) -> MaasStatus:
    """The model's machine state for a status number of MAAS."""
    return Machine(system_id="abc123", status=number, hostname="gpu001").state


class KeyOfMaas(CredentialStore):
    """A region's key, or the error with which it cannot be read."""

    def __init__(self, key: str | CredentialError = ADMIN.key) -> None:
        self.key = key
        self.asked = 0

    @override
    async def resolve(self, reference: str) -> Credential:
        raise AssertionError("a client of a region must read only the key")

    @override
    async def version(self, reference: str) -> str:
        raise AssertionError("a client of a region must read only the key")

    @override
    async def token(self, reference: str) -> str:
        self.asked += 1
        if isinstance(self.key, CredentialError):
            raise self.key
        return self.key


class World:
    """A client, its clock, its reports, and its pauses, which take no time in tests. The client's wall clock is
    `behind` the real time by this number of seconds."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.observed = Observed("maas")
        self.pauses: list[float] = []
        self.behind = timedelta(0)
        self.store = KeyOfMaas()
        self.pause_with: Callable[[float], Awaitable[None]] | None = None
        self.client: Maas

    @property
    def key(self) -> str | CredentialError:
        return self.store.key

    @key.setter
    def key(self, key: str | CredentialError) -> None:
        """Rotate the key, and let time pass until the client reads the key again."""
        self.store.key = key
        self.clock.advance(KEY_KEPT)

    def wall(self) -> float:
        return time.time() - self.behind.total_seconds()

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.pause_with is not None:
            await self.pause_with(seconds)


@asynccontextmanager
async def world_of(transport: httpx.AsyncBaseTransport | None, **settings: Any) -> AsyncIterator[World]:
    """A client that sends requests through `transport`; None: through the network."""
    world = World()
    async with open_maas(
        msgspec.structs.replace(SETTINGS, **settings),
        site=SITE,
        credentials=world.store,
        times=Times(clock=world.clock, pause=world.pause, wall=world.wall),
        observer=world.observed,
        transport=transport,
    ) as world.client:
        yield world


@asynccontextmanager
async def world_with(region: Region, **settings: Any) -> AsyncIterator[World]:
    """A client of a simulated region."""
    async with world_of(RegionTransport(region), **settings) as world:
        yield world


async def commissioned(world: World, region: Region) -> Machine:
    """Create and commission a machine, and read it."""
    made = await world.client.create(NEW)
    await world.client.do(made, COMMISSION)
    region.advance(LONG)
    return await world.client.machine(made.system_id)


async def deployed(world: World, region: Region) -> Machine:
    """Create, commission and deploy a machine, and read it."""
    ready = await commissioned(world, region)
    await world.client.do(ready, DEPLOY)
    region.advance(LONG)
    return await world.client.machine(ready.system_id)
