"""Stage `wait_for_ready`: decides on observations; a failure is retried, and in the end waits for an operator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.handlers.node.changes import with_fields, with_workflow
from farrier.model.machine.bmc import PowerState
from farrier.model.node.failures import MAX_ATTEMPTS
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import Management
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Bmc, Memo, StopRequest
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import CommissionFate, Nature, Status
from farrier.sim.maas.records import Machine, ScriptStatus
from tests.support.found_machines import changes, fails, has, is_done, is_held, memo, round_of_scripts, steps, waits
from tests.support.handled import Handled
from tests.support.stages import SECOND, Stand

STAGE = O.WAIT_FOR_READY
S = Status


def given(stand: Stand, status: Status, *, remembers: Memo | None = None, **fields: Any) -> Machine:
    """Put the node at the stage, with this machine, which has not been observed in the stage."""
    machine = has(stand, status, **fields)
    stand.node = with_fields(stand.node, maas_id=machine.system_id)
    stand.onboards(STAGE, memo=remembers or Memo(commissions=1))
    return machine


def is_tried_again(stand: Stand, **fields: Any) -> None:
    """Let the stage fail, and begin its next attempt."""
    stand.now += SECOND
    stand.node = with_workflow(stand.node, status_entered_at=stand.now, **{"attempt": 2} | fields)


# --- waiting, and done


async def test_a_ready_machine_that_passed_completes_the_stage_without_a_request(stand: Stand) -> None:
    given(stand, S.READY)
    stand.observe()
    assert is_done(await stand.once()) == is_done(await stand.once())
    assert stand.world.observed.operations == []


@pytest.mark.parametrize("status", [S.COMMISSIONING, S.TESTING])
async def test_the_stage_waits_during_commissioning_and_testing(stand: Stand, status: Status) -> None:
    is_held(given(stand, status))
    stand.observe()
    waiting = waits(await stand.once())
    assert waiting.timed and waiting.requeue_after is None, "the observer or the deadline enqueues the node"


@pytest.mark.parametrize("status", [S.DEPLOYING, S.DEPLOYED])
async def test_a_machine_that_this_onboarding_deployed_completes_the_stage(stand: Stand, status: Status) -> None:
    is_held(given(stand, status, remembers=Memo(deploys=1)))
    stand.observe()
    is_done(await stand.once())


# --- failures


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (S.FAILED_COMMISSIONING, "1 script has failed"),
        (S.NEW, "aborted"),
    ],
)
async def test_a_failure_is_reported_and_the_next_attempt_commissions_again(
    stand: Stand, status: Status, said: str
) -> None:
    given(stand, status, error_description="1 script has failed: maas-lshw")
    stand.observe()
    assert fails(await stand.once(), F.COMMISSIONING_FAILED, said).stop is None
    is_tried_again(stand)
    waits(await stand.once())
    stand.observe()
    to = steps(await stand.once()).to
    assert to.workflow is not None
    assert (to.workflow.stage, to.workflow.attempt) == (O.COMMISSION_NODE, 1)
    assert stand.world.observed.operations == []


async def test_a_broken_machine_returns_to_commission_node_and_needs_an_operator(stand: Stand) -> None:
    given(stand, S.BROKEN, error_description="coolant leak")
    stand.observe()
    to = steps(await stand.once()).to
    assert to.workflow is not None and to.workflow.stage is O.COMMISSION_NODE
    stand.node = with_workflow(to, stage_entered_at=stand.now)
    assert fails(await stand.settle(), F.COMMISSIONING_FAILED, "coolant leak").stop is StopRequest.FAILED
    assert "commission" not in stand.world.observed.operations


async def test_a_ready_machine_whose_scripts_failed_fails_the_stage(stand: Stand) -> None:
    machine = given(stand, S.READY)
    machine.script_sets.append(round_of_scripts(stand, ScriptStatus.FAILED))
    stand.observe()
    fails(await stand.once(), F.COMMISSIONING_FAILED, "Failed")


async def test_a_machine_that_was_repaired_meanwhile_completes_the_stage(stand: Stand) -> None:
    machine = given(stand, S.FAILED_COMMISSIONING)
    stand.observe()
    fails(await stand.once(), F.COMMISSIONING_FAILED)
    machine.status = S.READY
    is_tried_again(stand)
    stand.observe()
    is_done(await stand.once())


async def test_a_machine_that_failed_its_tests_needs_an_operator_at_once(stand: Stand) -> None:
    is_held(given(stand, S.FAILED_TESTING, error_description="1 test has failed."))
    stand.observe()
    assert fails(await stand.once(), F.COMMISSIONING_FAILED, "1 test has failed.").stop is StopRequest.FAILED


@pytest.mark.parametrize(
    "status",
    [S.ALLOCATED, S.DEPLOYING, S.DEPLOYED, S.FAILED_DEPLOYMENT, S.RESCUE_MODE, S.RELEASING, S.RETIRED, S.MISSING],
)
async def test_a_state_that_this_onboarding_did_not_request_is_a_disagreement(stand: Stand, status: Status) -> None:
    is_held(given(stand, status))
    stand.observe()
    fails(await stand.once(), F.STATE_DISAGREEMENT, status.label)


# --- a power action that was lost


def is_off(stand: Stand, *, minutes: int) -> None:
    """Let time pass, and let farrier read that the machine is off."""
    stand.pass_time(timedelta(minutes=minutes))
    stand.observe(power_state="off")
    bmc = Bmc(power=PowerState.OFF, power_at=stand.now)
    stand.node = with_fields(stand.node, management=Management.MANAGEABLE, bmc=bmc)


async def test_a_commissioning_whose_power_action_was_lost_is_aborted_and_requested_again(stand: Stand) -> None:
    machine = given(stand, S.NEW, power_state="off")
    stand.region.natures[machine.system_id] = Nature(never_on=True)
    stand.onboards(O.COMMISSION_NODE, memo=Memo())
    is_done(await stand.settle())
    stand.onboards(STAGE, memo=Memo(commissions=1))
    is_off(stand, minutes=2)
    waits(await stand.once())
    is_off(stand, minutes=5)
    stand.region.natures[machine.system_id] = Nature()
    waits(await stand.settle())
    assert changes(stand)[-1] == "abort" and changes(stand).count("abort") == 1
    stand.pass_time(SECOND)
    stand.observe()
    assert "did not switch it on" in fails(await stand.once(), F.COMMISSIONING_FAILED).detail


@pytest.mark.parametrize(("in_maas", "by_bmc"), [("on", PowerState.OFF), ("off", PowerState.ON)])
async def test_a_commissioning_continues_unless_both_maas_and_the_bmc_report_power_off(
    stand: Stand, in_maas: str, by_bmc: PowerState
) -> None:
    is_held(given(stand, S.COMMISSIONING))
    is_off(stand, minutes=20)
    stand.node = with_fields(stand.node, bmc=replace(stand.node.bmc, power=by_bmc))
    stand.observe(power_state=in_maas)
    waits(await stand.once())
    assert changes(stand) == []


# --- with the handler: both stages, back-off and an operator


async def test_a_machine_that_never_passes_needs_an_operator_after_the_maximum_of_attempts(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    stand.region.natures[machine.system_id] = Nature(commission=CommissionFate.SCRIPT_FAILS)
    stand.onboards(O.COMMISSION_NODE)
    assert await Handled(stand).finish(timedelta(hours=6)) is W.FAILED_MANUAL_INTERVENTION
    assert stand.node.workflow is not None
    assert (stand.node.workflow.failure_class, stand.node.workflow.stage) == (F.COMMISSIONING_FAILED, STAGE)
    assert stand.world.observed.operations.count("commission") == MAX_ATTEMPTS == memo(stand).commissions


async def test_the_pause_before_each_commissioning_doubles(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    stand.region.natures[machine.system_id] = Nature(commission=CommissionFate.SCRIPT_FAILS)
    stand.onboards(O.COMMISSION_NODE)
    handled, pauses = Handled(stand), []
    while handled.status is not W.FAILED_MANUAL_INTERVENTION:
        handled.pass_time()
        while await handled.run():
            workflow = stand.node.live
            if workflow.status is W.FAILED_RETRYABLE and workflow.next_attempt_at is not None:
                pauses.append(round((workflow.next_attempt_at - workflow.status_entered_at).total_seconds()))
    assert pauses == [30, 60, 120, 240]


async def test_an_attempt_that_an_operator_requested_commissions_the_machine_again(stand: Stand) -> None:
    machine = given(stand, S.FAILED_COMMISSIONING, remembers=Memo(commissions=0))
    is_tried_again(stand, attempt=1)
    stand.observe()
    await Handled(stand).rest()
    assert machine.status is S.COMMISSIONING
    assert memo(stand).commissions == 1
