"""Cleaning by the region: the released machine is checked by one test of farrier's script, outside the tenant's
system."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier import agent
from farrier.config.sites import Erase, ReleaseSite
from farrier.handlers.node.changes import Done, Failed, StageStep, Waiting, with_fields, with_note, with_workflow
from farrier.model.maas.scripts import Text
from farrier.model.machine.bmc import PowerState
from farrier.model.node.evidence import DeviceResult
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Bmc, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.sim.maas import Status, testing
from farrier.sim.maas.hardware import Printed, RunFate
from farrier.sim.maas.records import Machine, Remains
from tests.support.decommissions import again, fails, given, is_through, sent, skips, waits
from tests.support.maas_region import put_into
from tests.support.stages import Stand

BY_REGION = WorkflowOptions(cleaned_by=CleaningBy.REGION)
NAME = agent.CLEAN_CHECK
TEST = timedelta(minutes=6)


async def released(stand: Stand, stage: D = D.CLEANUP_STORAGE, *, prepared: bool = True) -> Machine:
    """A machine that MAAS has released and erased, with the node at a stage of its cleaning by the region."""
    machine = await given(stand, stage, Status.READY, owner=None, power="off", options=BY_REGION)
    stand.node = with_note(stand.node, released=True)
    machine.data = {}
    if prepared:
        await stand.world.client.save_script(Text(name=NAME, text=agent.clean_check()), is_new=True)
    stand.world.observed.requests.clear()
    return machine


async def checked(stand: Stand) -> Done | Failed | Waiting:
    """Run the stage until its test is over, and judged."""
    await stand.settle()
    stand.pass_time(TEST)
    stand.observe()
    return await stand.settle()


def requested(stand: Stand) -> int:
    return stand.world.observed.operations.count("test")


# --- the result


async def test_a_released_machine_is_checked_by_one_test_and_its_evidence_is_kept(stand: Stand) -> None:
    machine = await released(stand)
    is_through(await checked(stand))
    evidence = stand.node.live.memo.evidence
    assert evidence is not None and evidence.script is not None
    assert {device.result for device in evidence.devices} == {DeviceResult.ERASED}
    assert {device.serial for device in evidence.devices} == {disk.serial for disk in machine.disks}
    assert evidence.script.sha256 == agent.clean_check_sha256()
    assert (machine.status, machine.owner, requested(stand)) == (Status.READY, None, 1)
    stand.node = with_workflow(stand.node, stage=D.VALIDATE_CLEAN_NODE, stage_entered_at=stand.now)
    is_through(await stand.settle())
    assert requested(stand) == 1, "the stages share one test"


async def test_a_disk_with_data_stops_the_decommission_and_maas_keeps_the_machine(stand: Stand) -> None:
    machine = await released(stand)
    machine.data = {machine.disks[0].serial: Remains.EVERYWHERE}
    failed = await checked(stand)
    fails(failed, F.VALIDATION_FAILED, machine.disks[0].serial, "failed")
    assert isinstance(failed, Failed) and failed.stop is not None, "another test would find the same"
    assert machine.status is Status.FAILED_TESTING


async def test_after_a_check_found_data_a_retry_erases_the_disks_again(stand: Stand) -> None:
    machine = await released(stand)
    machine.data = {machine.disks[0].serial: Remains.EVERYWHERE}
    await checked(stand)
    again(stand)
    await stand.settle()
    assert stand.node.live.stage is D.RELEASE_MAAS_NODE
    stand.node = with_workflow(stand.node, stage_entered_at=stand.now)
    for _ in range(4):
        stand.observe()
        await stand.settle()
        stand.pass_time(timedelta(minutes=30))
    stand.observe()
    is_through(await stand.settle())
    assert stand.world.observed.operations.count("mark_broken") == 1 and sent(stand) == ["release"]
    assert machine.status is Status.READY and not machine.data
    stand.node = with_workflow(stand.node, stage=D.CLEANUP_STORAGE, stage_entered_at=stand.now)
    is_through(await checked(stand))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda disks: disks[1:], "missing"),
        (lambda disks: (*disks, replace(disks[0], serial="S-NEW")), "unexpected"),
        (lambda disks: (replace(disks[0], size=1), *disks[1:]), "1 bytes"),
        (lambda disks: (*disks[:-1], replace(disks[-1], serial=disks[0].serial)), "unexpected"),
    ],
    ids=["missing", "unexpected", "another size", "one serial twice"],
)
async def test_disks_other_than_those_that_maas_knows_fail_the_check(stand: Stand, change: object, word: str) -> None:
    machine = await released(stand)
    nature = stand.region.nature_of(machine)
    disks = change(nature.hardware.disks)  # type: ignore[operator]
    stand.region.natures[machine.system_id] = replace(nature, hardware=replace(nature.hardware, disks=disks))
    fails(await checked(stand), F.VALIDATION_FAILED, word)


async def test_disks_with_one_serial_number_are_compared_one_by_one(stand: Stand) -> None:
    machine = await released(stand)
    nature = stand.region.nature_of(machine)
    first, *_ = nature.hardware.disks
    namespaces = (first, replace(first, name=f"{first.name}x", size=first.size // 2))
    stand.region.natures[machine.system_id] = replace(nature, hardware=replace(nature.hardware, disks=namespaces))
    fails(await checked(stand), F.VALIDATION_FAILED, f"{first.serial} (2) is")
    machine.disks[1].serial, machine.disks[1].size = first.serial, first.size // 2
    del machine.disks[2:]
    again(stand)
    is_through(await checked(stand))


@pytest.mark.parametrize("printed", [b"", b"no json\n", b'{"format": 2, "devices": []}\n', b'{"format": 1}\n'])
async def test_an_output_that_the_check_does_not_print_is_refused(stand: Stand, printed: bytes) -> None:
    machine = await released(stand)
    stand.region.natures[machine.system_id] = replace(
        stand.region.nature_of(machine), programs={NAME: lambda: Printed(printed)}
    )
    fails(await checked(stand), F.VALIDATION_FAILED, NAME)


# --- the script


async def test_a_region_without_the_script_is_not_asked_for_a_test(stand: Stand) -> None:
    await released(stand, prepared=False)
    fails(await stand.settle(), F.INVALID_CONFIG, "MAAS has no testing script", "farrier site prepare north")
    assert requested(stand) == 0


async def test_a_script_with_another_text_is_not_run(stand: Stand) -> None:
    await released(stand, prepared=False)
    await stand.world.client.save_script(Text(name=NAME, text="#!/bin/sh\nexit 0\n"), is_new=True)
    fails(await stand.settle(), F.INVALID_CONFIG, "is not farrier's")
    assert requested(stand) == 0


async def test_a_foreign_script_under_farriers_name_as_a_tag_is_not_run(stand: Stand) -> None:
    await released(stand)
    await stand.world.client.save_script(Text(name="mine", text="#!/bin/sh\n", tags=(NAME,)), is_new=True)
    fails(await stand.settle(), F.INVALID_CONFIG, "mine", "remove this tag")
    assert requested(stand) == 0


async def test_a_foreign_script_that_is_tagged_after_the_check_fails_the_stage(stand: Stand) -> None:
    await released(stand)
    assert isinstance(await stand.once(), StageStep)
    await stand.world.client.save_script(Text(name="mine", text="#!/bin/sh\n", tags=(NAME,)), is_new=True)
    fails(await checked(stand), F.INVALID_CONFIG, "mine")


async def test_a_script_that_is_edited_between_check_and_run_does_not_count(stand: Stand) -> None:
    await released(stand)
    await stand.settle()
    text = agent.clean_check() + "\n# edited\n"
    await stand.world.client.save_script(Text(name=NAME, text=text), is_new=False)
    stand.pass_time(TEST)
    stand.observe()
    fails(await stand.settle(), F.INVALID_CONFIG, "edited meanwhile")


# --- the test


async def test_an_earlier_result_of_the_script_does_not_count(stand: Stand) -> None:
    await released(stand)
    is_through(await checked(stand))
    again(stand)
    is_through(await checked(stand))
    assert requested(stand) == 2


async def test_a_test_whose_response_was_lost_is_found_and_not_repeated(stand: Stand) -> None:
    await released(stand)
    assert isinstance(await stand.once(), StageStep)
    before = stand.node
    await stand.settle()
    stand.node = before  # the commit after the request was lost
    waits(await stand.settle(), "MAAS runs test")
    stand.pass_time(TEST)
    stand.observe()
    is_through(await stand.settle())
    assert requested(stand) == 1


@pytest.mark.parametrize("fate", [RunFate.NEVER_BOOTS, RunFate.HANGS])
async def test_a_test_that_does_not_end_is_repeated(stand: Stand, fate: RunFate) -> None:
    machine = await released(stand)
    nature = stand.region.nature_of(machine)
    stand.region.natures[machine.system_id] = replace(nature, test=fate)
    await stand.settle()
    stand.pass_time(timedelta(hours=1))
    stand.observe()
    fails(await stand.settle(), F.UPSTREAM_ERROR, "did not run to its end")
    stand.region.natures[machine.system_id] = nature
    again(stand)
    is_through(await checked(stand))


async def test_the_test_of_an_earlier_attempt_is_aborted(stand: Stand) -> None:
    machine = await released(stand)
    await stand.settle()
    stand.node = with_workflow(stand.node, status_entered_at=stand.now + timedelta(seconds=1))
    stand.pass_time(timedelta(seconds=2))
    stand.observe()
    await stand.settle()
    assert sent(stand) == ["abort"]
    stand.pass_time(timedelta(minutes=1))
    stand.observe()
    assert machine.status is Status.READY
    is_through(await checked(stand))


@pytest.mark.parametrize("status", [Status.ALLOCATED, Status.DEPLOYING, Status.DEPLOYED])
async def test_a_machine_that_another_user_takes_before_the_test_is_not_touched(stand: Stand, status: Status) -> None:
    machine = await released(stand)
    put_into(machine, status, owner="ann", power="on", previous=Status.READY)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, "ann", "changed nothing")
    assert sent(stand) == [] and requested(stand) == 0 and machine.owner == "ann"


async def test_a_forged_end_of_the_test_does_not_count(stand: Stand) -> None:
    machine = await released(stand)
    await stand.settle()
    testing.signal(stand.region, machine, passed=True)
    stand.observe()
    fails(await stand.settle(), F.UPSTREAM_ERROR, "did not run to its end")


# --- the power cycle


async def test_the_test_begins_after_the_bmc_has_shown_the_machine_off_for_a_while(stand: Stand) -> None:
    await released(stand)
    path = "/redfish/v1/Systems/1"
    stand.node = with_fields(stand.node, bmc=Bmc(system_path=path, power=PowerState.UNKNOWN, power_at=stand.now))
    waits(await stand.settle(), "off for 10")
    stand.pass_time(timedelta(seconds=11))
    assert isinstance(await stand.once(), StageStep) and stand.node.bmc.next_sync_at == stand.now, "the read is due now"
    off = Bmc(system_path=path, power=PowerState.OFF, power_at=stand.now, power_since=stand.now)
    stand.node = with_fields(stand.node, bmc=off)
    waits(await stand.settle(), "off for 10")
    assert requested(stand) == 0, "a machine that was off for a moment has kept the content of its memory"
    stand.pass_time(timedelta(seconds=11))
    stand.node = with_fields(stand.node, bmc=replace(off, power_at=stand.now))
    await stand.settle()
    assert requested(stand) == 1
    stand.pass_time(timedelta(minutes=1))
    stand.observe()
    on = Bmc(system_path=path, power=PowerState.ON, power_at=stand.now, power_since=stand.now)
    stand.node = with_fields(stand.node, bmc=on)
    await stand.settle()
    stand.pass_time(TEST)
    stand.observe()
    is_through(await stand.settle())
    evidence = stand.node.live.memo.evidence
    assert evidence is not None and evidence.power_cycle is not None
    assert evidence.power_cycle.off_seen_at < evidence.power_cycle.on_seen_at


async def test_a_machine_that_a_forged_end_left_on_is_switched_off_before_the_next_test(stand: Stand) -> None:
    machine = await released(stand)
    await stand.settle()
    testing.signal(stand.region, machine, passed=True)
    stand.observe()
    fails(await stand.settle(), F.UPSTREAM_ERROR, "did not run to its end")
    again(stand)
    on = Bmc(system_path="/redfish/v1/Systems/1", power=PowerState.ON, power_at=stand.now, power_since=stand.now)
    stand.node = with_fields(stand.node, bmc=on)
    waits(await stand.settle(), "off for 10")
    assert (sent(stand), machine.power_state, requested(stand)) == (["power_off"], "off", 1)
    stand.observe()
    waits(await stand.settle(), "off for 10")
    assert sent(stand) == ["power_off"], "once in each attempt"


async def test_without_a_bmc_the_power_cycle_is_unproven(stand: Stand) -> None:
    await released(stand)
    is_through(await checked(stand))
    evidence = stand.node.live.memo.evidence
    assert evidence is not None and evidence.power_cycle is None


# --- no check


@pytest.mark.parametrize("erase", [Erase.NONE, Erase.QUICK])
async def test_disks_that_the_site_does_not_erase_completely_are_not_checked(stand: Stand, erase: Erase) -> None:
    await released(stand)
    stand.use(release=ReleaseSite(erase=erase))
    skips(await stand.settle(), f"release.erase of site north is {erase}")
    assert stand.node.not_scrubbed and requested(stand) == 0


async def test_a_machine_that_maas_did_not_install_is_cleaned_by_its_agent(stand: Stand) -> None:
    await given(stand, D.CLEANUP_STORAGE, Status.NEW, owner=None, power="on", options=BY_REGION)
    waits(await stand.once(), "node.cleanup_storage was issued")
    assert requested(stand) == 0
