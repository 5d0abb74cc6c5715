"""The simulated region's answers have the fields, types and telling values of recorded ones, and the same events.

One machine goes through the states of the recorded one: new, commissioning, ready, allocated, deploying, deployed,
releasing, and a deployment that fails. At each step the whole response is compared, including fields that are null in
one of the two.
"""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from farrier.sim.maas import DeployFate, EraseFate, Nature, Region
from tests.support.maas_region import Caller, created, ready

SECOND = timedelta(seconds=1)
RECORDED = Path(__file__).parents[1] / "data" / "maas"
MAC = "52:54:00:00:00:a1"
# The fields by which a client sees a machine's state. Without power, because the recorded machine's BMC was dead.
TELLING = (
    "status",
    "status_name",
    "status_message",
    "status_action",
    "owner",
    "osystem",
    "distro_series",
    "hwe_kernel",
    "netboot",
    "error_description",
    "enable_hw_sync",
    "sync_interval",
    "commissioning_status",
    "commissioning_status_name",
    "locked",
    "workload_annotations",
    "storage",
)
STEPS = ["new", "commissioning", "ready", "allocated", "deploying", "deployed", "releasing", "failed-deployment"]
# Events that the recording lacks, because it had no rack controller that reports them.
ONLY_SIMULATED = {
    "Performing PXE boot",
    "PXE Request",
    "Loading ephemeral",
    "Installing OS",
    "Configuring OS",
    "Rebooting",
}


def recorded(name: str) -> object:
    return json.loads((RECORDED / f"{name}.json").read_text())


def shape(value: object) -> object:
    """The names and types of a value; for lists of plain values only the types in them."""
    if isinstance(value, dict):
        return {key: shape(held) for key, held in value.items()}
    if isinstance(value, list) and all(isinstance(held, dict) for held in value):
        return [shape(held) for held in value]
    if isinstance(value, list):
        return sorted({type(held).__name__ for held in value})
    return type(value).__name__


class Story:
    """A machine that repeats the recorded machine's life; `answers` are its responses at each step."""

    def __init__(self) -> None:
        self.region = Region()
        self.caller = Caller(self.region)
        self.answers: dict[str, object] = {}
        self.system_id = ""

    async def _post(self, op: str, **form: str) -> object:
        answer = await self.caller.post(f"machines/{self.system_id}/?op={op}", **form)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def _now(self) -> object:
        return (await self.caller.get(f"machines/{self.system_id}/")).json()

    async def get(self, path: str) -> httpx.Response:
        return await self.caller.get(path.format(self.system_id))

    async def allocate(self, **form: str) -> object:
        answer = await self.caller.post("machines/?op=allocate", system_id=self.system_id, **form)
        return answer.json()

    async def tell(self) -> None:
        region, answers = self.region, self.answers
        self.system_id = await created(self.caller, 1, hostname="sample1", description="sample", mac_addresses=MAC)
        answers["new"] = await self._now()
        answers["commissioning"] = await self._post("commission")
        region.advance(region.durations.commission)
        answers["ready"] = await self._now()
        disks = region.machines[self.system_id].disks
        boss = next(disk for disk in disks if "BOSS" in disk.model)
        await self.caller.post(f"nodes/{self.system_id}/blockdevices/{boss.id}/?op=set_boot_disk")
        await self._post("set_storage_layout", storage_layout="flat")
        answers["allocated"] = await self.allocate(comment="onb-7")
        answers["deploying"] = await self._post("deploy", comment="onb-7", enable_hw_sync="true")
        region.advance(region.durations.deploy * 1.01)
        answers["deployed"] = await self._now()
        await self._post("set_workload_annotations", gpuaas_node="n1")
        answers["releasing"] = await self._post("release", comment="dec-7")
        await self.allocate()
        region.natures[self.system_id] = Nature(deploy=DeployFate.IMAGE_FAILS)
        await self._post("deploy")
        region.advance(region.durations.deploy)
        answers["failed-deployment"] = await self._now()


@pytest.fixture
async def story() -> Story:
    told = Story()
    await told.tell()
    return told


async def test_at_every_step_a_machine_equals_the_recorded_one(story: Story) -> None:
    for step in STEPS:
        seen, expected = story.answers[step], recorded(f"machine-{step}")
        assert isinstance(seen, dict)
        assert isinstance(expected, dict)
        assert {name: seen[name] for name in TELLING} == {name: expected[name] for name in TELLING}, step
        assert shape(seen) == shape(expected), step


async def test_disks_are_as_large_and_as_full_as_recorded(story: Story) -> None:
    sizes = ("name", "model", "serial", "id_path", "size", "available_size", "used_size", "used_for", "tags")
    for step in ("ready", "allocated", "releasing"):
        seen, expected = story.answers[step], recorded(f"machine-{step}")
        assert isinstance(seen, dict)
        assert isinstance(expected, dict)
        for ours, theirs in zip(seen["blockdevice_set"], expected["blockdevice_set"], strict=True):
            assert {name: ours[name] for name in sizes} == {name: theirs[name] for name in sizes}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("subnets/", "subnets"),
        ("fabrics/1/vlans/", "vlans"),
        ("users/?op=whoami", "whoami"),
        ("version/", "version"),
    ],
)
async def test_subnets_and_other_lists_have_the_recorded_fields(path: str, name: str) -> None:
    seen, expected = (await Caller(Region()).get(path)).json(), recorded(name)
    if isinstance(expected, list):
        # The recorded region had one of each kind.
        seen = seen[:1]
    assert shape(seen) == shape(expected)


async def test_power_parameters_are_returned_in_clear_text(story: Story) -> None:
    seen = (await story.get("machines/?op=power_parameters")).json()
    assert list(seen) == [story.system_id]
    (expected,) = dict(recorded("power-parameters")).values()  # type: ignore[call-overload]
    assert seen[story.system_id] == expected


async def test_results_of_installations_have_the_recorded_fields(story: Story) -> None:
    seen = (await story.get("nodes/{}/results/?type=installation")).json()
    expected = recorded("results")
    assert isinstance(expected, list)
    assert [one["status_name"] for one in seen] == ["Passed", "Failed"]
    # The recorded host was a stub that ended no script, so the recorded end times are null.
    for ours, theirs in zip(seen, expected, strict=True):
        assert ours.keys() == theirs.keys()
        assert ours["results"][0].keys() == theirs["results"][0].keys()
        assert ours["type_name"] == theirs["type_name"]
    assert seen[1]["results"][0]["status_name"] == expected[1]["results"][0]["status_name"]


async def test_scripts_and_results_of_tests_have_the_recorded_fields_and_events() -> None:
    region = Region()
    caller = Caller(region)
    system_id = await ready(region, caller)
    (script,) = _listed(recorded("scripts"))
    second, first = script["history"]
    text = base64.b64decode(first["data"]).decode()
    await caller.post("scripts/", name=script["name"], script=text, comment=first["comment"])
    newest = base64.b64decode(second["data"]).decode()
    await caller.send("PUT", f"scripts/{script['name']}", {"script": newest, "comment": second["comment"]})
    (seen,) = (await caller.get("scripts/?type=testing&include_script=true&filters=recorded")).json()
    changing = {"id", "history"}
    assert shape(seen) == shape(script)
    assert {key: value for key, value in seen.items() if key not in changing} == {
        key: value for key, value in script.items() if key not in changing
    }
    before = len(region.events.of(system_id))
    await caller.post(f"machines/{system_id}/?op=test", testing_scripts="recorded")
    region.advance(region.durations.test)
    result = (await caller.get(f"nodes/{system_id}/results/current-testing/?include_output=true")).json()
    assert shape(result) == shape(recorded("results-testing"))
    assert [(event.type, event.description) for event in region.events.of(system_id)[before:]] == [
        ("User starting node testing", "(admin)"),
        ("Testing", ""),
        ("Node changed status", "From 'Ready' to 'Testing'"),
        ("Running test", "recorded"),
        ("Script result", "recorded changed status from 'Running' to 'Passed'"),
        ("Ready", ""),
        ("Node changed status", "From 'Testing' to 'Ready'"),
    ]


def _listed(value: object) -> list[Any]:
    assert isinstance(value, list)
    return value


async def test_the_same_life_writes_the_same_events_in_the_same_order(story: Story) -> None:
    answer = (await story.get("events/?op=query&id={}&limit=1000&level=DEBUG")).json()
    expected = recorded("events-query")
    assert isinstance(expected, dict)
    assert shape(answer["events"][0]) == shape(expected["events"][0])
    assert answer.keys() == expected.keys()
    detail = {"Script result", "Node installation", "Node installation failure"}
    seen, wanted = (
        [
            (event["level"], event["type"], event["description"], event["username"])
            for event in reversed(events)
            if event["type"] not in detail | ONLY_SIMULATED
        ]
        for events in (answer["events"], expected["events"])
    )
    # The second, failing deployment was recorded without the step before its failure.
    assert seen.pop(-3) == ("INFO", "Configuring storage", "", "unknown")
    assert seen == wanted


async def test_aborts_and_erasures_write_the_recorded_events_and_leave_the_recorded_machine() -> None:
    """Each kind of work is requested, aborted while it runs, and an erasure that hangs is requested again."""
    region = Region()
    caller = Caller(region)
    system_id = await created(caller, 1, hostname="aborted")
    own = f"machines/{system_id}/"
    assert (await caller.post("scripts/", name="probe", script="#!/bin/sh\n")).status_code == 200

    async def post(op: str, after: timedelta, **form: str) -> None:
        answer = await caller.post(f"{own}?op={op}", **form)
        assert answer.status_code == 200, answer.text
        region.advance(after)

    takes = region.durations
    await post("commission", SECOND, testing_scripts="none")
    await post("abort", takes.power * 2, comment="c1")
    await post("commission", takes.commission * 2, testing_scripts="none")
    await post("test", takes.test * 0.7, testing_scripts="probe")
    await post("abort", takes.power * 2, comment="c2")
    await post("deploy", SECOND, comment="c3")
    await post("abort", takes.power * 2, comment="c3")
    region.natures[system_id] = Nature(erase=EraseFate.HANGS)
    await post("release", takes.erase * 2, erase="true", comment="c4")
    await post("abort", takes.power * 2, comment="c5")
    failed = (await caller.get(own)).json()
    region.natures[system_id] = Nature()
    await post("release", takes.erase * 2, erase="true", comment="c6")

    answer = (await caller.get(f"events/?op=query&id={system_id}&limit=1000&level=DEBUG")).json()
    seen, wanted = told(answer), told(recorded("events-aborts"))
    assert seen == wanted
    machine = recorded("machine-failed-disk-erasing")
    assert isinstance(machine, dict)
    told_by_both = set(TELLING) - {"storage", "workload_annotations"}
    assert {name: failed[name] for name in told_by_both} == {name: machine[name] for name in told_by_both}


def told(answer: Any) -> list[tuple[str, ...]]:
    """The events, oldest first, without those of single scripts and of a rack controller."""
    return [
        (event["level"], event["type"], event["description"], event["username"])
        for event in reversed(answer["events"])
        if event["type"] not in {"Script result", *ONLY_SIMULATED}
    ]


async def test_events_of_installations_have_the_recorded_texts(story: Story) -> None:
    answer = (await story.get("events/?op=query&id={}&limit=1000&level=DEBUG")).json()
    expected = recorded("events-query")
    assert isinstance(expected, dict)
    told = {(event["level"], event["type"], event["description"]) for event in answer["events"]}
    assert {(event["level"], event["type"], event["description"]) for event in expected["events"]} <= told
