"""The database's clock is set back while a run is under way: requests that the run may have sent still count."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.io.connections.pulse import PostgresPulse
from farrier.model.intents.params import PowerRequest
from tests.support.site import Site

BACK = timedelta(hours=2)


async def mend(site: Site) -> None:
    async with site.db.pool(1) as connections:
        pulse = PostgresPulse(connections)
        assert await pulse.beat() is not None
        while (await pulse.mend()).more:
            pass


async def test_a_reset_that_is_being_sent_is_not_sent_again_and_its_answer_reports_that(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.hold(only_power=True)
    asked = await machine.tell("set_power", power="reset")
    site.wake()
    await site.bmc.called()
    await site.db.advance(-BACK)
    await mend(site)
    site.bmc.let_go()
    await site.settled()
    assert site.bmc.sent == [PowerRequest.RESET]
    answer = await site.answer(asked)
    assert answer.status == "rejected" and "outcome is unknown" in (answer.reason or "")


@pytest.mark.parametrize("power", ["on", "off"])
async def test_switching_on_or_off_is_repeated_after_a_read(site: Site, power: str) -> None:
    machine = await site.with_bmc()
    site.bmc.hold(only_power=True)
    asked = await machine.tell("set_power", power=power)
    site.wake()
    await site.bmc.called()
    reads = len(site.bmc.reads)
    await site.db.advance(-BACK)
    await mend(site)
    site.bmc.let_go()
    await site.settled()
    assert (await site.answer(asked)).status == "accepted"
    assert len(site.bmc.reads) > reads


async def test_a_login_that_is_under_way_stays_counted(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.hold(only_power=True)
    await machine.tell("set_power", power="reset")
    site.wake()
    await site.bmc.called()
    await site.db.advance(-BACK)
    await mend(site)
    bmc = await machine.bmc()
    assert (len(bmc["tries"]), bmc.get("trying"), bmc["switching"]["unsure"]) == (1, None, True)
    site.bmc.let_go()
    await site.settled()
