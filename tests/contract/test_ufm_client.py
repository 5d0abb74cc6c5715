"""The contract of the UFM client, tested against the simulated UFM and, if the environment names one, a real UFM.

The simulation obeys the rules that are tested here; the client's behaviour with a faulty UFM is tested in
`test_ufm_client_faults`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import pytest

from farrier.model.partition.ufm import (
    Add,
    Create,
    DeleteKey,
    Membership,
    PartitionPort,
    Pkey,
    Qos,
    RemovePorts,
    SetPorts,
    SetQos,
    UfmFailure,
)
from farrier.sim.ufm import Manager, open_ufm
from tests.support.ufm import GUIDS, QOS, World, failing, wanted, world_of, world_of_the_real_one, world_with

KEY = int(os.environ.get("FARRIER_TEST_UFM_PKEY", "0x7abc"), 16)


@pytest.fixture(params=["simulated", "simulated with a token", "real"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A client of a UFM that has no partition `KEY`; a partition that the test makes is deleted at the end."""
    if request.param == "real":
        opened = world_of_the_real_one()
    else:
        opened = world_with(Manager(), token="env:TOKEN" if "token" in request.param else "")
    async with opened as world:
        if await world.client.read_anew(KEY) is not None:
            pytest.fail(f"this UFM has {KEY:#x} already")
        yield world
        if await world.client.read_anew(KEY) is not None:
            await world.client.do(DeleteKey(wanted(KEY)))


async def test_a_created_partition_is_read_with_its_settings(world: World) -> None:
    await world.client.do(Create(wanted(KEY)))
    found = await world.client.read(KEY)
    assert found is not None
    assert (found.number, found.ip_over_ib, found.qos, dict(found.ports)) == (KEY, True, QOS, {})


async def test_added_ports_are_members_until_they_are_removed(world: World) -> None:
    await world.client.do(Create(wanted(KEY)))
    await world.client.do(Add(wanted(KEY), GUIDS[:2], Membership.FULL))
    await world.client.do(Add(wanted(KEY), GUIDS[2:], Membership.LIMITED))
    found = await world.client.read(KEY)
    assert found is not None
    assert {guid: port.membership.value for guid, port in found.ports.items()} == {
        GUIDS[0]: "full",
        GUIDS[1]: "full",
        GUIDS[2]: "limited",
    }
    await world.client.do(RemovePorts(wanted(KEY), GUIDS[:2]))
    found = await world.client.read(KEY)
    assert found is not None and list(found.ports) == [GUIDS[2]]


async def test_set_ports_replaces_all_ports(world: World) -> None:
    await world.client.do(Create(wanted(KEY)))
    await world.client.do(Add(wanted(KEY), GUIDS[:2], Membership.FULL))
    ports = {GUIDS[1]: PartitionPort(Membership.LIMITED), GUIDS[2]: PartitionPort(Membership.FULL)}
    await world.client.do(SetPorts(wanted(KEY), ports))
    found = await world.client.read(KEY)
    assert found is not None
    assert found.ports == ports


async def test_services_can_be_changed(world: World) -> None:
    await world.client.do(Create(wanted(KEY)))
    qos = Qos(mtu_limit=2, rate_limit=2.5, service_level=0)
    await world.client.do(SetQos(wanted(KEY, qos=qos)))
    found = await world.client.read(KEY)
    assert found is not None and found.qos == qos


async def test_a_deleted_partition_is_gone_with_its_ports(world: World) -> None:
    await world.client.do(Create(wanted(KEY)))
    await world.client.do(Add(wanted(KEY), GUIDS, Membership.FULL))
    await world.client.do(DeleteKey(wanted(KEY)))
    assert await world.client.read_anew(KEY) is None
    assert await world.client.read(KEY) is None


async def test_an_invalid_creation_is_refused_by_ufm_and_changes_nothing(world: World) -> None:
    with failing() as caught:
        await world.client.do(Create(wanted(KEY, qos=Qos(mtu_limit=3, rate_limit=200, service_level=0))))
    assert caught[0].is_refusal and not caught[0].ambiguous
    assert await world.client.read_anew(KEY) is None


async def test_every_request_is_observed_with_its_operation(world: World) -> None:
    before = len(world.observed.requests)
    await world.client.do(Create(wanted(KEY)))
    await world.client.read(KEY)
    assert world.observed.requests[before:] == [("create", "ok"), ("list_ports", "ok"), ("list_qos", "ok")]


async def test_the_client_works_over_a_real_socket() -> None:
    manager = Manager()
    async with open_ufm(manager) as url, world_of(None, url=url) as world:
        await world.client.do(Create(wanted(0x12)))
        found = await world.client.read(0x12)
    assert found == Pkey(number=0x12, name="api_pkey_0x12", qos=QOS)
    assert manager.partitions[0x12].mtu_limit == 4


async def test_a_name_is_sent_only_if_one_is_given() -> None:
    manager = Manager()
    async with world_with(manager) as world:
        await world.client.do(Create(wanted(0x12, name="tenant-a")))
        await world.client.do(Create(wanted(0x13)))
        await world.client.do(SetPorts(wanted(0x13, name="tenant-b"), {GUIDS[0]: PartitionPort()}))
    assert [manager.partitions[number].name for number in (0x12, 0x13)] == ["tenant-a", "tenant-b"]


# --- a reading is shared


async def test_a_thousand_reads_within_ten_seconds_share_one_reading() -> None:
    async with world_with(Manager()) as world, anyio.create_task_group() as group:
        for number in range(1, 1001):
            group.start_soon(world.client.read, number)
    assert world.observed.operations == ["list_ports", "list_qos"]


async def test_a_reading_is_made_anew_when_it_is_ten_seconds_old() -> None:
    async with world_with(Manager()) as world:
        await world.client.read(1)
        world.clock.advance(timedelta(seconds=9.9))
        await world.client.read(1)
        world.clock.advance(timedelta(seconds=0.1))
        await world.client.read(1)
    assert world.observed.operations == ["list_ports", "list_qos"] * 2


async def test_after_a_change_only_a_read_of_that_partition_makes_a_new_reading() -> None:
    async with world_with(Manager()) as world:
        assert await world.client.read(1) is None
        await world.client.do(Create(wanted(1)))
        await world.client.read(2)
        assert world.observed.operations == ["list_ports", "list_qos", "create"]
        assert await world.client.read(1) is not None
    assert world.observed.operations[3:] == ["list_ports", "list_qos"]


async def test_a_fresh_read_begins_a_new_reading() -> None:
    manager = Manager()
    async with world_with(manager) as world:
        await world.client.read(1)
        async with world_with(manager) as another:
            await another.client.do(Create(wanted(1)))
        assert await world.client.read(1) is None
        assert await world.client.read(1, fresh=True) is not None


async def test_a_number_without_its_sixteenth_bit_is_the_same_number() -> None:
    manager = Manager()
    async with world_with(manager) as world:
        manager.partitions[0x8012] = manager.partitions.pop(0x7FFF)
        found = await world.client.read(0x12)
    assert found is not None and found.number == 0x12


async def test_a_port_outside_of_the_fabric_is_refused_with_all_ports_of_its_request() -> None:
    manager = Manager()
    manager.ports = {GUIDS[0]}
    async with world_with(manager) as world:
        await world.client.do(Create(wanted(1)))
        with failing() as caught:
            await world.client.do(Add(wanted(1), GUIDS[:2], Membership.FULL))
        found = await world.client.read(1)
    assert (caught[0].failure, caught[0].is_refusal) == (UfmFailure.ABSENT, True)
    assert GUIDS[1] in caught[0].detail
    assert found is not None and not found.ports
