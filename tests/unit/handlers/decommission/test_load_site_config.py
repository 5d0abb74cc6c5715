"""Stage `load_site_config` of a decommission: the site has a region in which farrier's key may release machines."""

from __future__ import annotations

from farrier.handlers.node.changes import ServiceCall, with_fields
from farrier.handlers.node.workflow.stages import run_stage
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.stages import DecommissionStage as D
from farrier.sim.maas import OPERATOR, Broken, Fault
from tests.support.decommissions import fails, given_deployed, is_through, sent, waits
from tests.support.stages import Stand

STAGE = D.LOAD_SITE_CONFIG


async def test_a_region_in_which_farriers_key_is_an_administrators_passes_the_stage(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    for _ in range(2):
        is_through(await stand.settle())
    assert sent(stand) == []


async def test_the_stage_gives_way_to_an_intent(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    call = run_stage(stand.node, stand.now, stand.policy)
    assert isinstance(call, ServiceCall) and call.reads_only


async def test_a_key_of_a_user_who_is_not_an_administrator_needs_an_operator(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.world.key = OPERATOR.key
    fails(await stand.settle(), F.INVALID_CONFIG, "'op'", "not an administrator")


async def test_the_stage_waits_while_maas_refuses_the_key(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.world.key = "not:a:key"
    waits(await stand.settle(), "auth")


async def test_the_stage_waits_while_the_region_is_unreachable(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.region.faults.add(Fault(op="whoami", times=None, broken=Broken.DROP))
    waits(await stand.settle(), "unreachable")
    stand.region.faults.clear()
    is_through(await stand.settle())


async def test_a_site_that_is_not_configured_needs_an_operator(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.node = with_fields(stand.node, site="nowhere")
    fails(await stand.settle(), F.INVALID_CONFIG, "nowhere")


async def test_a_site_without_a_region_needs_an_operator(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.use(maas=None)
    fails(await stand.settle(), F.INVALID_CONFIG, "no MAAS configured")
