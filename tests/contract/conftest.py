"""Shared by the contract suites: a CA, a fake BMC, a fake Vault with its client, and MAAS regions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from farrier.sim.certificates import Authority
from farrier.sim.maas import Region
from tests.support.bmc import FakeBmc, fake_bmc
from tests.support.maas_region import Caller
from tests.support.maas_site import Site, site_of
from tests.support.vault import FakeVault
from tests.support.vault_client import Client, client_of


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("test CA", now=datetime.now(UTC))


@pytest.fixture
async def bmc(tmp_path: Path, authority: Authority) -> AsyncIterator[FakeBmc]:
    async with fake_bmc(tmp_path, authority) as running:
        yield running


@pytest.fixture
async def client(tmp_path: Path, authority: Authority) -> AsyncIterator[Client]:
    """A client of a fake Vault."""
    async with client_of(tmp_path, authority) as opened:
        yield opened


@pytest.fixture
def server(client: Client) -> FakeVault:
    """The Vault of `client`."""
    return client.server


@pytest.fixture
def region() -> Region:
    return Region()


@pytest.fixture
def caller(region: Region) -> Caller:
    return Caller(region)


@pytest.fixture(params=["simulated", "live"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """A region, simulated or live, with a client of it."""
    async with site_of(request.param) as opened:
        yield opened
