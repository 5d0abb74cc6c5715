"""Changes that the MaasClient sends to a simulated region are made, or refused with a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from farrier.model.maas import changes
from farrier.model.maas.changes import Change
from farrier.model.maas.reading import MaasError, MaasFailure, MaasStatus
from farrier.sim.maas import ADMIN, OPERATOR, Nature, Region, RegionTransport, Status
from farrier.sim.maas.records import Subnet
from tests.support.maas import DEPLOY, NEW, RELEASE, World, commissioned, deployed, world_of
from tests.support.maas_region import Caller


@pytest.fixture
async def world(region: Region) -> AsyncIterator[World]:
    async with world_of(RegionTransport(region)) as opened:
        yield opened


async def refusal(world: World, system_id: str, change: Change) -> MaasError:
    machine = await world.client.machine(system_id)
    with pytest.raises(MaasError) as caught:
        await world.client.do(machine, change)
    return caught.value


async def test_a_machine_is_deployed_locked_unlocked_and_released(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    region.machines[machine.system_id].locked = True
    locked = await refusal(world, machine.system_id, RELEASE)
    assert locked.failure is MaasFailure.FORBIDDEN
    await world.client.do(machine, changes.Unlock(comment="c"))
    await world.client.do(await world.client.machine(machine.system_id), RELEASE)
    region.advance(timedelta(hours=3))
    released = await world.client.machine(machine.system_id)
    assert (released.state, released.owner) == (MaasStatus.READY, None)
    await world.client.do(released, changes.PowerOff(comment="c"))
    await world.client.do(released, changes.Delete())
    with pytest.raises(MaasError) as second:
        await world.client.do(released, changes.Delete())
    assert second.value.failure is MaasFailure.ABSENT
    assert not second.value.ambiguous


async def test_a_link_requested_twice_exists_once(world: World, region: Region) -> None:
    machine = await commissioned(world, region)
    boot = machine.boot_interface
    assert boot is not None and boot.links[0].subnet is not None
    link = changes.LinkSubnet(interface=boot.id, mode=changes.LinkMode.AUTO, subnet=boot.links[0].subnet.id)
    for _ in range(2):
        await world.client.do(machine, link)
    after = (await world.client.machine(machine.system_id)).boot_interface
    assert after is not None
    assert [one.mode for one in after.links] == ["auto"]


async def test_a_change_in_a_forbidding_state_is_a_conflict_with_the_text_of_maas(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    error = await refusal(world, machine.system_id, DEPLOY)
    assert error.failure is MaasFailure.CONFLICT
    assert "'Deployed' state" in error.detail
    assert not error.ambiguous


async def test_a_second_creation_is_refused_with_the_fields_that_exist_already(world: World) -> None:
    await world.client.create(NEW)
    with pytest.raises(MaasError) as second:
        await world.client.create(NEW)
    assert second.value.failure is MaasFailure.INVALID
    assert set(second.value.fields) & {"hostname", "mac_addresses"}


async def test_a_static_address_in_use_has_its_own_failure_class(world: World, region: Region) -> None:
    machine = await commissioned(world, region)
    boot = machine.boot_interface
    assert boot is not None and boot.links[0].subnet is not None
    region.claimed.add("10.20.0.77")
    link = changes.LinkSubnet(
        interface=boot.id, mode=changes.LinkMode.STATIC, subnet=boot.links[0].subnet.id, ip_address="10.20.0.77"
    )
    assert (await refusal(world, machine.system_id, link)).failure is MaasFailure.ADDRESS_TAKEN


async def test_an_exhausted_subnet_is_a_lack_of_capacity_and_farriers_user_keeps_the_machine(
    world: World, region: Region
) -> None:
    machine = await commissioned(world, region)
    boot = machine.boot_interface
    tiny = Subnet(id=9, name="tiny", cidr="10.9.0.0/30", gateway_ip=None, vlan=region.site.subnets[0].vlan)
    region.site.subnets.append(tiny)
    assert boot is not None
    link = changes.LinkSubnet(interface=boot.id, mode=changes.LinkMode.AUTO, subnet=9)
    await world.client.do(machine, link)
    region.claimed.update(f"10.9.0.{number}" for number in range(4))
    error = await refusal(world, machine.system_id, DEPLOY)
    assert error.failure is MaasFailure.CAPACITY and "No more IPs available in subnet: 10.9.0.0/30" in error.detail
    left = region.machines[machine.system_id]
    assert (left.status, left.owner) == (Status.ALLOCATED, ADMIN.username)


async def test_an_erasing_release_without_a_bmc_fails_and_goes_on_once_it_is_back(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    region.natures[machine.system_id] = Nature(bmc_error="no route to host")
    erasing = changes.Release(comment="c", erase=True)
    first, second = [await refusal(world, machine.system_id, erasing) for _ in range(2)]
    assert (first.failure, second.failure) == (MaasFailure.POWER, MaasFailure.POWER)
    assert "through its BMC" in first.detail and "Disk erasing -> Deployed" in first.detail
    assert region.machines[machine.system_id].status == Status.FAILED_DISK_ERASING
    del region.natures[machine.system_id]
    await world.client.do(await world.client.machine(machine.system_id), erasing)
    region.advance(timedelta(hours=3))
    assert region.machines[machine.system_id].status == Status.READY


async def test_rescue_mode_makes_its_user_the_owner_of_the_machine(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    other = Caller(region, OPERATOR)
    region.machines[machine.system_id].owner = OPERATOR.username
    await Caller(region).post(f"machines/{machine.system_id}/?op=rescue_mode")
    assert region.machines[machine.system_id].owner == ADMIN.username
    region.advance(timedelta(hours=1))
    await Caller(region).post(f"machines/{machine.system_id}/?op=exit_rescue_mode")
    region.advance(timedelta(hours=1))
    left = region.machines[machine.system_id]
    assert (left.status, left.owner) == (Status.DEPLOYED, ADMIN.username)
    assert (await other.get(f"machines/{machine.system_id}/")).status_code == 403
