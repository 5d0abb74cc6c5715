"""A node's whole life in MAAS: onboarded, reinstalled, cleaned and deleted, and the machine that remains in MAAS."""

from __future__ import annotations

import msgspec
import pytest

from farrier.config.sites import ReleaseSite
from farrier.model.node.layers import DecommissionMode, OnboardingMode
from farrier.model.node.snapshot import TaskType
from farrier.model.node.stages import PATHS
from farrier.sim.maas import ADMIN, Region, Status
from tests.support import pg
from tests.support import site as sites
from tests.support.onboarded import (
    UNSYNCED,
    active,
    begun,
    cleaned,
    deployed,
    enrolled,
    manageable,
    record,
    token_of,
    until,
    until_held,
)
from tests.support.site import MINUTE, Machine, Site
from tests.support.wire import Blow, Nth, Wire

FORGETS = msgspec.structs.replace(UNSYNCED, release=ReleaseSite(remove_record=True))


async def stages(node: Machine, layer: str, *, since: int = 0) -> list[str]:
    """Every stage that the node's workflows of a kind entered, in order."""
    return (await node.path(f"{layer}_stage"))[since:]


async def test_a_node_goes_through_every_stage_in_order_until_its_agent_is_up(db: pg.Database) -> None:
    """Tested with the default durations of the simulated region, and with the second hardware sync."""
    wire = Wire(Region())
    async with sites.opened(db, region=wire) as site:
        node = await begun(await manageable(site))
        await until(node, "wait_for_agent_enrollment", every=2 * MINUTE)
        machine = await record(node)
        assert (machine.status, machine.owner, machine.hostname) == (Status.DEPLOYED, ADMIN.username, node.name)
        assert await node.path() == ["enrolling"]
        await enrolled(node)
        assert (await node.state())[:2] == ("active", "completed")
        assert await stages(node, "onboarding") == list(PATHS[OnboardingMode.DEPLOY])
        assert wire.ops == ["create", "commission", "set_boot_disk", "set_storage_layout", "deploy"]


async def test_a_reimaged_node_is_the_same_node_with_another_system_and_another_agent(site: Site, wire: Wire) -> None:
    node = await active(site)
    machine, token, key = await record(node), token_of(await record(node)), node.key
    wire.sent.clear()
    await cleaned(await node.asked("decommission", mode="reimage"))
    await until(node, "commission_node", "wait_for_agent_enrollment")
    with pytest.raises(pg.PostgresError):
        await node.beat()
    await deployed(node)
    assert await record(node) is machine
    assert token_of(machine) != token
    with pytest.raises(pg.PostgresError):
        await node.enroll(token)
    assert (await node.look())["status"] == "retired"
    await enrolled(node)
    assert node.key != key
    assert (await node.path())[-3:] == ["retired", "offline", "active"]
    assert await stages(node, "decommission") == list(PATHS[DecommissionMode.REIMAGE])
    assert await stages(node, "onboarding") == 2 * list(PATHS[OnboardingMode.DEPLOY])
    assert wire.ops == ["release", "update", "deploy"], "the update gives MAAS the current BMC account"


async def test_a_node_that_is_fully_decommissioned_is_gone_from_maas(site: Site, wire: Wire) -> None:
    node = await active(site)
    wire.sent.clear()
    await cleaned(await node.asked("decommission", mode="full_decommission"))
    await until(node, "deleted")
    assert not site.maas.region.machines
    assert wire.ops == ["release", "delete"]
    assert await stages(node, "decommission") == list(PATHS[DecommissionMode.FULL_DECOMMISSION])
    ended = {task["type"]: task["status"] for task in await node.tasks()}
    assert ended.pop(TaskType.UNINSTALL) == "cancelled"  # the system to uninstall the agent from is erased
    assert set(ended.values()) == {"succeeded"}


async def test_a_new_node_may_have_the_name_the_bmc_and_the_machine_of_a_deleted_one(site: Site) -> None:
    first = await active(site)
    await cleaned(await first.asked("decommission", mode="full_decommission"))
    await until(first, "deleted")
    second = await active(site, name=first.name, bmc_address="https://10.0.0.1")
    assert second.id != first.id and (await record(second)).hostname == first.name


@pytest.mark.parametrize("running", [True, False], ids=["deployed", "released"])
async def test_storage_cleanup_removes_the_record_of_a_machine_that_is_not_deployed(
    db: pg.Database, wire: Wire, running: bool
) -> None:
    async with sites.opened(db, region=wire, config=FORGETS) as site:
        node = await active(site)
        machine = await record(node)
        await node.asked("decommission", mode="storage_cleanup", retire=True)
        if not running:
            site.maas.region.move(machine, Status.READY)
            machine.owner = None
        await cleaned(node)
        await until(node, "completed")
        assert (await node.state())[0] == "retired"
        assert await stages(node, "decommission") == list(PATHS[DecommissionMode.STORAGE_CLEANUP])
        assert (machine.system_id in site.maas.region.machines) == running
        assert ("delete" in wire.ops) == (not running)


async def test_a_node_that_is_deleted_while_it_is_commissioned_leaves_maas_as_before(site: Site, wire: Wire) -> None:
    node = await begun(await manageable(site))
    machine = await record(node)
    assert machine.status.name == "COMMISSIONING"
    await node.asked("delete")
    await until(node, "deleted")
    assert (machine.status, machine.owner) == (Status.NEW, None)
    assert wire.ops == ["create", "commission", "abort"]
    assert (await node.path("onboarding"))[-2:] == ["compensating", "cancelled"]
    assert await node.path() == ["enrolling", "quarantined", "draining", "retired", "removing", "deleted"]


async def test_at_a_site_that_keeps_no_records_a_deleted_node_leaves_nothing_in_maas(
    db: pg.Database, wire: Wire
) -> None:
    async with sites.opened(db, region=wire, config=FORGETS) as site:
        node = await deployed(await begun(await manageable(site)))
        await node.asked("delete")
        await until(node, "deleted")
        assert not site.maas.region.machines
        assert wire.ops[-2:] == ["release", "delete"]


@pytest.mark.matrix(keep=2)
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_an_onboarding_cancelled_during_a_change_in_maas_is_undone_and_can_be_repeated(
    site: Site, wire: Wire, number: int
) -> None:
    wire.strike = Nth(number, Blow.HELD)
    node = await manageable(site)
    await node.tell("onboard", mode="deploy")
    assert await until_held(node)
    asked = await node.tell("cancel")
    wire.let_go()
    await site.settled()
    assert (await site.answer(asked)).status == "accepted"
    await until(node, "cancelled")
    (machine,) = site.maas.region.machines.values()
    assert (machine.status in (Status.NEW, Status.READY), machine.owner) == (True, None)
    assert (await node.state())[0] == "enrolling"
    await enrolled(await deployed(await begun(node)))
    assert (await node.state())[0] == "active"
    assert wire.ops.count("create") == 1 and await record(node) is machine


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("stage", ["wait_for_ready", "wait_for_deployed", "wait_for_agent_enrollment"])
async def test_an_onboarding_cancelled_while_it_waits_is_undone_and_can_be_repeated(
    site: Site, wire: Wire, stage: str
) -> None:
    node = await begun(await manageable(site))
    await until(node, stage)
    machine = await record(node)
    await node.asked("cancel")
    await until(node, "cancelled")
    assert (machine.status in (Status.NEW, Status.READY), machine.owner) == (True, None)
    await enrolled(await deployed(await begun(node)))
    assert (await node.state())[0] == "active"
