"""Scripts, tests of machines, and erased disks, as a region really handles them: on the simulated and on a live region.

What a test can only cause in the simulation (a forged result, an erasure that hangs) comes last; each of these was seen
on a live region, by messages to its metadata service.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from farrier.agent import CLEAN_CHECK
from farrier.model.maas.reading import Machine
from farrier.sim.maas import ADMIN, OPERATOR, EraseFate, Nature, Printed, Region, RunFate, Status, testing
from farrier.sim.maas.records import Machine as Record
from farrier.sim.maas.records import ScriptRun, SetType
from tests.support.maas_region import Caller, ready
from tests.support.maas_site import Site

PASSES, FAILS = "#!/bin/sh\necho fine\n", "#!/bin/sh\nexit 3\n"
PASSING_PROGRAM = Printed(b"fine\n")


class Stored:
    """A script of a test in the region."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name, self.path = site, name, f"scripts/{name}"

    async def write(self, text: str, **more: str) -> Any:
        """Store a new text, and return what the region answers."""
        return told(await self.site.send("PUT", self.path, {"script": text, **more}))

    async def revisions(self) -> list[int]:
        """The IDs of the revisions, newest first."""
        return [each["id"] for each in told(await self.site.send("GET", self.path))["history"]]

    async def run_on(self, machine: Machine, *names: str) -> Machine:
        """Test the machine with these scripts or with this script, and wait for the end."""
        if self.site.region is not None:
            fails = Printed(exit_status=3)
            texts = {script.name: script.history[0].text for script in self.site.region.scripts.values()}
            programs = {
                name: lambda text=text: fails if text == FAILS else PASSING_PROGRAM for name, text in texts.items()
            }
            self.site.region.natures[machine.system_id] = Nature(programs=programs)
        await self.request(machine, *names)
        return await self.site.settled(machine.system_id)

    async def request(self, machine: Machine, *names: str) -> Any:
        form = {"testing_scripts": ",".join(names or (self.name,))}
        return told(await self.site.send("POST", f"machines/{machine.system_id}/?op=test", form))


def told(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


async def newest(site: Site, machine: Machine) -> Any:
    """The newest results of tests of the machine."""
    path = f"nodes/{machine.system_id}/results/current-testing/?include_output=true"
    return told(await site.send("GET", path))


async def refused(site: Site, method: str, path: str, **form: str) -> tuple[int, str]:
    answer = await site.send(method, path, form)
    return answer.status_code, answer.text


@pytest.fixture
async def script(site: Site) -> AsyncIterator[Stored]:
    """A script that passes, with a name of its own."""
    stored = Stored(site, f"farrier-test-{secrets.token_hex(4)}")
    told(await site.send("POST", "scripts/", {"name": stored.name, "script": PASSES, "comment": "first"}))
    yield stored
    await site.send("DELETE", stored.path)


# --- scripts


async def test_a_script_has_its_revisions_newest_first_and_the_same_text_makes_none(site: Site, script: Stored) -> None:
    (first,) = await script.revisions()
    changed = await script.write(PASSES + "# 2\n", comment="second")
    assert [each["comment"] for each in changed["history"]] == ["second", "first"]
    second = changed["history"][0]["id"]
    assert (await script.write(PASSES + "# 2\n"))["history"] == changed["history"]
    assert await script.revisions() == [second, first]
    (shown,) = told(await site.send("GET", f"scripts/?type=testing&include_script=true&filters={script.name}"))
    assert [base64.b64decode(each["data"]).decode() for each in shown["history"]] == [PASSES + "# 2\n", PASSES]
    old = await site.send("GET", f"{script.path}?op=download&revision={first}")
    assert (old.status_code, old.text) == (200, PASSES)
    assert await refused(site, "GET", f"{script.path}?op=download&revision=999999") == (
        400,
        "999999 not found in history",
    )


async def test_a_script_is_stored_once_and_starts_with_an_interpreter(site: Site, script: Stored) -> None:
    exists = '{"name": ["Script with this Name already exists."]}'
    bare = '{"script": ["Must start with shebang."]}'
    assert _same(await refused(site, "POST", "scripts/", name=script.name, script=PASSES), (400, exists))
    assert _same(await refused(site, "PUT", script.path, script="echo"), (400, bare))
    assert await refused(site, "PUT", "scripts/farrier-none", script=PASSES) == (
        404,
        "No Script matches the given query.",
    )


async def test_only_the_path_of_one_script_has_no_slash_at_its_end(site: Site, script: Stored) -> None:
    wrong, text = await refused(site, "GET", f"{script.path}/")
    assert (wrong, text.endswith(f"/api/2.0/{script.path}/.")) == (404, True)
    assert (await site.send("GET", "scripts")).status_code == 404


async def test_a_setting_of_the_region_is_a_json_value(site: Site) -> None:
    answer = await site.send("GET", "maas/?op=get_config&name=enable_disk_erasing_on_release")
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, "false", "application/json")
    assert (await refused(site, "GET", "maas/?op=get_config&name=farrier"))[0] == 400


async def test_a_test_chooses_scripts_by_their_names_not_by_their_ids(site: Site, script: Stored) -> None:
    machine = await site.new()
    for wrong in ("999", "farrier-none", "none"):
        expected = f'{{"testing_scripts": ["Select a valid choice. {wrong} is not one of the available choices."]}}'
        path = f"machines/{machine.system_id}/?op=test"
        assert _same(await refused(site, "POST", path, testing_scripts=wrong), (400, expected))


# --- tests of a machine with hardware


async def test_a_ready_machine_that_passes_is_ready_again_and_the_result_names_the_revision(
    site: Site, script: Stored
) -> None:
    machine = await site.commissioned()
    begun = await script.request(machine)
    assert (begun["status_name"], begun["owner"] is None) == ("Testing", False)
    again = await refused(site, "POST", f"machines/{machine.system_id}/?op=test", testing_scripts=script.name)
    taken = "Test is not available because of the current state of the node."
    assert _same(again, (400, f'{{"__all__": ["{taken}"]}}'))
    await site.send("POST", f"machines/{machine.system_id}/?op=abort")
    assert (await site.settled(machine.system_id)).status == Status.READY
    assert [each["status_name"] for each in (await newest(site, machine))["results"]] == ["Aborted"]

    tested = await script.run_on(machine)
    assert (tested.status, tested.owner) == (Status.READY, None)
    found = await newest(site, machine)
    (result,) = found["results"]
    assert (found["status_name"], result["name"], result["exit_status"]) == ("Passed", script.name, 0)
    assert result["script_revision_id"] == (await script.revisions())[0]
    assert base64.b64decode(result["stdout"]) == b"fine\n"


async def test_a_script_that_is_edited_before_it_runs_runs_as_edited(site: Site, script: Stored) -> None:
    machine = await site.commissioned()
    (expected,) = await script.revisions()
    await script.request(machine)
    await script.write(PASSES + "# edited\n")
    await site.settled(machine.system_id)
    (result,) = (await newest(site, machine))["results"]
    assert result["script_revision_id"] == (await script.revisions())[0] != expected


async def test_a_script_that_has_the_name_of_another_as_a_tag_runs_too(site: Site, script: Stored) -> None:
    machine = await site.commissioned()
    foreign = f"{script.name}-foreign"
    told(await site.send("POST", "scripts/", {"name": foreign, "script": PASSES, "tags": script.name}))
    await script.run_on(machine)
    assert [each["name"] for each in (await newest(site, machine))["results"]] == [script.name, foreign]
    await site.send("DELETE", f"scripts/{foreign}")


async def test_a_machine_that_fails_can_only_be_erased_again_when_its_owner_marks_it_broken(
    site: Site, script: Stored
) -> None:
    machine = await site.commissioned()
    own = f"machines/{machine.system_id}/"
    assert (await refused(site, "POST", f"{own}?op=mark_broken"))[0] == 403, "nobody owns a ready machine"
    await script.write(FAILS)
    failed = await script.run_on(machine)
    assert (failed.status, failed.owner is None) == (Status.FAILED_TESTING, False)
    assert (await refused(site, "POST", f"{own}?op=release", erase="true"))[0] == 409
    assert (await refused(site, "POST", "machines/?op=allocate", system_id=machine.system_id))[0] == 409
    assert told(await site.send("POST", f"{own}?op=mark_broken", {"comment": "c"}))["status_name"] == "Broken"
    assert told(await site.send("POST", f"{own}?op=release", {"erase": "true"}))["status_name"] == "Disk erasing"
    released = await site.settled(machine.system_id)
    assert (released.status, released.owner) == (Status.READY, None)


async def test_an_erasure_ends_by_an_abort_and_can_be_requested_again(site: Site) -> None:
    machine = await site.commissioned()
    own, erase = f"machines/{machine.system_id}/", {"erase": "true"}
    if site.region is not None:
        site.region.natures[machine.system_id] = Nature(erase=EraseFate.HANGS)
    told(await site.send("POST", "machines/?op=allocate", {"system_id": machine.system_id}))
    assert told(await site.send("POST", f"{own}?op=release", erase))["status_name"] == "Disk erasing"
    if site.region is not None:
        site.region.advance(timedelta(days=2))
    assert (await refused(site, "POST", f"{own}?op=release", **erase))[0] == 409
    told(await site.send("POST", f"{own}?op=abort", {"comment": "late"}))
    aborted = await site.settled(machine.system_id)
    assert (aborted.status, aborted.owner is None) == (Status.FAILED_DISK_ERASING, False)
    assert (await refused(site, "POST", f"{own}?op=abort"))[0] == 409
    if site.region is not None:
        site.region.natures[machine.system_id] = Nature()
    assert told(await site.send("POST", f"{own}?op=release", erase))["status_name"] == "Disk erasing"
    released = await site.settled(machine.system_id)
    assert (released.status, released.owner) == (Status.READY, None)


# --- seen on a live region, caused in the simulation


async def check_of(region: Region, caller: Caller, system_id: str, name: str = CLEAN_CHECK) -> tuple[Record, ScriptRun]:
    """Request the check of a machine, and return its result."""
    if name not in region.scripts:
        told(await caller.post("scripts/", name=name, script=PASSES))
    told(await caller.post(f"machines/{system_id}/?op=test", testing_scripts=name))
    machine = region.machines[system_id]
    running = machine.newest_set(SetType.TESTING)
    assert running is not None
    return machine, running.runs[0]


async def erased(region: Region, caller: Caller, system_id: str, **how: str) -> None:
    """Deploy the machine, so that there are data on its disks, and release it."""
    told(await caller.post(f"machines/{system_id}/?op=deploy"))
    region.advance(region.durations.deploy + timedelta(minutes=1))
    assert region.machines[system_id].status is Status.DEPLOYED
    told(await caller.post(f"machines/{system_id}/?op=release", **how))
    region.advance(region.durations.erase)


@pytest.mark.parametrize(
    ("how", "lying", "results"),
    [
        ({"erase": "true"}, frozenset(), {"erased"}),
        ({"erase": "true", "secure_erase": "true"}, frozenset({"Snvme1n1"}), {"erased", "failed"}),
        ({"erase": "true", "quick_erase": "true"}, frozenset(), {"failed"}),
        ({}, frozenset(), {"failed"}),
    ],
    ids=["full", "a disk lies", "quick", "none"],
)
async def test_the_check_sees_what_a_release_left_on_the_disks(
    region: Region, caller: Caller, how: dict[str, str], lying: frozenset[str], results: set[str]
) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(lying_disks=lying)
    await erased(region, caller, system_id, **how)
    machine, result = await check_of(region, caller, system_id)
    region.advance(region.durations.test)
    said = msgspec.json.decode(result.stdout.splitlines()[-1])
    assert {device["result"] for device in said["devices"]} == results
    assert {device["serial"] for device in said["devices"] if device["result"] == "failed"} >= lying
    assert machine.status is (Status.READY if results == {"erased"} else Status.FAILED_TESTING)
    assert machine.power_state == "off"


async def test_a_forged_result_passes_and_ends_the_test_while_the_machine_goes_on(
    region: Region, caller: Caller
) -> None:
    system_id = await ready(region, caller)
    machine, result = await check_of(region, caller, system_id)
    told(await caller.post("scripts/", name="second", script=PASSES, tags=CLEAN_CHECK))
    testing.stored(region, machine, result, Printed(b"forged\n"), revision=result.script.history[0].id)
    testing.signal(region, machine, passed=True)
    assert (machine.status, machine.owner, machine.power_state) == (Status.READY, None, "on")
    assert (result.status.label, result.revision) == ("Passed", result.script.history[0].id)


async def test_a_forged_end_leaves_the_scripts_as_they_were(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    machine, result = await check_of(region, caller, system_id)
    testing.signal(region, machine, passed=True)
    newest = machine.newest_set(SetType.TESTING)
    assert newest is not None
    assert (machine.status, newest.status.label, result.status.label) == (Status.READY, "Pending", "Pending")


async def test_the_revision_of_a_forged_result_may_be_unknown(region: Region, caller: Caller) -> None:
    system_id = await ready(region, caller)
    machine, result = await check_of(region, caller, system_id)
    testing.stored(region, machine, result, Printed(), revision=999)
    assert (result.status.label, result.revision) == ("Passed", None)


@pytest.mark.parametrize(("fate", "told_status"), [(RunFate.NEVER_BOOTS, "Aborted"), (RunFate.HANGS, "Timed out")])
async def test_the_region_gives_up_on_a_machine_that_reports_no_result(
    region: Region, caller: Caller, fate: RunFate, told_status: str
) -> None:
    system_id = await ready(region, caller)
    region.natures[system_id] = Nature(test=fate)
    machine, result = await check_of(region, caller, system_id)
    region.advance(region.durations.node_timeout)
    assert (machine.status, machine.owner, result.status.label) == (Status.FAILED_TESTING, ADMIN.username, told_status)


async def test_where_the_region_itself_erases_too_nothing_is_erased(region: Region, caller: Caller) -> None:
    region.site.erases_on_release = True
    system_id = await ready(region, caller)
    await erased(region, caller, system_id, erase="true")
    machine = region.machines[system_id]
    assert machine.status is Status.READY
    assert machine.data


async def test_an_administrator_may_test_a_machine_of_another_user_and_a_user_none(
    region: Region, caller: Caller
) -> None:
    system_id = await ready(region, caller)
    other = Caller(region, OPERATOR)
    assert (await other.post(f"machines/{system_id}/?op=test", testing_scripts="x")).status_code == 403
    told(await other.post("machines/?op=allocate", system_id=system_id))
    machine, _ = await check_of(region, caller, system_id)
    assert (machine.status, machine.owner) == (Status.TESTING, OPERATOR.username)
    region.advance(region.durations.test)
    assert (machine.status, machine.owner) == (Status.ALLOCATED, OPERATOR.username)
    stored = await other.post("scripts/", name="theirs", script=PASSES)
    assert (stored.status_code, stored.text) == (403, "This method is reserved for admin users.")


def _same(one: tuple[int, str], other: tuple[int, str]) -> bool:
    """Whether two answers are the same JSON."""
    return (one[0], msgspec.json.decode(one[1])) == (other[0], msgspec.json.decode(other[1]))
