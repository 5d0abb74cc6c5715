"""A region that cannot be read for hours: meanwhile stages spend neither time limit nor attempts; then they go on."""

from __future__ import annotations

import pytest

from farrier.sim.faults import Fault
from tests.support.onboarded import active, begun, cleaned, deployed, enrolled, manageable, until
from tests.support.site import MINUTE, SECOND, Machine, Site

HOURS = 180

UNREADABLE = {
    "bad gateway": Fault(status=502, body=b"<html>Bad Gateway</html>", times=None),
    "an error of its own": Fault(status=500, body=b"<html>Internal Server Error</html>", times=None),
}


async def outage(site: Site, what: str = "bad gateway", minutes: int = HOURS) -> None:
    site.maas.region.faults.add(UNREADABLE[what])
    for _ in range(0, minutes, 15):
        await site.wait(15 * MINUTE)
    site.maas.region.faults.clear()


async def is_untouched(node: Machine, layer: str) -> bool:
    """Assert that the workflow never waited for an operator, and is in its first attempt."""
    attempts = await node.site.conn.fetchval(f"SELECT attempt FROM farrier.node_{layer}s WHERE node_id = $1", node.id)
    return "failed_manual_intervention" not in await node.path(layer) and attempts == 1


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("stage", ["wait_for_ready", "wait_for_deployed"])
async def test_an_outage_longer_than_every_limit_ends_no_stage_that_waits(site: Site, stage: str, what: str) -> None:
    node = await begun(await manageable(site))
    await until(node, stage, every=5 * SECOND)
    await outage(site, what)
    assert await is_untouched(node, "onboarding")
    assert (await node.state())[1:] == ("running", stage)
    await enrolled(await deployed(node))
    assert (await node.state())[:2] == ("active", "completed")


async def test_an_outage_costs_a_stage_that_sends_requests_no_attempt(site: Site) -> None:
    """An attempt that fails before the outage is known does not count either."""
    node = await manageable(site)
    site.maas.region.faults.add(UNREADABLE["an error of its own"])
    await begun(node)
    await outage(site)
    assert await is_untouched(node, "onboarding")
    await enrolled(await deployed(node))


async def test_an_outage_ends_no_stage_of_a_decommission(site: Site) -> None:
    node = await active(site)
    await node.asked("decommission", mode="full_decommission")
    await cleaned(node)
    await until(node, "release_maas_node", every=SECOND)
    await outage(site, "an error of its own")
    assert await is_untouched(node, "decommission")
    await until(node, "deleted")


async def test_a_stage_that_waits_longer_than_its_limit_after_an_outage_fails(site: Site) -> None:
    """Time in which the region could be read counts: after an outage, no stage waits without a limit."""
    node = await begun(await manageable(site))
    await until(node, "wait_for_agent_enrollment", every=30 * SECOND)
    await outage(site, minutes=60)
    assert (await node.state())[1] == "running"
    await until(node, "failed_retryable", every=5 * MINUTE)
