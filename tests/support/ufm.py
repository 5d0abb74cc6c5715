"""Shared by the suites of the UFM client: a UFM in memory or a real one, a client of it, and the client's reports.

The contract suite uses a real UFM when FARRIER_TEST_UFM_URL names it (with FARRIER_TEST_UFM_USER, ..._PASSWORD, and
FARRIER_TEST_UFM_PKEY for a key that no partition there has).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import msgspec
import pytest
from typing_extensions import override

from farrier import protocols
from farrier.config.sites import UfmSite
from farrier.errors import CredentialError
from farrier.model.credential import Credential
from farrier.model.partition.ufm import Qos, UfmError, WantedPartition
from farrier.services.http.client import Times
from farrier.services.ufm.client import Ufm, open_ufm
from farrier.sim.ufm import Manager, UfmTransport
from tests.support.clock import HandClock
from tests.support.observed import Observed

SETTINGS = UfmSite(url="http://ufm.test", credential="env:UFM")
GUIDS = ("0002c903000e0b71", "0002c903000e0b72", "0002c903000e0b73")
QOS = Qos(mtu_limit=4, rate_limit=200.0, service_level=3)


def wanted(number: int = 0x12, **changes: Any) -> WantedPartition:
    """The partition that a test asks the client to make."""
    fields: dict[str, Any] = {"number": number, "qos": QOS, "ip_over_ib": True, "index0": False}
    return WantedPartition(**(fields | changes))


class OneCredential(protocols.CredentialStore):
    """A `CredentialStore` with one user, or with one error for every call."""

    def __init__(self, username: str, password: str, token: str, *, trouble: CredentialError | None = None) -> None:
        self.user = Credential(username=username, password=password, version="1")
        self._token = token
        self.trouble = trouble
        self.asked = 0

    @override
    async def resolve(self, reference: str) -> Credential:
        self._ask()
        return self.user

    @override
    async def version(self, reference: str) -> str:
        return "1"

    @override
    async def token(self, reference: str) -> str:
        self._ask()
        return self._token

    def _ask(self) -> None:
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble


class World:
    """A client, its clock, its reports, and its pauses, which take no time in tests."""

    def __init__(self, store: OneCredential, site: UfmSite) -> None:
        self.site = site
        self.clock = HandClock()
        self.observed = Observed("ufm")
        self.store = store
        self.pauses: list[float] = []
        self.client: Ufm

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


@asynccontextmanager
async def world_of(
    transport: httpx.AsyncBaseTransport | None, store: OneCredential | None = None, **settings: Any
) -> AsyncIterator[World]:
    """A client that sends requests through `transport`; None: through the network."""
    manager = Manager()
    store = store or OneCredential(manager.username, manager.password, manager.token)
    world = World(store, msgspec.structs.replace(SETTINGS, **settings))
    async with open_ufm(
        world.site,
        credentials=store,
        times=Times(clock=world.clock, pause=world.pause),
        observer=world.observed,
        transport=transport,
    ) as world.client:
        yield world


@asynccontextmanager
async def world_with(manager: Manager, **settings: Any) -> AsyncIterator[World]:
    """A client of a simulated UFM."""
    async with world_of(UfmTransport(manager), **settings) as world:
        yield world


@asynccontextmanager
async def world_of_the_real_one() -> AsyncIterator[World]:
    """A client of the UFM that the environment names; skips the test if it names none."""
    found: Mapping[str, str] = os.environ
    if not found.get("FARRIER_TEST_UFM_URL"):
        pytest.skip("FARRIER_TEST_UFM_URL names no UFM")
    store = OneCredential(found["FARRIER_TEST_UFM_USER"], found["FARRIER_TEST_UFM_PASSWORD"], "")
    async with world_of(None, store, url=found["FARRIER_TEST_UFM_URL"]) as world:
        yield world


@contextmanager
def failing() -> Iterator[list[UfmError]]:
    """The `UfmError` that the block raises."""
    caught: list[UfmError] = []
    with pytest.raises(UfmError) as raised:
        yield caught
    caught.append(raised.value)
