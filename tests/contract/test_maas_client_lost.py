"""The response to every change is lost once: the client reports that it may have been made, and a read shows it.

Each case has the check by which the next run recognises the change without making it again: a field that a stage reads
anyway, or the comment in the region's events. The client itself sends nothing twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, get_args

import msgspec
import pytest

from farrier.agent import CLEAN_CHECK, clean_check
from farrier.model.maas import changes
from farrier.model.maas.changes import Change, LinkMode, LookUp
from farrier.model.maas.reading import Interface, MaasError, MaasFailure, MaasStatus, Machine, StatusNumber
from farrier.model.maas.scripts import Text
from farrier.sim.maas import Broken, Fault, Region
from tests.support.maas import COMMISSION, DEPLOY, NEW, World, commissioned, deployed, world_with

COMMENT = "workflow 7/9"
LEAVES_ITS_COMMENT = (
    changes.Abort,
    changes.Deploy,
    changes.Release,
    changes.Unlock,
)
ROCE_VLAN = 5002
SCRIPT = Text(name=CLEAN_CHECK, text=clean_check())

Start: TypeAlias = Callable[[World, Region], Awaitable[Machine]]
Make: TypeAlias = Callable[[Machine], Change]
Seen: TypeAlias = Callable[[Machine, tuple[Interface, ...]], bool]


class Case(msgspec.Struct, frozen=True):
    """A start, a change, and the check that a reading shows the change."""

    start: Start
    make: Make
    seen: Seen


async def new(world: World, region: Region) -> Machine:
    return await world.client.create(NEW)


async def prepared(world: World, region: Region) -> Machine:
    await world.client.save_script(SCRIPT, is_new=True)
    return await commissioned(world, region)


async def deploying(world: World, region: Region) -> Machine:
    machine = await commissioned(world, region)
    await world.client.do(machine, DEPLOY)
    return await world.client.machine(machine.system_id)


async def locked(world: World, region: Region) -> Machine:
    machine = await deployed(world, region)
    region.machines[machine.system_id].locked = True
    return await world.client.machine(machine.system_id)


def boot(machine: Machine) -> Interface:
    assert machine.boot_interface is not None
    return machine.boot_interface


def others(machine: Machine) -> tuple[Interface, ...]:
    return tuple(one for one in machine.interface_set if one.id != boot(machine).id)


def formatted(machine: Machine) -> bool:
    return any(part.filesystem is not None for disk in machine.blockdevice_set for part in disk.partitions)


def relinked(machine: Machine) -> Change:
    subnet = boot(machine).links[0].subnet
    assert subnet is not None
    return changes.LinkSubnet(interface=boot(machine).id, mode=LinkMode.DHCP, subnet=subnet.id)


CASES: dict[str, Case] = {
    "UpdateMachine": Case(new, lambda _: changes.UpdateMachine(hostname="gpu002"), lambda m, _: m.hostname == "gpu002"),
    "Commission": Case(
        new, lambda _: COMMISSION, lambda m, _: m.state is MaasStatus.COMMISSIONING and m.owner == "admin"
    ),
    "Abort": Case(deploying, lambda _: changes.Abort(comment=COMMENT), lambda m, _: m.state is MaasStatus.ALLOCATED),
    "SetBootDisk": Case(
        commissioned,
        lambda m: changes.SetBootDisk(device=m.blockdevice_set[-1].id),
        lambda m, _: m.boot_disk is not None and m.boot_disk.id == m.blockdevice_set[-1].id,
    ),
    "SetStorageLayout": Case(
        commissioned,
        lambda _: changes.SetStorageLayout(layout="blank"),
        lambda m, _: not formatted(m),
    ),
    "CreateBond": Case(
        commissioned,
        lambda m: changes.CreateBond(name="bond0", parents=tuple(o.id for o in others(m)), mode="802.3ad"),
        lambda _, interfaces: [one.type for one in interfaces if one.name == "bond0"] == ["bond"],
    ),
    "CreateVlan": Case(
        commissioned,
        lambda m: changes.CreateVlan(parent=others(m)[0].id, vlan=ROCE_VLAN),
        lambda _, interfaces: [one.type for one in interfaces if one.vlan and one.vlan.id == ROCE_VLAN] == ["vlan"],
    ),
    "UpdateInterface": Case(
        commissioned,
        lambda m: changes.UpdateInterface(interface=others(m)[0].id, name="roce0"),
        lambda _, interfaces: [one.name for one in interfaces].count("roce0") == 1,
    ),
    "LinkSubnet": Case(
        commissioned,
        relinked,
        lambda m, _: [link.mode for link in boot(m).links] == ["dhcp"],
    ),
    "Deploy": Case(
        commissioned,
        lambda _: msgspec.structs.replace(DEPLOY, comment=COMMENT),
        lambda m, _: m.state is MaasStatus.DEPLOYING and m.owner == "admin",
    ),
    "Release": Case(
        deployed, lambda _: changes.Release(comment=COMMENT), lambda m, _: m.state is not MaasStatus.DEPLOYED
    ),
    "TestMachine": Case(
        prepared,
        lambda _: changes.TestMachine(script=SCRIPT.name),
        lambda m, _: m.status == StatusNumber.TESTING,
    ),
    "MarkBroken": Case(
        deployed, lambda _: changes.MarkBroken(comment=COMMENT), lambda m, _: m.state is MaasStatus.BROKEN
    ),
    "PowerOff": Case(deployed, lambda _: changes.PowerOff(comment=COMMENT), lambda m, _: m.power_state == "off"),
    "Unlock": Case(locked, lambda _: changes.Unlock(comment=COMMENT), lambda m, _: not m.locked),
}


def test_every_kind_of_change_has_a_case() -> None:
    assert {*CASES, "Delete"} == {kind.__name__ for kind in get_args(Change)}


def lose_the_next_answer(region: Region, world: World) -> Fault:
    world.observed.requests.clear()
    return region.faults.add(Fault(path="*", broken=Broken.DROP))


def sent_once_and_lost(error: MaasError, fault: Fault, world: World) -> None:
    assert error.ambiguous
    assert error.failure is MaasFailure.UNREACHABLE
    assert fault.struck == 1
    assert world.observed.requests == [(error.operation, "unreachable")], "the change was sent once"


@pytest.mark.parametrize("name", CASES)
async def test_a_change_with_a_lost_response_is_recognised_by_a_read(name: str) -> None:
    case, region = CASES[name], Region()
    async with world_with(region) as world:
        machine = await case.start(world, region)
        change = case.make(machine)
        assert type(change).__name__ == name
        assert not case.seen(machine, (await world.client.machine(machine.system_id)).interface_set)
        last = max((event.id for event in await world.client.events()), default=0)
        await world.client.holds(msgspec.structs.replace(machine, owner="admin"))  # reads the user of the key
        fault = lose_the_next_answer(region, world)
        with pytest.raises(MaasError) as lost:
            await world.client.do(machine, change)
        sent_once_and_lost(lost.value, fault, world)
        after = await world.client.machine(machine.system_id)
        assert case.seen(after, after.interface_set)
        if isinstance(change, LEAVES_ITS_COMMENT):
            ours = [event for event in await world.client.events(after=last) if event.carries(COMMENT)]
            assert ours and {event.node for event in ours} == {machine.system_id}


async def test_a_machine_whose_creation_got_no_response_is_found_and_not_made_twice() -> None:
    region = Region()
    async with world_with(region) as world:
        fault = lose_the_next_answer(region, world)
        with pytest.raises(MaasError) as lost:
            await world.client.create(NEW)
        sent_once_and_lost(lost.value, fault, world)
        (found,) = await world.client.machines(LookUp.HOSTNAME, [NEW.hostname])
        assert found.description == NEW.description
        with pytest.raises(MaasError) as second:
            await world.client.create(NEW)
        assert second.value.failure is MaasFailure.INVALID
        assert len(region.machines) == 1


async def test_a_machine_whose_deletion_got_no_response_is_absent() -> None:
    region = Region()
    async with world_with(region) as world:
        machine = await new(world, region)
        fault = lose_the_next_answer(region, world)
        with pytest.raises(MaasError) as lost:
            await world.client.do(machine, changes.Delete())
        sent_once_and_lost(lost.value, fault, world)
        with pytest.raises(MaasError) as second:
            await world.client.do(machine, changes.Delete())
        assert second.value.failure is MaasFailure.ABSENT


@pytest.mark.parametrize("name", ["Deploy", "Abort", "CreateBond"])
async def test_a_repeated_change_that_would_do_harm_is_refused(name: str) -> None:
    """A client that repeats the change without a read is refused, and then reads."""
    case, region = CASES[name], Region()
    async with world_with(region) as world:
        machine = await case.start(world, region)
        change = case.make(machine)
        await world.client.do(machine, change)
        with pytest.raises(MaasError) as second:
            await world.client.do(machine, change)
        assert second.value.failure in {MaasFailure.CONFLICT, MaasFailure.INVALID}
        assert not second.value.ambiguous
