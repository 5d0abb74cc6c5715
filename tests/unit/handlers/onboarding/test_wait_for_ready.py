"""Stage `wait_for_ready`: decides on observations; a failure is retried, and in the end waits for an operator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.handlers.node.moves import with_fields, with_workflow
from farrier.model.failures import MAX_ATTEMPTS
from farrier.model.failures import FailureClass as F
from farrier.model.node import StopRequest, Upstream
from farrier.model.stages import OnboardingStage as O
from farrier.model.workflow import WorkflowStatus as W
from farrier.sim.maas import OPERATOR, CommissionFate, Nature, Status
from farrier.sim.maas.records import Machine, ScriptStatus
from tests.support.found_machines import fails, has, is_done, is_held, round_of_scripts, steps, upstream, waits
from tests.support.handled import Handled
from tests.support.stages import SECOND, Stand

STAGE = O.WAIT_FOR_READY
S = Status


def given(stand: Stand, status: Status, *, remembers: Upstream | None = None, **fields: Any) -> Machine:
    """Put the node at the stage, with this machine, which has not been observed in the stage."""
    machine = has(stand, status, **fields)
    stand.node = with_fields(stand.node, maas_id=machine.system_id)
    stand.onboards(STAGE, upstream=remembers or Upstream(commissions=1))
    return machine


def is_tried_again(stand: Stand, **fields: Any) -> None:
    """Let the stage fail, and begin its next attempt."""
    stand.now += SECOND
    stand.node = with_workflow(stand.node, status_entered_at=stand.now, **{"attempt": 2} | fields)


# --- waiting, and done


async def test_nothing_is_decided_before_maas_was_read_in_this_attempt(stand: Stand) -> None:
    given(stand, S.READY)
    stand.observe()
    stand.now += SECOND
    stand.onboards(STAGE)
    waits(await stand.once())
    stand.observe()
    is_done(await stand.once())


async def test_a_machine_that_is_ready_and_passed_is_done_without_a_request(stand: Stand) -> None:
    given(stand, S.READY)
    stand.observe()
    assert is_done(await stand.once()) == is_done(await stand.once())
    assert stand.world.observed.operations == []


@pytest.mark.parametrize("status", [S.COMMISSIONING, S.TESTING])
async def test_commissioning_and_testing_take_their_time(stand: Stand, status: Status) -> None:
    is_held(given(stand, status))
    stand.observe()
    waiting = waits(await stand.once())
    assert waiting.timed and waiting.requeue_after is None, "the observer or the deadline enqueues the node"


@pytest.mark.parametrize("status", [S.DEPLOYING, S.DEPLOYED])
async def test_what_this_onboarding_deployed_is_past_it(stand: Stand, status: Status) -> None:
    is_held(given(stand, status, remembers=Upstream(deploys=1)))
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
async def test_a_failure_is_told_first_and_the_attempt_after_it_commissions_again(
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


async def test_a_machine_that_was_marked_broken_goes_to_the_stage_that_stops_at_it(stand: Stand) -> None:
    given(stand, S.BROKEN, error_description="coolant leak")
    stand.observe()
    to = steps(await stand.once()).to
    assert to.workflow is not None and to.workflow.stage is O.COMMISSION_NODE
    stand.node = with_workflow(to, stage_entered_at=stand.now)
    assert fails(await stand.settle(), F.COMMISSIONING_FAILED, "coolant leak").stop is StopRequest.FAILED
    assert "commission" not in stand.world.observed.operations


@pytest.mark.parametrize("status", [S.READY, S.DEPLOYED, S.COMMISSIONING, S.FAILED_COMMISSIONING])
async def test_who_holds_it_is_waited_for_while_nobody_knows_whom_the_region_takes_us_for(
    stand: Stand, status: Status
) -> None:
    is_held(given(stand, status, remembers=Upstream(deploys=1)))
    stand.observe(ours=None)
    assert not waits(await stand.once()).timed


async def test_ready_without_having_passed_is_no_success(stand: Stand) -> None:
    machine = given(stand, S.READY)
    machine.script_sets.append(round_of_scripts(stand, ScriptStatus.FAILED))
    stand.observe()
    fails(await stand.once(), F.COMMISSIONING_FAILED, "Failed")


async def test_a_machine_that_was_mended_meanwhile_is_done(stand: Stand) -> None:
    machine = given(stand, S.FAILED_COMMISSIONING)
    stand.observe()
    fails(await stand.once(), F.COMMISSIONING_FAILED)
    machine.status = S.READY
    is_tried_again(stand)
    stand.observe()
    is_done(await stand.once())


async def test_the_last_of_several_commissionings_needs_a_person(stand: Stand) -> None:
    given(stand, S.FAILED_COMMISSIONING, remembers=Upstream(commissions=MAX_ATTEMPTS))
    stand.observe()
    assert fails(await stand.once(), F.COMMISSIONING_FAILED).stop is StopRequest.FAILED


async def test_failed_tests_need_a_person_at_once_because_maas_commissions_no_such_machine(stand: Stand) -> None:
    is_held(given(stand, S.FAILED_TESTING, error_description="1 test has failed."))
    stand.observe()
    assert fails(await stand.once(), F.COMMISSIONING_FAILED, "1 test has failed.").stop is StopRequest.FAILED


@pytest.mark.parametrize(
    "status",
    [S.ALLOCATED, S.DEPLOYING, S.DEPLOYED, S.FAILED_DEPLOYMENT, S.RESCUE_MODE, S.RELEASING, S.RETIRED, S.MISSING],
)
async def test_a_state_that_nobody_here_asked_for_is_a_disagreement(stand: Stand, status: Status) -> None:
    is_held(given(stand, status))
    stand.observe()
    fails(await stand.once(), F.STATE_DISAGREEMENT, status.label)


async def test_a_machine_that_somebody_else_took_is_a_disagreement(stand: Stand) -> None:
    given(stand, S.COMMISSIONING, owner=OPERATOR.username)
    stand.observe()
    fails(await stand.once(), F.STATE_DISAGREEMENT, "'op'")


async def test_a_machine_that_is_gone_is_said_to_be(stand: Stand) -> None:
    stand.region.forget(given(stand, S.COMMISSIONING))
    stand.observe()
    fails(await stand.once(), F.MACHINE_DELETED_UPSTREAM)


# --- with the handler: both stages, back-off and an operator


async def test_a_machine_that_never_passes_is_commissioned_five_times_and_then_needs_a_person(stand: Stand) -> None:
    machine = given(stand, S.NEW)
    stand.region.natures[machine.system_id] = Nature(commission=CommissionFate.SCRIPT_FAILS)
    stand.onboards(O.COMMISSION_NODE)
    assert await Handled(stand).finish(timedelta(hours=6)) is W.FAILED_MANUAL_INTERVENTION
    assert stand.node.workflow is not None
    assert (stand.node.workflow.failure_class, stand.node.workflow.stage) == (F.COMMISSIONING_FAILED, STAGE)
    assert stand.world.observed.operations.count("commission") == MAX_ATTEMPTS == upstream(stand).commissions


async def test_after_a_person_asked_for_another_it_is_commissioned_again(stand: Stand) -> None:
    machine = given(stand, S.FAILED_COMMISSIONING, remembers=Upstream(commissions=0))
    is_tried_again(stand, attempt=1)
    stand.observe()
    await Handled(stand).rest()
    assert machine.status is S.COMMISSIONING
    assert upstream(stand).commissions == 1
