"""Turns at a region: a few at a time, and whoever has waited for too long is told when to come again."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from farrier.model.maas import MaasError, MaasFailure
from farrier.services import regions
from farrier.services.maas_transport import MaasSettings, Times
from farrier.services.regions import Regions, RegionSettings, open_regions
from tests.support.maas import Observed
from tests.support.nodes import Secrets
from tests.support.vault_client import HandClock

SITE = "north"


async def at_work(stack: AsyncExitStack) -> Regions:
    times = Times(clock=HandClock())
    found = await stack.enter_async_context(open_regions(credentials=Secrets(), times=times, observer=Observed()))
    await found.use({SITE: RegionSettings(maas=MaasSettings(url="http://maas.test/MAAS"), key="env:KEY")})
    return found


async def test_a_line_that_is_too_long_is_no_trouble_of_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place in the line is lost, so the next try comes soon, and says what it waits for in words that stay."""
    async with AsyncExitStack() as stack:
        found = await at_work(stack)
        for _ in range(regions.TURNS):
            await stack.enter_async_context(found.turn(SITE))
        monkeypatch.setattr(regions, "PATIENCE", timedelta(0))
        said: set[str] = set()
        for _ in range(2):
            with pytest.raises(MaasError) as raised:
                async with found.turn(SITE):
                    pass
            said.add(raised.value.detail)
            assert (raised.value.failure, raised.value.retry_after) == (MaasFailure.BUSY, regions.LINE_AGAIN)
        assert len(said) == 1


async def test_a_turn_that_is_over_is_the_next_ones() -> None:
    async with AsyncExitStack() as stack:
        found = await at_work(stack)
        for _ in range(2 * regions.TURNS):
            async with found.turn(SITE) as client:
                assert client is found.client(SITE)
