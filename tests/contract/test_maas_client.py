"""The MaasClient against a simulated region: its reads, its requests, and the machines that it never changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import httpx
import msgspec
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from farrier.errors import CredentialError
from farrier.model.maas import changes
from farrier.model.maas.changes import Change, LookUp
from farrier.model.maas.reading import MaasError, MaasFailure, MaasStatus, Machine
from farrier.services.maas.client import FRESH, MOST_MACHINES, UNANSWERED_HOLDS
from farrier.services.maas.service import CONCURRENCY
from farrier.sim.maas import ADMIN, OPERATOR, Nature, Region, RegionTransport, Status
from farrier.sim.maas.records import Subnet, Vlan
from tests.support.maas import (
    ABORT,
    COMMISSION,
    DEPLOY,
    NEW,
    RELEASE,
    SETTINGS,
    World,
    commissioned,
    deployed,
    world_of,
)
from tests.support.maas_region import Caller

CHANGES_OF_ANYTHING: tuple[Change, ...] = (
    changes.UpdateMachine(description="mine"),
    COMMISSION,
    ABORT,
    changes.SetBootDisk(device=1),
    changes.SetStorageLayout(layout="flat"),
    changes.CreateBond(name="bond0", parents=(1, 2), mode="802.3ad"),
    changes.CreateVlan(parent=1, vlan=5002),
    changes.UpdateInterface(interface=1, mtu=9000),
    changes.LinkSubnet(interface=1, mode=changes.LinkMode.AUTO, subnet=1),
    DEPLOY,
    RELEASE,
    changes.PowerOff(comment="c"),
    changes.Unlock(comment="c"),
    changes.Delete(),
)
FAR = Vlan(id=5009, fabric_id=7, vid=200)


class Recording(RegionTransport):
    """A region that records its requests."""

    def __init__(self, region: Region) -> None:
        super().__init__(region)
        self.requests: list[httpx.Request] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return await super().handle_async_request(request)


@pytest.fixture
def wire(region: Region) -> Recording:
    return Recording(region)


@pytest.fixture
async def world(wire: Recording) -> AsyncIterator[World]:
    async with world_of(wire) as opened:
        yield opened


async def refusal(world: World, system_id: str, change: Change) -> MaasError:
    machine = await world.client.machine(system_id)
    with pytest.raises(MaasError) as caught:
        await world.client.do(machine, change)
    return caught.value


# --- reads


async def test_many_machines_are_requested_in_pieces(world: World) -> None:
    ids = [f"abc{number}" for number in range(2 * MOST_MACHINES + 1)]
    assert await world.client.machines(LookUp.ID, [*ids, *ids]) == ()
    assert world.observed.operations == ["machines"] * 3


async def test_a_deployed_machine_is_seen_with_its_disks_interfaces_and_rounds(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    assert machine.state is MaasStatus.DEPLOYED
    assert machine.owner == "admin"
    assert machine.enable_hw_sync and machine.last_sync is not None and machine.sync_interval == 900
    assert {one.mac_address for one in machine.interface_set} >= set(NEW.mac_addresses)
    (installation,) = await world.client.results(machine.system_id, "installation")
    assert installation.status_name == "Passed"


async def test_the_networks_of_a_region_are_all_there_with_their_fabrics(world: World, region: Region) -> None:
    region.site.subnets.append(Subnet(id=9, name="far", cidr="10.9.0.0/24", gateway_ip=None, vlan=FAR))
    subnets, vlans = await world.client.subnets(), await world.client.vlans()
    assert {subnet.cidr for subnet in subnets} == {subnet.cidr for subnet in region.site.subnets}
    assert {vlan.id for vlan in vlans} == {vlan.id for vlan in region.site.vlans()}
    (far,) = [subnet for subnet in subnets if subnet.id == 9]
    (there,) = [vlan for vlan in vlans if vlan == far.vlan]
    assert (there.vid, there.fabric, there.fabric_id) == (200, "fabric-7", 7)
    assert world.observed.operations == ["subnets", "fabrics"]


async def test_a_cursor_over_events_misses_none_and_repeats_none(world: World, region: Region) -> None:
    await deployed(world, region)
    everything = await world.client.events()
    seen = await world.client.events(after=0, limit=7)
    while page := await world.client.events(after=seen[-1].id, limit=7):
        seen += page
    assert seen == everything
    assert [event.id for event in seen] == sorted({event.id for event in seen})


async def test_events_are_read_back_page_by_page(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    everything = await world.client.events(system_id=machine.system_id)
    seen = await world.client.events(system_id=machine.system_id, limit=7)
    while page := await world.client.events(system_id=machine.system_id, before=seen[0].id, limit=7):
        seen = (*page, *seen)
    assert seen == everything


# --- owners of machines


@pytest.mark.parametrize("change", CHANGES_OF_ANYTHING, ids=lambda change: type(change).__name__)
async def test_a_machine_of_another_user_is_not_changed(
    world: World, region: Region, wire: Recording, change: Change
) -> None:
    machine = await commissioned(world, region)
    region.machines[machine.system_id].owner = OPERATOR.username
    await world.client.whoami()
    before = len([one for one in wire.requests if one.method != "GET"])
    error = await refusal(world, machine.system_id, change)
    assert error.failure is MaasFailure.FOREIGN_OWNER
    assert "op" in error.detail and not error.ambiguous
    assert len([one for one in wire.requests if one.method != "GET"]) == before


async def test_an_old_reading_of_the_owner_is_repeated_before_a_change(world: World, region: Region) -> None:
    machine = await commissioned(world, region)
    region.machines[machine.system_id].owner = OPERATOR.username
    world.clock.advance(FRESH + timedelta(seconds=1))
    with pytest.raises(MaasError) as refused:
        await world.client.do(machine, DEPLOY)
    assert refused.value.failure is MaasFailure.CONFLICT
    assert region.machines[machine.system_id].status == Status.READY


async def test_a_change_succeeds_if_an_old_reading_still_holds(world: World, region: Region) -> None:
    machine = await commissioned(world, region)
    world.clock.advance(FRESH + timedelta(seconds=1))
    await world.client.do(machine, DEPLOY)
    assert region.machines[machine.system_id].status == Status.DEPLOYING


async def test_a_changed_key_is_checked_for_its_user_again(world: World, region: Region) -> None:
    machine = await deployed(world, region)
    region.machines[machine.system_id].locked = True
    world.key = OPERATOR.key
    with pytest.raises(MaasError) as refused:
        await world.client.do(machine, changes.Unlock(comment="c"))
    assert refused.value.failure is MaasFailure.FOREIGN_OWNER


async def test_the_key_is_read_once_a_second_and_at_once_after_a_refusal(region: Region) -> None:
    async with world_of(RegionTransport(region)) as world:
        for _ in range(3):
            await world.client.version()
        assert world.store.asked == 1
        world.key = "no:such:key"
        with pytest.raises(MaasError):
            await world.client.whoami()
        world.store.key = ADMIN.key
        await world.client.whoami()
        assert world.store.asked == 3, "a key that was refused is not kept"


# --- the way requests are sent


async def test_bodies_are_forms_paths_end_in_a_slash_and_each_signature_is_new(
    world: World, region: Region, wire: Recording
) -> None:
    await deployed(world, region)
    assert all(request.url.path.endswith("/") for request in wire.requests)
    assert {one.headers["content-type"] for one in wire.requests if one.content} == {
        "application/x-www-form-urlencoded"
    }
    signatures = [request.headers["authorization"] for request in wire.requests]
    assert len(set(signatures)) == len(signatures)


async def test_no_more_than_four_requests_are_under_way(region: Region) -> None:
    gate, most, inside = anyio.Event(), [], []

    class Slow(RegionTransport):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            inside.append(request)
            most.append(len(inside))
            await gate.wait()
            inside.remove(request)
            return await super().handle_async_request(request)

    async with world_of(Slow(region)) as world, anyio.create_task_group() as callers:
        for _ in range(3 * CONCURRENCY):
            callers.start_soon(world.client.version)
        await anyio.wait_all_tasks_blocked()
        assert len(inside) == CONCURRENCY
        gate.set()
    assert max(most) == CONCURRENCY
    assert world.observed.requests == [("version", "ok")] * (3 * CONCURRENCY)


async def test_deployments_under_way_leave_slots_to_readings(region: Region) -> None:
    gate = anyio.Event()

    class Hanging(RegionTransport):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if b"op=deploy" in request.url.query:
                await gate.wait()
            return await super().handle_async_request(request)

    busy: list[MaasError] = []

    async def deploy(world: World, machine: Machine) -> None:
        try:
            await world.client.do(machine, DEPLOY)
        except MaasError as error:
            busy.append(error)

    async with world_of(Hanging(region)) as opened:
        machine = await commissioned(opened, region)
        async with anyio.create_task_group() as callers:
            for _ in range(CONCURRENCY):
                callers.start_soon(deploy, opened, machine)
            await anyio.wait_all_tasks_blocked()
            assert [error.failure for error in busy] == [MaasFailure.BUSY] * (CONCURRENCY - SETTINGS.deploys_at_once)
            assert all(error.retry_after for error in busy)
            assert await opened.client.version() == "3.7.3", "reads are not held up"
            gate.set()
    assert region.machines[machine.system_id].status == Status.DEPLOYING


async def test_an_unanswered_deployment_keeps_its_slot_for_a_while(region: Region) -> None:
    """The region may still work on the deployment after the client's timeout."""

    class Silent(RegionTransport):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if b"op=deploy" in request.url.query:
                raise httpx.ReadTimeout("nothing came", request=request)
            return await super().handle_async_request(request)

    async with world_of(Silent(region), deploys_at_once=1) as world:
        machine = await commissioned(world, region)
        assert (await refusal(world, machine.system_id, DEPLOY)).failure is MaasFailure.TIMEOUT
        world.clock.advance(UNANSWERED_HOLDS - timedelta(seconds=1))
        assert (await refusal(world, machine.system_id, DEPLOY)).failure is MaasFailure.BUSY
        world.clock.advance(timedelta(seconds=1))
        assert (await refusal(world, machine.system_id, DEPLOY)).failure is MaasFailure.TIMEOUT


async def test_waiting_for_a_slot_does_not_use_up_the_timeout(region: Region) -> None:
    """The timeout of a request that waits for a slot begins when the request gets the slot."""
    gate, ends = anyio.Event(), []

    class Slow(RegionTransport):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "POST":
                await gate.wait()
            else:
                ends.append(anyio.current_effective_deadline())
            return await super().handle_async_request(request)

    within = timedelta(minutes=1)
    async with world_of(Slow(region), read_timeout=within) as world, anyio.create_task_group() as callers:
        for number in range(CONCURRENCY):
            new = msgspec.structs.replace(NEW, hostname=f"n{number}", mac_addresses=(f"52:54:00:00:01:0{number}",))
            callers.start_soon(world.client.create, new)
        await anyio.wait_all_tasks_blocked()
        callers.start_soon(world.client.version)
        await anyio.wait_all_tasks_blocked()
        waited_until = anyio.current_time()
        gate.set()
    assert len(ends) == 1 and ends[0] >= waited_until + within.total_seconds()


@pytest.mark.parametrize("key", ["nonsense", f"{ADMIN.key}x", f"x{ADMIN.key}"])
async def test_an_invalid_key_is_an_auth_failure_and_in_no_text(world: World, key: str) -> None:
    world.key = key
    with capture_logs() as logs, pytest.raises(MaasError) as refused:
        await world.client.whoami()
    assert refused.value.failure is MaasFailure.AUTH
    secret = key.rpartition(":")[2]
    assert secret not in f"{refused.value!r} {refused.value.__cause__!r} {logs}"


@pytest.mark.parametrize(("temporary", "failure"), [(True, MaasFailure.UNREACHABLE), (False, MaasFailure.AUTH)])
async def test_without_a_readable_key_nothing_is_sent(
    world: World, wire: Recording, *, temporary: bool, failure: MaasFailure
) -> None:
    world.key = CredentialError("vault:farrier/maas", "no answer", temporary=temporary)
    with pytest.raises(MaasError) as refused:
        await world.client.whoami()
    assert refused.value.failure is failure
    assert not wire.requests


# --- changes


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
