"""Stage `load_site_config` of a decommission: the node's site has a region in which our key may release machines."""

from __future__ import annotations

from farrier.handlers.node.moves import Call, with_fields
from farrier.handlers.node.stages import run_stage
from farrier.model.failures import FailureClass as F
from farrier.model.node import Options
from farrier.model.stages import DecommissionStage as D
from farrier.sim.maas import OPERATOR, Broken, Fault
from tests.support.decommissions import asked, fails, given_deployed, is_through, sent, skips, waits
from tests.support.stages import Stand

STAGE = D.LOAD_SITE_CONFIG


async def test_a_region_that_takes_us_for_an_administrator_will_do(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    for _ in range(2):
        is_through(await stand.settle())
    assert sent(stand) == []


async def test_it_gives_way_to_a_request(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    call = run_stage(stand.node, stand.now, stand.policy)
    assert isinstance(call, Call) and call.reads_only


async def test_a_key_of_somebody_with_fewer_rights_needs_a_person(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.world.key = OPERATOR.key
    fails(await stand.settle(), F.INVALID_CONFIG, "'op'", "not an administrator")


async def test_a_key_that_is_refused_is_waited_for(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.world.key = "not:a:key"
    waits(await stand.settle(), "auth")


async def test_a_region_that_is_away_is_waited_for(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.region.faults.add(Fault(op="whoami", times=None, broken=Broken.DROP))
    waits(await stand.settle(), "unreachable")
    stand.region.faults.clear()
    is_through(await stand.settle())


async def test_a_site_that_is_not_configured_needs_a_person(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.node = with_fields(stand.node, site="nowhere")
    fails(await stand.settle(), F.INVALID_CONFIG, "nowhere")


async def test_a_site_without_a_region_needs_a_person(stand: Stand) -> None:
    await given_deployed(stand, STAGE)
    stand.use(maas=None)
    fails(await stand.settle(), F.INVALID_CONFIG, "no MAAS configured")


async def test_a_node_that_is_not_in_maas_needs_none(stand: Stand) -> None:
    stand.decommissions(STAGE)
    stand.node = with_fields(stand.node, site="nowhere")
    skips(await stand.settle(), "not in MAAS")


async def test_neither_does_a_deletion(stand: Stand) -> None:
    await given_deployed(stand, STAGE, options=Options(untouched="not_applicable"))
    skips(await stand.settle(), "not_applicable")
    assert asked(stand) == 0
