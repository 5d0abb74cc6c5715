"""Each change that is sent to the region fails once, in each way: the node reaches its goal, and no change that would
do harm is made twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.sim.maas import DeployFate, Region, Status
from farrier.sim.maas.records import ScriptSet, ScriptStatus, SetType
from tests.support import pg
from tests.support import site as sites
from tests.support.demanding import DEMANDING, ON_THE_WAY_IN, ONLY_ONCE, demanding_region, is_set_up_once
from tests.support.maas_region import Caller, created
from tests.support.onboarded import active, begun, cleaned, deployed, enrolled, manageable, record, until
from tests.support.site import Site
from tests.support.stages import MAC
from tests.support.wire import Blow, EachOnce, Wire

BLOWS = [blow for blow in Blow if blow not in (Blow.HELD, Blow.HELD_AFTER)]


@pytest.fixture
def wire() -> Wire:
    return Wire(demanding_region())


@pytest.fixture
async def site(db: pg.Database, wire: Wire) -> AsyncIterator[Site]:
    async with sites.opened(db, region=wire, config=DEMANDING) as opened:
        await opened.settled()
        yield opened


@pytest.mark.matrix(keep=2)
@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.name.lower())
async def test_a_node_reaches_its_goal_although_each_change_fails_once(site: Site, wire: Wire, blow: Blow) -> None:
    wire.strike = strike = EachOnce(blow)
    node = await active(site)
    machine = await record(node)
    assert {*strike.struck} == ON_THE_WAY_IN
    assert [*site.maas.region.machines] == [machine.system_id]
    is_set_up_once(machine)
    machine.locked = True
    await cleaned(await node.asked("decommission", mode="full_decommission", force=True, reason="an old lock"))
    await until(node, "deleted")
    assert {*strike.struck} == ON_THE_WAY_IN | {"unlock", "release", "delete"}
    assert not site.maas.region.machines
    assert {*await node.path()} == {"enrolling", "active", "draining", "retired", "removing", "deleted"}
    # The client recognises a change that was made, and repeats only a change that was not made.
    assert {op: wire.ops.count(op) for op in ONLY_ONCE} == dict.fromkeys(ONLY_ONCE, 1 if blow.is_done_first else 2)


def its_enlistment(region: Region) -> ScriptSet:
    """The scripts that a machine runs when MAAS finds it by its network boot."""
    return ScriptSet(
        id=region.next_id("script set"),
        result_id=region.next_id("script result"),
        type=SetType.COMMISSIONING,
        name="maas-lshw",
        status=ScriptStatus.PASSED,
        created=region.now,
    )


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("blow", [Blow.LOST, Blow.LATE], ids=lambda blow: blow.name.lower())
async def test_a_discovered_machine_gets_its_name_and_bmc_although_the_response_is_lost(
    site: Site, wire: Wire, blow: Blow
) -> None:
    """The machine booted from the network before its node was registered, and has neither name nor BMC in MAAS."""
    discovered = await created(Caller(site.maas.region), hostname="fond-mole", mac_addresses=MAC, power_type="")
    site.maas.region.machines[discovered].script_sets.append(its_enlistment(site.maas.region))
    wire.strike = strike = EachOnce(blow)
    node = await active(site)
    machine = await record(node)
    assert machine.system_id == discovered
    assert (machine.hostname, machine.power_type) == (node.name, "redfish")
    assert {*strike.struck} == ON_THE_WAY_IN - {"create"} | {"update"}
    assert wire.ops.count("deploy") == wire.ops.count("update") == 1
    is_set_up_once(machine)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("blow", [Blow.LOST, Blow.LATE, Blow.FAILS], ids=lambda blow: blow.name.lower())
async def test_an_undo_ends_although_the_responses_to_its_changes_are_lost(site: Site, wire: Wire, blow: Blow) -> None:
    node = await begun(await manageable(site))
    await until(node, "wait_for_deployed")
    machine = await record(node)
    wire.strike = strike = EachOnce(blow)
    await node.asked("cancel")
    await until(node, "cancelled")
    assert strike.struck == ["abort", "release"]
    assert (machine.status, machine.owner) == (Status.READY, None)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("blow", [Blow.LOST, Blow.LATE, Blow.FAILS], ids=lambda blow: blow.name.lower())
async def test_a_deployment_that_failed_is_followed_by_one_more_although_answers_are_lost(
    site: Site, wire: Wire, blow: Blow
) -> None:
    node = await begun(await manageable(site))
    region = site.maas.region
    region.default_nature = msgspec.structs.replace(region.default_nature, deploy=DeployFate.STORAGE_FAILS)
    wire.strike = EachOnce(blow)
    await until(node, "recover_for_datasource_retry", "classify_deploy_failure")
    region.default_nature = msgspec.structs.replace(region.default_nature, deploy=DeployFate.SUCCEEDS)
    await enrolled(await deployed(node))
    machine = await record(node)
    started = [event for event in region.events.of(machine.system_id) if event.type == START]
    assert [event.description.rpartition(" ")[2] for event in started] == ["1", "2"]
    assert (await node.state())[:2] == ("active", "completed")
    is_set_up_once(machine)
