"""The fabric managers of sites: one for each UFM, and which of them a reload of the sites keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from farrier.config.sites import Site, UfmSite
from farrier.errors import ConfigError
from farrier.services.http.client import Times
from farrier.services.ufm.client import Fabrics, settings_of
from farrier.sim.ufm import Manager, UfmTransport
from tests.support.clock import HandClock
from tests.support.observed import Observed
from tests.support.ufm import OneCredential

NORTH = Site(name="north", ufm=UfmSite(url="https://ufm.north/", credential="env:UFM"))
SOUTH = Site(name="south", ufm=UfmSite(url="https://ufm.south", token="env:TOKEN", ca_file="/etc/ca.pem"))


def fabrics_over(manager: Manager | None) -> AbstractAsyncContextManager[Fabrics]:
    """The fabrics whose clients send their requests to this UFM; None: through the network."""
    known = manager or Manager()
    return Fabrics.open(
        credentials=OneCredential(known.username, known.password, known.token),
        times=Times(clock=HandClock()),
        observer=Observed("ufm"),
        transport=None if manager is None else UfmTransport(manager),
    )


@pytest.fixture
async def fabrics() -> AsyncIterator[Fabrics]:
    async with fabrics_over(Manager()) as opened:
        yield opened


async def test_a_site_has_the_client_of_its_own_ufm_or_none(fabrics: Fabrics) -> None:
    await fabrics.use(settings_of({"north": NORTH}))
    client = fabrics.client("north")
    assert client is not None and await client.read_anew(1) is None
    assert fabrics.client("south") is None
    assert settings_of({"west": Site(name="west")}) == {}


async def test_a_client_uses_the_token_of_its_site(fabrics: Fabrics) -> None:
    await fabrics.use({"south": UfmSite(url="https://ufm.south", token="env:TOKEN")})
    client = fabrics.client("south")
    assert client is not None and await client.read_anew(1) is None


async def test_a_client_is_replaced_when_its_settings_change_and_closed_with_its_site(fabrics: Fabrics) -> None:
    await fabrics.use(settings_of({"north": NORTH}))
    before = fabrics.client("north")
    await fabrics.use(settings_of({"north": NORTH}))
    assert fabrics.client("north") is before
    slower = UfmSite(url="https://ufm.north", credential="env:UFM", read_timeout=timedelta(seconds=20))
    await fabrics.use(settings_of({"north": Site(name="north", ufm=slower)}))
    assert fabrics.client("north") is not before
    await fabrics.use({})
    assert fabrics.client("north") is None


async def test_an_unusable_file_leaves_the_present_clients_in_use() -> None:
    async with fabrics_over(None) as fabrics:
        await fabrics.use(settings_of({"north": NORTH}))
        before = fabrics.client("north")
        with pytest.raises(ConfigError):
            await fabrics.use(settings_of({"south": SOUTH}))
        assert fabrics.client("north") is before
