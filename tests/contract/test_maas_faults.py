"""Faults of the simulated region: each strikes the requests that it matches, a set number of times.

The tests distinguish the two cases that matter most to a client: a response that is lost after the work was done, and
a request that was never processed.
"""

from __future__ import annotations

import json
from datetime import timedelta

import httpx
import pytest

from farrier.sim.maas import Broken, Fault, Region, Status, open_region
from tests.support.asking import PATIENCE
from tests.support.maas_region import Caller, ready, signed


async def test_a_dropped_answer_leaves_the_work_done(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    region.faults.add(Fault(op="deploy", broken=Broken.DROP))
    with pytest.raises(httpx.RemoteProtocolError):
        await caller.post(f"machines/{system_id}/?op=deploy")
    assert region.machines[system_id].status is Status.DEPLOYING
    again = await caller.post(f"machines/{system_id}/?op=deploy")
    assert again.status_code == 409


async def test_a_hanging_request_is_ended_by_the_client_and_changes_nothing(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    region.faults.add(Fault(op="deploy", broken=Broken.HANG))
    with pytest.raises(httpx.ReadTimeout):
        await caller.post(f"machines/{system_id}/?op=deploy")
    assert region.machines[system_id].status is Status.READY


async def test_a_fault_with_a_response_prevents_the_operation_and_counts_down(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    rule = region.faults.add(Fault(machine=system_id, status=503, body=b"busy", headers={"retry-after": "10"}, times=2))
    for _ in range(2):
        answer = await caller.post(f"machines/{system_id}/?op=deploy")
        assert (answer.status_code, answer.text, answer.headers["retry-after"]) == (503, "busy", "10")
    assert region.machines[system_id].status is Status.READY
    assert (await caller.post(f"machines/{system_id}/?op=deploy")).status_code == 200
    assert rule.struck == 2


@pytest.mark.parametrize("broken", [Broken.TRUNCATE, Broken.GARBLE])
async def test_a_broken_body_has_the_status_code_of_the_real_response(
    region: Region, caller: Caller, broken: Broken
) -> None:
    system_id = await ready(region, caller)
    region.faults.add(Fault(path="*/machines/*", broken=broken))
    answer = await caller.get(f"machines/{system_id}/")
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert (await caller.get(f"machines/{system_id}/")).json()["system_id"] == system_id


async def test_a_whole_body_can_be_replaced(region: Region, caller: Caller) -> None:
    body = b'{"status": 99}'
    region.faults.add(Fault(path="*/version/", body=body, content_type="application/json"))
    assert (await caller.get("version/")).json() == {"status": 99}


async def test_a_fault_strikes_only_the_requests_that_it_names(region: Region, caller: Caller) -> None:
    first, second = await ready(region, caller, 1), await ready(region, caller, 2)
    region.faults.add(Fault(method="POST", op="deploy", machine=first, status=500, times=None))
    assert (await caller.get(f"machines/{first}/")).status_code == 200
    assert (await caller.post(f"machines/{first}/?op=power_off")).status_code == 200
    assert (await caller.post(f"machines/{second}/?op=deploy")).status_code == 200
    assert (await caller.post(f"machines/{first}/?op=deploy")).status_code == 500
    region.faults.clear()
    assert (await caller.post(f"machines/{first}/?op=deploy")).status_code == 200


async def test_a_slow_response_arrives(region: Region, caller: Caller) -> None:
    rule = region.faults.add(Fault(latency=timedelta(milliseconds=5)))
    assert (await caller.get("version/")).status_code == 200
    assert rule.struck == 1


async def test_over_a_socket_drops_and_hangs_are_failures_of_the_connection() -> None:
    region = Region()
    patience = PATIENCE.total_seconds()
    async with open_region(region) as url, httpx.AsyncClient(base_url=f"{url}/api/2.0/", timeout=patience) as client:
        region.faults.add(Fault(path="*/machines/", broken=Broken.DROP))
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("machines/", headers={"Authorization": signed()}, data={"hostname": "n1"})
        assert list(region.hostnames) == ["n1"]
        region.faults.add(Fault(broken=Broken.HANG))
        with pytest.raises(httpx.ReadTimeout):
            await client.get("version/", timeout=httpx.Timeout(patience, read=0.3))
        assert (await client.get("version/")).status_code == 200
