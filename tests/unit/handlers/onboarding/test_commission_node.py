"""Stage `commission_node`: commissions a machine once where needed, and wipes no set-up that a person made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.config.sites import CommissionSite
from farrier.handlers.node.changes import with_fields, with_workflow
from farrier.handlers.node.onboarding.commission_node import commission
from farrier.model.maas.changes import Commission
from farrier.model.maas.reading import BlockDevice
from farrier.model.maas.reading import Machine as Reading
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.snapshot import Memo, StopRequest
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import Broken, Fault, Nature, Status
from farrier.sim.maas.records import Machine, ScriptStatus
from tests.support.found_machines import changes, fails, has, is_done, is_held, memo, round_of_scripts, steps, waits
from tests.support.stages import Stand

STAGE = O.COMMISSION_NODE
S = Status
PLAIN = Commission(skip_networking=False, skip_storage=False)
KEEPS = Commission(skip_networking=True, skip_storage=True)


def given(stand: Stand, status: Status, *, remembers: Memo | None = None, **fields: Any) -> Machine:
    """Put the node at the stage, with this machine."""
    machine = has(stand, status, **fields)
    stand.node = with_fields(stand.node, maas_id=machine.system_id)
    stand.onboards(STAGE, memo=remembers or Memo())
    return machine


# --- requests to commission


async def test_a_new_machine_is_commissioned_once(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    is_done(await stand.settle())
    assert machine.status is S.COMMISSIONING and changes(stand) == ["commission"]
    assert memo(stand).commissions == 1
    is_done(await stand.settle())
    assert changes(stand) == ["commission"], "commissioning is under way already"


async def test_a_machine_whose_commissioning_failed_is_commissioned_again(stand: Stand) -> None:
    machine = given(stand, S.FAILED_COMMISSIONING)
    is_held(machine)
    is_done(await stand.settle())
    assert machine.status is S.COMMISSIONING


async def test_a_broken_machine_needs_an_operator_and_its_description_is_reported(stand: Stand) -> None:
    machine = given(stand, S.BROKEN, error_description="coolant leak, do not power on")
    is_held(machine)
    failed = fails(await stand.settle(), F.COMMISSIONING_FAILED, "coolant leak, do not power on", "mark it fixed")
    assert failed.stop is StopRequest.FAILED
    assert changes(stand) == [] and machine.status is S.BROKEN


@pytest.mark.parametrize(("attempt", "sent"), [(1, ["commission"]), (2, [])], ids=["an operator's", "farrier's"])
async def test_only_an_operators_retry_commissions_a_broken_machine(
    stand: Stand, attempt: int, sent: list[str]
) -> None:
    is_held(given(stand, S.BROKEN))
    stand.now += timedelta(minutes=1)
    stand.node = with_workflow(stand.node, attempt=attempt, status_entered_at=stand.now)
    await stand.settle()
    assert changes(stand) == sent


async def test_a_ready_machine_whose_commissioning_did_not_pass_is_commissioned_again(stand: Stand) -> None:
    machine = given(stand, S.READY)
    machine.script_sets.append(round_of_scripts(stand, ScriptStatus.FAILED))
    is_done(await stand.settle())
    assert machine.status is S.COMMISSIONING


async def test_a_ready_machine_is_not_commissioned_again(stand: Stand) -> None:
    given(stand, S.READY)
    assert is_done(await stand.settle()).skipped is not None
    assert changes(stand) == [] and memo(stand).commissions == 0


async def test_a_ready_machine_without_disks_is_commissioned_again_with_its_storage(stand: Stand) -> None:
    """A restart finds such a machine if it was commissioned with `skip_storage`."""
    machine = given(stand, S.READY, disks=[])
    is_done(await stand.settle())
    assert changes(stand) == ["commission"] and machine.status is S.COMMISSIONING
    assert not machine.skip_storage, "the machine has no storage to keep"
    stand.pass_time(timedelta(hours=3))
    assert machine.disks


async def test_a_workflow_does_not_commission_a_machine_without_disks_twice(stand: Stand) -> None:
    given(stand, S.READY, disks=[], remembers=Memo(commissions=1))
    is_done(await stand.settle())
    assert changes(stand) == []


async def test_after_its_own_commissioning_the_workflow_does_not_skip_the_stage(stand: Stand) -> None:
    given(stand, S.READY, remembers=Memo(commissions=1))
    assert is_done(await stand.settle()).skipped is None


@pytest.mark.parametrize("status", [S.COMMISSIONING, S.TESTING])
async def test_a_commissioning_in_progress_completes_the_stage_regardless_of_its_client(
    stand: Stand, status: Status
) -> None:
    given(stand, status)
    is_done(await stand.settle())
    assert changes(stand) == [] and memo(stand).commissions == 1


async def test_a_commissioning_whose_response_was_lost_is_recognised_and_counted_once(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    stand.region.faults.add(Fault(op="commission", broken=Broken.DROP))
    waits(await stand.once())
    is_done(await stand.settle())
    assert machine.status is S.COMMISSIONING and changes(stand) == ["commission"]
    assert memo(stand).commissions == 1


@pytest.mark.parametrize("broken", [Broken.GARBLE, Broken.TRUNCATE])
async def test_a_commissioning_whose_response_is_unreadable_is_not_sent_again(stand: Stand, broken: Broken) -> None:
    given(stand, S.NEW)
    stand.region.faults.add(Fault(op="commission", broken=broken))
    fails(await stand.once(), F.UPSTREAM_ERROR)
    is_done(await stand.settle())
    assert changes(stand) == ["commission"]


async def test_a_bmc_that_maas_does_not_reach_fails_the_attempt_and_the_machine_stays_new(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    stand.region.natures[machine.system_id] = Nature(bmc_error="no route")
    fails(await stand.once(), F.POWER_FAILED, "No rack controllers can access the BMC")
    assert (machine.status, memo(stand).commissions) == (S.NEW, 0)
    stand.region.natures.clear()
    is_done(await stand.settle())
    assert machine.status is S.COMMISSIONING, "the same stage commissions the machine later"


async def test_a_machine_whose_state_changes_before_the_request_is_read_again(stand: Stand) -> None:
    given(stand, S.NEW)
    moved = b'{"__all__": ["Commission is not available because of the current state of the node."]}'
    stand.region.faults.add(Fault(op="commission", status=400, body=moved, content_type="application/json"))
    assert waits(await stand.once()).requeue_after is not None
    is_done(await stand.settle())


async def test_a_machine_that_is_deleted_before_the_request_fails_the_stage(stand: Stand) -> None:
    given(stand, S.NEW)
    body = b"No Machine matches the given query."
    stand.region.faults.add(Fault(op="commission", status=404, body=body, content_type="text/plain"))
    fails(await stand.once(), F.MACHINE_DELETED_UPSTREAM, "no longer exists in MAAS")


async def test_a_request_that_maas_refuses_needs_an_operator(stand: Stand) -> None:
    given(stand, S.NEW, power_type="")
    fails(await stand.settle(), F.UPSTREAM_REFUSED, "Unconfigured power type")


# --- storage that is wiped


def reading(status: Status) -> Reading:
    disk = BlockDevice(id=1, name="sda", type="physical")
    return Reading(system_id="abc123", status=int(status), hostname="gpu-1", blockdevice_set=(disk,))


async def test_a_machine_without_disks_is_never_commissioned_without_its_storage(stand: Stand) -> None:
    """MAAS would record no disks."""
    bare = msgspec.structs.replace(reading(S.READY), blockdevice_set=())
    assert not commission(stand.node, bare, CommissionSite(keep_storage=True)).skip_storage


async def test_a_new_machine_is_commissioned_with_its_network_and_storage(stand: Stand) -> None:
    assert commission(stand.node, reading(S.NEW), CommissionSite()) == PLAIN


@pytest.mark.parametrize("status", [S.READY, S.FAILED_COMMISSIONING, S.BROKEN])
async def test_network_and_storage_of_a_machine_of_other_origin_are_kept_by_default(
    stand: Stand, status: Status
) -> None:
    assert commission(stand.node, reading(status), CommissionSite()) == KEEPS


@pytest.mark.parametrize("status", [S.NEW, S.READY, S.FAILED_COMMISSIONING, S.BROKEN])
async def test_for_a_machine_that_farrier_made_the_site_configures_what_is_kept(stand: Stand, status: Status) -> None:
    made_here = with_fields(stand.node, maas_created=True)
    assert commission(made_here, reading(status), CommissionSite()) == PLAIN
    assert commission(made_here, reading(status), CommissionSite(keep_storage=True)) == msgspec.structs.replace(
        PLAIN, skip_storage=True
    )
    assert commission(made_here, reading(status), CommissionSite(keep_networking=True)) == msgspec.structs.replace(
        PLAIN, skip_networking=True
    )


async def test_other_settings_of_the_site_are_part_of_the_request(stand: Stand) -> None:
    wanted = CommissionSite(configure_bmc=True, enable_ssh=True, testing_scripts=("smartctl-validate",))
    asked = commission(stand.node, reading(S.NEW), wanted)
    assert (asked.skip_bmc_config, asked.enable_ssh, asked.testing_scripts) == (False, True, ("smartctl-validate",))


async def test_the_network_is_kept_by_a_second_commissioning(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    is_done(await stand.settle())
    stand.pass_time(stand.region.durations.commission)
    links = [interface.links for interface in machine.interfaces]
    machine.status = S.FAILED_COMMISSIONING
    is_done(await stand.settle())
    stand.pass_time(stand.region.durations.commission)
    assert machine.status is S.READY and [interface.links for interface in machine.interfaces] == links


# --- machines in later states, or of another user


@pytest.mark.parametrize("status", [S.ALLOCATED, S.FAILED_DEPLOYMENT])
async def test_a_machine_left_by_a_deployment_of_this_onboarding_is_released_first(
    stand: Stand, status: Status
) -> None:
    is_held(given(stand, status, remembers=Memo(deploys=1)))
    to = steps(await stand.once()).to
    assert to.workflow is not None and to.workflow.stage is O.RECOVER_FOR_DATASOURCE_RETRY
    assert changes(stand) == []


@pytest.mark.parametrize(
    "status", [S.DEPLOYING, S.DEPLOYED, S.ALLOCATED, S.FAILED_DEPLOYMENT, S.RESCUE_MODE, S.RETIRED, S.MISSING]
)
async def test_a_state_that_this_onboarding_did_not_request_is_a_disagreement(stand: Stand, status: Status) -> None:
    is_held(given(stand, status))
    fails(await stand.settle(), F.STATE_DISAGREEMENT, status.label)
    assert changes(stand) == []


async def test_the_stage_waits_while_the_machine_is_being_released(stand: Stand) -> None:
    given(stand, S.RELEASING)
    assert waits(await stand.settle()).requeue_after is None, "the region's observer enqueues the node"
    assert changes(stand) == []


async def test_a_machine_that_failed_its_tests_needs_an_operator_at_once(stand: Stand) -> None:
    is_held(given(stand, S.FAILED_TESTING, error_description="1 test has failed."))
    failed = fails(await stand.settle(), F.COMMISSIONING_FAILED, "1 test has failed.", "override")
    assert failed.stop is StopRequest.FAILED
    assert changes(stand) == []


async def test_a_response_about_another_machine_changes_nothing(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    other = b'{"system_id": "zzzzzz", "status": 0, "hostname": "x"}'
    stand.region.faults.add(Fault(machine=machine.system_id, body=other, content_type="application/json"))
    fails(await stand.once(), F.UPSTREAM_ERROR, "zzzzzz")
    assert changes(stand) == [] and machine.status is S.NEW


async def test_during_an_unknown_status_the_stage_waits_and_changes_nothing(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    strange = msgspec.json.encode({"system_id": machine.system_id, "status": 99, "hostname": "x", "status_name": "Odd"})
    stand.region.faults.add(Fault(machine=machine.system_id, body=strange, content_type="application/json"))
    assert "Odd" in waits(await stand.once()).reason
    assert changes(stand) == []
