"""The simulated region's protocol: keys, nonces, clocks, form bodies, filters, links, events, and repeated calls.

Each promise is one that the real region was seen to keep, and that a client has to live with. The table of
operations and the recorded answers are held elsewhere.
"""

from __future__ import annotations

import time
from datetime import timedelta

import httpx
import pytest

from farrier.sim.maas import (
    ADMIN,
    OPERATOR,
    CommissionFate,
    DeployFate,
    Durations,
    Nature,
    Region,
    RegionTransport,
    Status,
    open_region,
)
from farrier.sim.maas.call import Exchange
from tests.support.maas_region import ROOT, Caller, created, ready, signed


@pytest.fixture
def region() -> Region:
    return Region()


@pytest.fixture
def caller(region: Region) -> Caller:
    return Caller(region)


async def _bare(region: Region, path: str, header: str | None) -> httpx.Response:
    async with httpx.AsyncClient(transport=RegionTransport(region), base_url=ROOT) as client:
        return await client.get(path, headers={} if header is None else {"Authorization": header})


async def test_a_nonce_serves_one_request(region: Region) -> None:
    header = signed(nonce="n1")
    assert (await _bare(region, "machines/", header)).status_code == 200
    again = await _bare(region, "machines/", header)
    assert (again.status_code, again.text) == (401, "Authorization Error: 'Nonce already used: n1'")
    assert again.headers["www-authenticate"] == 'OAuth realm="OAuth"'


async def test_a_timestamp_is_refused_when_it_is_old_and_taken_when_it_is_early(region: Region) -> None:
    late = await _bare(region, "machines/", signed(age=400))
    assert late.status_code == 401
    assert "has a greater difference than threshold 300" in late.text
    assert (await _bare(region, "machines/", signed(age=-4000))).status_code == 200


async def test_a_region_whose_clock_is_ahead_refuses_everybody(region: Region, caller: Caller) -> None:
    region.keys.skew = 600
    assert (await caller.get("machines/")).status_code == 401


async def test_simulated_time_does_not_age_a_client_s_clock(region: Region, caller: Caller) -> None:
    region.advance(timedelta(days=1))
    assert (await caller.get("machines/")).status_code == 200


@pytest.mark.parametrize("header", [signed(secret="wrong"), signed().replace("admintoken", "othertoken"), "OAuth x"])
async def test_a_key_that_does_not_hold_is_refused(region: Region, header: str) -> None:
    assert (await _bare(region, "machines/", header)).status_code == 401


async def test_a_list_without_a_key_looks_like_a_wrong_call(region: Region) -> None:
    answer = await _bare(region, "machines/", None)
    assert (answer.status_code, answer.text) == (400, "Unrecognised signature: method=GET op=None")
    assert (await _bare(region, "version/", None)).json()["version"] == "3.7.3"


async def test_a_path_without_its_last_slash_is_unknown(caller: Caller) -> None:
    answer = await caller.get("machines")
    assert (answer.status_code, answer.text) == (404, "Unknown API endpoint: /MAAS/api/2.0/machines.")


async def test_an_operation_nobody_knows_is_told_by_its_name(caller: Caller) -> None:
    answer = await caller.post("machines/?op=nope")
    assert (answer.status_code, answer.text) == (400, "Unrecognised signature: method=POST op=nope")
    assert (await caller.send("PATCH", "machines/")).status_code == 405


async def test_an_operation_may_end_the_path(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    assert (await caller.post(f"machines/{system_id}/op-deploy")).json()["status_name"] == "Deploying"
    assert (await caller.get("users/op-whoami")).json()["username"] == "admin"


async def test_a_json_body_loses_its_parameters_silently(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    async with httpx.AsyncClient(transport=RegionTransport(region), base_url=ROOT) as client:
        path, headers = f"machines/{system_id}/?op=deploy", {"Authorization": signed()}
        answer = await client.post(path, json={"distro_series": "jammy", "user_data": "x"}, headers=headers)
    assert (answer.status_code, answer.json()["distro_series"]) == (200, "noble")
    assert region.machines[system_id].user_data is None


async def test_a_multipart_body_is_a_form_too(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    async with httpx.AsyncClient(transport=RegionTransport(region), base_url=ROOT) as client:
        path, headers = f"machines/{system_id}/?op=deploy", {"Authorization": signed()}
        answer = await client.post(path, files={"distro_series": (None, "jammy")}, headers=headers)
    assert answer.json()["distro_series"] == "jammy"


async def test_lists_have_filters_that_repeat_but_no_pages(region: Region, caller: Caller) -> None:
    first, second = await ready(region, caller, 1), await created(caller, 2)
    assert [one["system_id"] for one in (await caller.get(f"machines/?id={second}&id={first}")).json()]
    for query, found in (
        ("hostname=node1", {first}),
        ("mac_address=52:54:00:00:01:02", {second}),
        ("status=ready&status=new", {first, second}),
        ("not_status=ready", {second}),
        ("hostname=nobody", set()),
    ):
        assert {one["system_id"] for one in (await caller.get(f"machines/?{query}")).json()} == found
    refused = await caller.get("machines/?limit=1")
    assert (refused.status_code, refused.json()) == (400, {"limit": ["No such constraint."]})


async def test_host_names_and_addresses_of_nics_are_taken_once(region: Region, caller: Caller) -> None:
    await created(caller, 1)
    form = {
        "hostname": "node1",
        "mac_addresses": "52:54:00:00:01:01",
        "power_type": "redfish",
        "power_parameters_power_address": "10.0.1.1",
    }
    answer = await caller.post("machines/", **form)
    assert answer.status_code == 400
    assert answer.json()["hostname"] == ["Node with this Hostname already exists."]
    assert answer.json()["mac_addresses"] == ["MAC address 52:54:00:00:01:01 already in use on node1."]
    assert len(region.machines) == 1


async def test_a_bmc_address_with_a_scheme_is_an_error_of_the_server(caller: Caller) -> None:
    form = {"hostname": "n", "mac_addresses": "52:54:00:00:02:01", "power_type": "redfish"}
    power = {f"power_parameters_power_{name}": "x" for name in ("user", "pass")}
    answer = await caller.post("machines/", **form, **power, power_parameters_power_address="https://10.0.0.1")
    assert answer.status_code == 500


async def test_a_locked_machine_can_be_read_and_unlocked_only(region: Region, caller: Caller) -> None:
    system_id = await created(caller, 1, deployed="true")
    assert (await caller.post(f"machines/{system_id}/?op=lock")).json()["locked"] is True
    for op in ("release", "power_off", "power_on", "mark_broken", "deploy"):
        answer = await caller.post(f"machines/{system_id}/?op={op}")
        assert (answer.status_code, answer.text) == (403, "")
    assert (await caller.send("PUT", f"machines/{system_id}/", {"description": "x"})).status_code == 403
    assert (await caller.send("DELETE", f"machines/{system_id}/")).status_code == 403
    assert (await caller.get(f"machines/{system_id}/?op=query_power_state")).json() == {"state": "off"}
    again = await caller.post(f"machines/{system_id}/?op=lock")
    assert (again.status_code, again.text) == (409, "Machine is already locked")
    await caller.post(f"machines/{system_id}/?op=unlock")
    assert (await caller.send("DELETE", f"machines/{system_id}/")).status_code == 204
    assert (await caller.send("DELETE", f"machines/{system_id}/")).status_code == 404


async def test_a_user_sees_nothing_of_what_another_holds(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    await caller.post("machines/?op=allocate", system_id=system_id)
    other = Caller(region, OPERATOR)
    assert (await other.get("machines/")).json() == []
    assert (await other.get(f"machines/{system_id}/")).status_code == 403
    reserved = await other.get("machines/?op=power_parameters")
    assert (reserved.status_code, reserved.text) == (403, "This method is reserved for admin users.")


async def test_an_administrator_deploys_what_another_user_holds_and_it_stays_the_other_s(
    region: Region, caller: Caller
) -> None:
    system_id = await ready(region, caller)
    await Caller(region, OPERATOR).post("machines/?op=allocate", system_id=system_id)
    answer = await caller.post(f"machines/{system_id}/?op=deploy")
    assert (answer.status_code, answer.json()["owner"]) == (200, OPERATOR.username)


async def test_an_auto_link_repeats_unless_forced(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    path = f"nodes/{system_id}/interfaces/{region.machines[system_id].interfaces[0].id}/?op=link_subnet"
    twice = await caller.post(path, mode="AUTO", subnet="2")
    assert [link["mode"] for link in twice.json()["links"]] == ["auto", "auto"]
    once = await caller.post(path, mode="AUTO", subnet="2", force="true")
    assert [link["mode"] for link in once.json()["links"]] == ["auto"]


async def test_a_static_address_in_use_is_not_found(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    path = f"nodes/{system_id}/interfaces/{region.machines[system_id].interfaces[0].id}/?op=link_subnet"
    form = {"mode": "STATIC", "subnet": "2", "ip_address": "10.20.0.9"}
    assert (await caller.post(path, **form)).status_code == 200
    again = await caller.post(path, **form)
    assert (again.status_code, again.text) == (404, "IP address is already in use.")
    wrong = await caller.post(path.replace("link_subnet", "unlink_subnet"), id="9999")
    assert wrong.status_code == 400


async def test_a_bond_is_made_once_and_keeps_its_parents(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    parents = [str(one.id) for one in region.machines[system_id].interfaces[1:]]
    path = f"nodes/{system_id}/interfaces/?op=create_bond"
    form = {"name": "bond0", "parents": parents, "bond_mode": "802.3ad", "mtu": "9000"}
    bond = (await caller.send("POST", path, form)).json()
    assert (bond["type"], bond["effective_mtu"], len(bond["parents"])) == ("bond", 9000, 2)
    again = await caller.send("POST", path, {**form, "name": "bond1"})
    assert "already in-use" in again.json()["parents"][0]
    link = await caller.post(f"nodes/{system_id}/interfaces/{parents[0]}/?op=link_subnet", mode="AUTO", subnet="2")
    assert list(link.json()) == ["bond"]
    gone = f"nodes/{system_id}/interfaces/{bond['id']}/"
    assert [(await caller.send("DELETE", gone)).status_code for _ in range(2)] == [204, 404]


async def test_events_follow_a_cursor_without_gaps(region: Region, caller: Caller) -> None:
    await ready(region, caller)
    seen: list[int] = []
    while True:
        after = seen[-1] if seen else 0
        page = (await caller.get(f"events/?op=query&level=DEBUG&after={after}&limit=5")).json()["events"]
        if not page:
            break
        seen += [event["id"] for event in reversed(page)]
    assert seen == [event.id for event in region.events.of(None)]
    quiet = (await caller.get("events/?op=query&limit=1000")).json()["events"]
    assert {event["level"] for event in quiet} == {"INFO"}
    assert (await caller.get("events/?op=query&after=1&before=9")).status_code == 400
    assert (await caller.get("events/?op=query&limit=1001")).status_code == 400
    assert (await caller.get("events/?op=query&id=nobody")).json()["events"] == []


async def test_a_comment_is_found_in_the_events(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    await caller.post(f"machines/{system_id}/?op=deploy", comment="w7/1", agent_name="farrier")
    events = (await caller.get(f"events/?op=query&level=DEBUG&id={system_id}")).json()["events"]
    assert "(admin) - w7/1" in {event["description"] for event in events if event["type"] == "User starting deployment"}
    found = (await caller.get("machines/?agent_name=farrier")).json()
    assert [one["system_id"] for one in found] == [system_id]


@pytest.mark.parametrize(
    ("fate", "status"),
    [
        (CommissionFate.PASSES, Status.READY),
        (CommissionFate.SCRIPT_FAILS, Status.FAILED_COMMISSIONING),
        (CommissionFate.NEVER_BOOTS, Status.FAILED_COMMISSIONING),
        (CommissionFate.TESTS_FAIL, Status.FAILED_TESTING),
    ],
)
async def test_commissioning_ends_by_its_fate(
    region: Region, caller: Caller, fate: CommissionFate, status: Status
) -> None:
    region.natures["node1"] = Nature(commission=fate)
    system_id = await created(caller, 1, commission="true")
    region.advance(timedelta(minutes=31))
    assert region.machines[system_id].status is status


@pytest.mark.parametrize("fate", list(DeployFate))
async def test_a_deployment_ends_by_its_fate_and_leaves_its_traces(
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


async def test_an_error_text_outlives_the_failure_it_tells_of(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(deploy=DeployFate.STORAGE_FAILS)
    await caller.post(f"machines/{system_id}/?op=deploy")
    region.advance(timedelta(minutes=30))
    await caller.post(f"machines/{system_id}/?op=release")
    shown = (await caller.get(f"machines/{system_id}/")).json()
    assert (shown["status_name"], bool(shown["error_description"])) == ("Ready", True)


async def test_hardware_sync_comes_again_after_its_interval(region: Region, caller: Caller) -> None:
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


async def test_whoever_counts_is_told_of_each_answer_as_it_is_sent(region: Region, caller: Caller) -> None:
    heard: list[Exchange] = []
    region.on_answer.append(heard.append)
    shown = await caller.get("machines/?id=x33333&op=power_parameters")
    (told,) = heard
    assert (told.method, told.path) == ("GET", "/MAAS/api/2.0/machines/")
    assert told.query == [("id", "x33333"), ("op", "power_parameters")]
    assert (told.answer.status, told.answer.content) == (200, shown.content)


async def test_aborted_work_does_not_come_back(region: Region, caller: Caller) -> None:
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


async def test_a_bmc_that_does_not_answer_leaves_what_was_recorded(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(bmc_error="no route to host")
    machine = region.machines[system_id]
    assert (await caller.post(f"machines/{system_id}/?op=commission")).status_code == 500
    assert (machine.status, machine.owner) == (Status.READY, ADMIN.username)
    assert (await caller.post(f"machines/{system_id}/?op=deploy")).status_code == 500
    assert machine.status is Status.ALLOCATED
    assert (await caller.post(f"machines/{system_id}/?op=release")).status_code == 500
    assert (machine.status, machine.owner) == (Status.ALLOCATED, ADMIN.username)


async def test_over_a_socket_it_answers_the_same_and_its_clock_can_run() -> None:
    region = Region(wall=time.time)
    started = region.now
    async with open_region(region, speed=3600) as url, httpx.AsyncClient(base_url=f"{url}/api/2.0/") as client:
        answer = await client.get("machines/", headers={"Authorization": signed()})
        assert answer.json() == []
        while region.now - started < timedelta(minutes=1):
            assert (await client.get("version/")).status_code == 200
