"""A node's cleaning by its region, over the whole machinery: released with erasing, seen off by its BMC, checked, and
installed again or deleted. All defaults are those of a site that only names its region."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest

from farrier import agent
from farrier.config.sites import CleaningSite
from farrier.model.maas.scripts import Text
from farrier.model.machine.bmc import PowerState
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.stages import BY_REGION
from farrier.sim.maas import Region, Status
from farrier.sim.maas.records import Remains, ScriptStatus, SetType
from tests.support import pg
from tests.support import site as sites
from tests.support.maas import world_with
from tests.support.maas_region import put_into
from tests.support.onboarded import QUICK, UNSYNCED, active, begun, cleaned, maas_id, manageable, record
from tests.support.site import MINUTE, SECOND, Machine, Site
from tests.support.wire import Blow, Sent, Wire

DEFAULTS = msgspec.structs.replace(UNSYNCED, cleaning=CleaningSite())
EVERY = 10 * SECOND


@pytest.fixture
async def wire() -> Wire:
    region = Region(durations=msgspec.structs.replace(QUICK, test=2 * MINUTE))
    async with world_with(region) as world:
        await world.client.save_script(Text(name=agent.CLEAN_CHECK, text=agent.clean_check()), is_new=True)
    return Wire(region)


@pytest.fixture
async def site(db: pg.Database, wire: Wire) -> AsyncIterator[Site]:
    async with sites.opened(db, region=wire, config=DEFAULTS) as site:
        yield site


async def until(node: Machine, *wanted: str) -> None:
    """Let time pass until the node or its workflow has one of these states, while its BMC shows the machine's power."""
    machine = None

    async def is_there() -> bool:
        nonlocal machine
        if await maas_id(node) is not None:
            machine = node.site.maas.region.machines.get(await maas_id(node) or "", machine)
        if machine is not None:
            node.site.bmc.power = PowerState.OFF if machine.power_state == "off" else PowerState.ON
        if node.key:
            await cleaned(node)
        return bool({*(await node.state())}.intersection(wanted))

    await node.site.wait_until(is_there, every=EVERY, longest=timedelta(hours=3))


async def memo(node: Machine) -> dict[str, object]:
    text = await node.site.conn.fetchval(
        "SELECT memo FROM farrier.node_decommissions WHERE node_id = $1 ORDER BY id DESC LIMIT 1", node.id
    )
    return msgspec.json.decode(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", [DecommissionMode.REIMAGE, DecommissionMode.FULL_DECOMMISSION])
async def test_the_region_erases_and_checks_the_machine_before_the_node_goes_on(
    site: Site, wire: Wire, mode: DecommissionMode
) -> None:
    node = await active(site)
    machine = await record(node)
    assert machine.data, "the users of the node have written data"
    wire.sent.clear()
    await node.asked("decommission", mode=mode)
    await until(node, "wait_for_agent_enrollment", "deleted")
    assert wire.ops[:2] == ["release", "test"]
    kept = await memo(node)
    if mode is DecommissionMode.REIMAGE:
        assert {each["by"] for each in kept["judged"]} == {"region"}, "each stage is proven"  # type: ignore[attr-defined]
        assert kept["evidence"]["by"] == "region" and kept["evidence"]["power_cycle"]  # type: ignore[index]
        assert {device["result"] for device in kept["evidence"]["devices"]} == {"erased"}  # type: ignore[index]
    else:
        assert not {"evidence", "judged"} & kept.keys(), "a deleted node keeps no serial numbers"
    assert await node.path("decommission_stage") == list(BY_REGION[mode])
    tasks = {task["type"] for task in await node.tasks()}
    assert not tasks & {"node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"}


async def test_an_agentless_node_is_cleaned_by_the_region_without_force(site: Site) -> None:
    node = await begun(await manageable(site, agentless=True))
    await until(node, "active")
    await node.asked("decommission", mode="reimage", retire=True)
    await until(node, "completed")
    assert (await node.state())[0] == "retired" and await node.conditions() == {}
    assert {each["by"] for each in (await memo(node))["judged"]} == {"region"}  # type: ignore[attr-defined]


async def test_a_disk_that_keeps_its_data_stops_the_decommission_until_it_is_erased_again(
    site: Site, wire: Wire
) -> None:
    node = await active(site)
    machine = await record(node)
    nature = site.maas.region.nature_of(machine)
    lying = msgspec.structs.replace(nature, lying_disks=frozenset(machine.data))
    site.maas.region.natures[machine.system_id] = lying
    await node.asked("decommission", mode="reimage")
    await until(node, "failed_manual_intervention")
    assert machine.status is Status.FAILED_TESTING and "cleaning/validation_failed" in await node.conditions()
    site.maas.region.natures[machine.system_id] = nature
    wire.sent.clear()
    await node.asked("retry_stage")
    await until(node, "wait_for_agent_enrollment")
    assert wire.ops[:3] == ["mark_broken", "release", "test"]


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("blow", [Blow.LOST, Blow.HANGS, Blow.FAILS, Blow.FAILS_LATE, Blow.NO_RACK, Blow.GARBLED])
async def test_a_region_that_fails_between_erasing_and_test_runs_one_test(site: Site, wire: Wire, blow: Blow) -> None:
    node = await active(site)
    machine = await record(node)
    struck: list[Sent] = []

    def strike(sent: Sent) -> Blow | None:
        if sent.op != "test" or struck:
            return None
        struck.append(sent)
        return blow

    wire.strike = strike
    await node.asked("decommission", mode="reimage", retire=True)
    await until(node, "completed")
    rounds = [each.status for each in machine.script_sets if each.type is SetType.TESTING]
    assert struck and rounds.count(ScriptStatus.PASSED) == 1, "a round that another attempt began is aborted"


async def test_a_machine_that_another_user_allocates_before_the_test_is_not_touched(site: Site, wire: Wire) -> None:
    node = await active(site)
    machine = await record(node)
    await node.asked("decommission", mode="reimage")
    await until(node, "cleanup_storage")
    put_into(machine, Status.ALLOCATED, owner="ann", power="off", previous=Status.READY)
    wire.sent.clear()
    await until(node, "failed_manual_intervention")
    assert wire.ops == [] and (machine.status, machine.owner) == (Status.ALLOCATED, "ann")


async def test_data_between_the_ends_of_a_disk_are_found(site: Site) -> None:
    node = await active(site)
    machine = await record(node)
    await node.asked("decommission", mode="reimage")
    await until(node, "cleanup_storage")
    machine.data = {next(iter(site.maas.region.nature_of(machine).hardware.disks)).serial: Remains.BETWEEN_THE_ENDS}
    await until(node, "failed_manual_intervention")


async def test_a_live_decommission_keeps_who_cleans_when_the_sites_file_changes(site: Site) -> None:
    node = await active(site)
    await node.asked("decommission", mode="reimage")
    kept = await site.conn.fetchval(
        "SELECT options ->> 'cleaned_by' FROM farrier.node_decommissions WHERE node_id = $1", node.id
    )
    assert kept == "region"
