"""Clients check the step's lease immediately before each request that changes something, and before no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.errors import LeaseLost
from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import LOGIN_CAP, BmcAuth, BmcTarget, PowerState
from farrier.model.partition.ufm import Create
from farrier.protocols.permit import acting_while, require_lease
from farrier.sim.maas import Region, RegionTransport, Status
from farrier.sim.ufm import Manager
from tests.support.bmc import CREDENTIAL, SYSTEM, FakeBmc, connect, system
from tests.support.maas import DEPLOY, commissioned, world_of
from tests.support.ufm import wanted, world_with

KEY = 0x7ABC


def lost() -> None:
    raise LeaseLost("the lease ended")


async def test_maas_is_read_and_not_changed() -> None:
    region = Region()
    async with world_of(RegionTransport(region)) as world:
        machine = await commissioned(world, region)
        with acting_while(lost):
            await world.client.machine(machine.system_id)
            with pytest.raises(LeaseLost):
                await world.client.do(machine, DEPLOY)
    assert region.machines[machine.system_id].status == Status.READY


async def test_ufm_is_read_and_not_changed() -> None:
    async with world_with(Manager()) as world:
        with acting_while(lost):
            assert await world.client.read_anew(KEY) is None
            with pytest.raises(LeaseLost):
                await world.client.do(Create(wanted(KEY)))
        assert await world.client.read_anew(KEY) is None


async def test_a_bmc_is_read_and_not_switched(bmc: FakeBmc) -> None:
    bmc.answer(SYSTEM, system(PowerState="On"))
    target = BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM)
    async with connect(bmc.ca_file) as client:
        with acting_while(lost):
            await client.read(target)
            with pytest.raises(LeaseLost):
                await client.set_power(target, PowerRequest.OFF)
    assert [request.path for request in bmc.requests if request.method != "GET"] == []


async def test_a_login_that_was_not_sent_is_no_failed_one_and_leaves_no_record(bmc: FakeBmc, tmp_path: Path) -> None:
    """The client tries without the lease more often than the login cap allows failures, and then with the lease."""
    target = BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM)
    async with connect(bmc.ca_file, auth=BmcAuth.SESSION, session_directory=tmp_path / "records") as client:
        for _ in range(LOGIN_CAP + 1):
            with acting_while(lost), pytest.raises(LeaseLost):
                await client.set_power(target, PowerRequest.OFF)
        assert [request.path for request in bmc.requests if request.method != "GET"] == []
        assert list((tmp_path / "records").rglob("*.json")) == []
        assert (await client.set_power(target, PowerRequest.OFF)).power is PowerState.OFF
        assert len(bmc.sessions) == 1


def test_outside_of_a_step_no_lease_is_required() -> None:
    with pytest.raises(LeaseLost), acting_while(lost):
        require_lease()
    require_lease()
