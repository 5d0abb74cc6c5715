"""Behaviour of the simulated region that a test cannot cause in a live one: its clock, failing operations, dead BMCs.

Each behaviour was observed on the real region, and a client has to handle it. Behaviour that can be tested on a live
region as well is in `test_maas_protocol`; other suites check the table of operations and the recorded responses.
"""

from __future__ import annotations

import time
from datetime import timedelta

import httpx
import pytest

from farrier.sim.maas import ADMIN, OPERATOR, CommissionFate, DeployFate, Durations, Nature, Region, Status, open_region
from farrier.sim.maas.http.call import Exchange
from tests.support.maas_region import Caller, created, ready, signed


async def test_a_region_whose_clock_is_ahead_refuses_every_key(region: Region, caller: Caller) -> None:
    region.keys.skew = 600
    assert (await caller.get("machines/")).status_code == 401


async def test_simulated_time_does_not_make_a_client_s_clock_late(region: Region, caller: Caller) -> None:
    region.advance(timedelta(days=1))
    assert (await caller.get("machines/")).status_code == 200


async def test_a_user_does_not_see_machines_of_another_user(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    await caller.post("machines/?op=allocate", system_id=system_id)
    other = Caller(region, OPERATOR)
    assert (await other.get("machines/")).json() == []
    assert (await other.get(f"machines/{system_id}/")).status_code == 403
    reserved = await other.get("machines/?op=power_parameters")
    assert (reserved.status_code, reserved.text) == (403, "This method is reserved for admin users.")


async def test_a_machine_that_an_administrator_deploys_stays_with_its_owner(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    await Caller(region, OPERATOR).post("machines/?op=allocate", system_id=system_id)
    answer = await caller.post(f"machines/{system_id}/?op=deploy")
    assert (answer.status_code, answer.json()["owner"]) == (200, OPERATOR.username)


@pytest.mark.parametrize(
    ("fate", "status"),
    [
        (CommissionFate.PASSES, Status.READY),
        (CommissionFate.SCRIPT_FAILS, Status.FAILED_COMMISSIONING),
        (CommissionFate.NEVER_BOOTS, Status.FAILED_COMMISSIONING),
        (CommissionFate.TESTS_FAIL, Status.FAILED_TESTING),
    ],
)
async def test_commissioning_ends_as_the_machines_nature_says(
    region: Region, caller: Caller, fate: CommissionFate, status: Status
) -> None:
    region.natures["node1"] = Nature(commission=fate)
    system_id = await created(caller, 1, commission="true")
    region.advance(timedelta(minutes=31))
    assert region.machines[system_id].status is status


@pytest.mark.parametrize("fate", list(DeployFate))
async def test_a_deployment_ends_as_the_machines_nature_says_and_leaves_events(
    region: Region, caller: Caller, fate: DeployFate
) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(deploy=fate)
    await caller.post(f"machines/{system_id}/?op=deploy", user_data="eA==")
    region.advance(timedelta(minutes=61))
    deployed = fate in {DeployFate.SUCCEEDS, DeployFate.CLOUD_INIT_FAILS}
    machine = region.machines[system_id]
    assert machine.status is (Status.DEPLOYED if deployed else Status.FAILED_DEPLOYMENT)
    assert bool(machine.error_description) is not deployed
    types = {event.type for event in region.events.of(system_id)}
    assert ("PXE Request" in types) is (fate is not DeployFate.NEVER_NETBOOTS)
    assert ("Rebooting" in types) is (deployed or fate is DeployFate.NEVER_REPORTS)
    assert ("Node post-installation failure" in types) is (fate is DeployFate.CLOUD_INIT_FAILS)
    stopped = {DeployFate.STORAGE_FAILS, DeployFate.IMAGE_FAILS}
    assert ("Node installation failure" in types) is (fate in stopped)


async def test_the_error_text_of_a_machine_stays_after_a_release(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(deploy=DeployFate.STORAGE_FAILS)
    await caller.post(f"machines/{system_id}/?op=deploy")
    region.advance(timedelta(minutes=30))
    await caller.post(f"machines/{system_id}/?op=release")
    shown = (await caller.get(f"machines/{system_id}/")).json()
    assert (shown["status_name"], bool(shown["error_description"])) == ("Ready", True)


async def test_hardware_sync_is_repeated_after_its_interval(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    await caller.post(f"machines/{system_id}/?op=deploy", enable_hw_sync="true")
    region.advance(region.durations.deploy + timedelta(seconds=1))
    first = region.machines[system_id].last_sync
    region.advance(timedelta(seconds=900))
    second = region.machines[system_id].last_sync
    assert first is not None
    assert second is not None
    assert second - first == timedelta(seconds=900)


async def test_hardware_sync_is_as_short_as_the_region_s_other_work(region: Region, caller: Caller) -> None:
    region.durations = Durations().shorter(10)
    system_id = await ready(region, caller)
    await caller.post(f"machines/{system_id}/?op=deploy", enable_hw_sync="true")
    assert region.machines[system_id].sync_interval == 90


async def test_observers_get_each_exchange_as_it_was_sent(region: Region, caller: Caller) -> None:
    heard: list[Exchange] = []
    region.on_answer.append(heard.append)
    shown = await caller.get("machines/?id=x33333&op=power_parameters")
    (told,) = heard
    assert (told.method, told.path) == ("GET", "/MAAS/api/2.0/machines/")
    assert told.query == [("id", "x33333"), ("op", "power_parameters")]
    assert (told.answer.status, told.answer.content) == (200, shown.content)


async def test_aborted_work_does_not_finish_later(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    await caller.post(f"machines/{system_id}/?op=deploy")
    await caller.post(f"machines/{system_id}/?op=abort")
    region.advance(timedelta(hours=2))
    assert region.machines[system_id].status is Status.ALLOCATED


async def test_erasing_ends_in_ready_after_its_time(region: Region, caller: Caller) -> None:
    system_id = await created(caller, 1, deployed="true")
    answer = await caller.post(f"machines/{system_id}/?op=release", quick_erase="true")
    assert answer.json()["status_name"] == "Disk erasing"
    region.advance(region.durations.erase)
    assert region.machines[system_id].status is Status.NEW, "never commissioned, so not Ready"
    assert region.machines[system_id].owner is None


async def test_a_failing_bmc_leaves_the_machine_in_the_recorded_state(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(bmc_error="no route to host")
    machine = region.machines[system_id]
    assert (await caller.post(f"machines/{system_id}/?op=commission")).status_code == 500
    assert (machine.status, machine.owner) == (Status.READY, ADMIN.username)
    assert (await caller.post(f"machines/{system_id}/?op=deploy")).status_code == 500
    assert machine.status is Status.ALLOCATED
    assert (await caller.post(f"machines/{system_id}/?op=release")).status_code == 500
    assert (machine.status, machine.owner) == (Status.ALLOCATED, ADMIN.username)


async def test_over_a_socket_the_region_works_and_its_clock_can_run() -> None:
    region = Region(wall=time.time)
    started = region.now
    async with open_region(region, speed=3600) as url, httpx.AsyncClient(base_url=f"{url}/api/2.0/") as client:
        answer = await client.get("machines/", headers={"Authorization": signed()})
        assert answer.json() == []
        while region.now - started < timedelta(minutes=1):
            assert (await client.get("version/")).status_code == 200
