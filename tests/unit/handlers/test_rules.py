"""The order of a run's rules, and workflows with deadlines, pauses and tasks: cases that need no database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from farrier.config import NodeConfig
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.rules.workflow import MOST_INTERRUPTIONS
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Deleted, DoNothing, Step, Transition, Wait
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.machine.health import Alert, Health
from farrier.model.machine.observation import Outage
from farrier.model.node.failures import MAX_ATTEMPTS, FailureClass, stage_backoff
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import AfterUndo, Bmc, Node, Pause, StopRequest, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage
from farrier.model.node.writes import CreateTask, EndTask, LeaveService, RevokeBootstrap
from tests.support.nodes import (
    LONG_AGO,
    MINUTE,
    NOW,
    SECOND,
    agent,
    answers,
    decide,
    decommission,
    hold,
    intent,
    moved,
    node,
    onboarding,
    reporting,
    task,
    with_bmc,
    writes,
)
from tests.support.stages import SITE

PAUSED = Pause("fire drill", LONG_AGO)


def asking(node: Node, *actions: Action) -> Node:
    return msgspec.structs.replace(node, intents=tuple(map(intent, actions)))


# --- the order of rules


def test_a_requested_stop_comes_before_health_and_progress() -> None:
    stopping = decommission(D.DRAIN_NODE, stop_requested=StopRequest.FROZEN)
    after = moved(decide(node(N.OFFLINE, workflow=stopping, agent=agent())))
    assert after.status is N.QUARANTINED
    assert after.workflow is not None and after.workflow.status is W.FAILED_MANUAL_INTERVENTION


def test_of_several_waits_the_workflows_reason_and_the_soonest_requeue_are_used() -> None:
    waiting = with_bmc(
        M.ENROLL, Bmc(next_try_at=NOW + SECOND), workflow=onboarding(W.FAILED_RETRYABLE, next_attempt_at=NOW + MINUTE)
    )
    decision = decide(waiting)
    assert isinstance(decision, Wait)
    assert "wait_for_agent_enrollment" in decision.reason and decision.requeue_after == SECOND


def test_answers_are_committed_before_a_step_begins() -> None:
    verifying = with_bmc(M.VERIFYING, Bmc(tries=(NOW,), trying=NOW), management_entered_at=NOW)
    decision = decide(asking(verifying, Action.RELEASE))
    assert isinstance(decision, Wait) and decision.requeue_after == timedelta(0)
    assert [verdict for verdict, _ in answers(decision)] == ["rejected"]


def test_intents_of_a_deleted_node_are_refused() -> None:
    gone = node(N.DELETED, deleting=True, paused=PAUSED)
    decision = decide(asking(gone, Action.DRAIN, Action.PAUSE))
    assert isinstance(decision, Wait) and decision.requeue_after == timedelta(0), "there may be more intents"
    assert isinstance(decide(gone), Deleted)
    assert [verdict for verdict, _ in answers(decision)] == ["rejected", "rejected"]
    assert all("this node is deleted" in reason for _, reason in answers(decision))


def test_the_same_snapshot_gives_the_same_reason() -> None:
    """A reason that changed from run to run would be stored in every run."""
    waiting = node(N.OFFLINE, agent=agent(heard=LONG_AGO))
    assert decide(waiting) == decide(waiting, NOW + MINUTE)


@pytest.mark.parametrize(
    "fresh",
    [node(N.BOOTSTRAP_ISSUED), node(), node(workflow=onboarding()), node(N.QUARANTINED, ever_active=False)],
    ids=["bootstrap_issued", "no workflow", "onboarding", "quarantined"],
)
def test_a_delete_revokes_the_token_in_the_commit_that_accepts_it(fresh: Node) -> None:
    decision = decide(asking(fresh, Action.DELETE))
    assert moved(decision).deleting
    assert RevokeBootstrap() in writes(decision)


# --- fresh reports of an agent


@pytest.mark.parametrize(("status", "stays"), [(N.ACTIVE, N.ACTIVE), (N.OFFLINE, N.ACTIVE)])
def test_a_heartbeat_is_too_old_one_microsecond_after_the_limit(status: N, stays: N) -> None:
    def status_after(age: timedelta) -> N:
        decision = decide(node(status, agent=agent(heard=NOW - age)))
        return decision.to.status if isinstance(decision, Transition) else status

    limit = NodeConfig().offline_after
    assert status_after(limit) is stays
    assert status_after(limit + timedelta(microseconds=1)) is N.OFFLINE


def away(lasted: timedelta) -> Outage:
    """An outage of farrier that ended a second ago."""
    return Outage(NOW - SECOND - lasted, NOW - SECOND)


@pytest.mark.parametrize(
    ("silence", "outage", "stays"),
    [
        pytest.param(4 * MINUTE, MINUTE, N.ACTIVE, id="the agent may still report"),
        pytest.param(4 * MINUTE, MINUTE - SECOND, N.OFFLINE, id="the agent has not reported"),
        pytest.param(4 * MINUTE, None, N.OFFLINE, id="no outage"),
        pytest.param(None, MINUTE, N.OFFLINE, id="the agent has never reported"),
    ],
)
def test_outages_since_the_last_heartbeat_do_not_count_as_silence_of_an_active_node(
    silence: timedelta | None, outage: timedelta | None, stays: N
) -> None:
    gaps = () if outage is None else (away(outage),)
    heard = None if silence is None else NOW - silence
    decision = decide(node(N.ACTIVE, agent=agent(heard=heard), gaps=gaps))
    assert (decision.to.status if isinstance(decision, Transition) else N.ACTIVE) is stays


def test_an_outage_of_farrier_does_not_return_an_offline_node_to_service() -> None:
    assert isinstance(decide(node(N.OFFLINE, agent=agent(heard=NOW - 60 * MINUTE), gaps=(away(60 * MINUTE),))), Wait)


def test_an_alert_from_before_an_outage_does_not_take_a_node_out_of_service() -> None:
    alerting = agent("xid-79", heard=NOW - 60 * MINUTE)
    assert isinstance(decide(node(N.ACTIVE, agent=alerting, gaps=(away(60 * MINUTE),))), DoNothing)


def test_only_an_alert_that_blocks_scheduling_takes_a_node_out_of_service() -> None:
    warned = msgspec.structs.replace(agent(), health=Health(alerts=(Alert("fan", "slow"),)))
    assert isinstance(decide(node(N.ACTIVE, agent=warned)), DoNothing)
    assert moved(decide(node(N.ACTIVE, agent=agent("xid-79")))).status is N.QUARANTINED


IS_OFF = {"power": PowerState.OFF, "power_at": NOW, "power_since": NOW}


@pytest.mark.parametrize(
    ("bmc", "alerts", "causes"),
    [
        ({}, ("xid-79",), ["agent"]),
        ({"sync_failure": BmcFailure.IDENTITY_MISMATCH, "sync_error": "it"}, (), ["identity"]),
        (IS_OFF, (), ["bmc"]),
        (IS_OFF | {"desired_power": PowerState.OFF}, (), []),
        (IS_OFF | {"off_asked_at": NOW - MINUTE}, (), []),
    ],
    ids=["not ok", "another machine", "off", "kept off", "switched off"],
)
def test_a_brake_counts_each_fact_that_takes_a_node_out_of_service_but_a_power_off_by_intent(
    bmc: dict[str, Any], alerts: tuple[str, ...], causes: list[str]
) -> None:
    it = with_bmc(M.MANAGEABLE, Bmc(**bmc), status=N.ACTIVE, agent=agent(heard=NOW - MINUTE))
    decision = decide(reporting(it, agent(*alerts, heard=NOW - MINUTE)))
    assert isinstance(decision, Transition) and decision.to.status is not N.ACTIVE
    assert [each.source for each in writes(decision) if isinstance(each, LeaveService)] == causes


# --- attempts and deadlines


def test_another_attempt_at_a_stage_has_the_whole_deadline_again() -> None:
    """The stage was entered long ago; this attempt has just begun."""
    running = onboarding(attempt=2, stage_entered_at=NOW - timedelta(hours=2), status_entered_at=NOW - MINUTE)
    assert isinstance(decide(node(workflow=running)), Wait)
    late = decide(node(workflow=running), NOW + 30 * MINUTE)
    failed = moved(late).workflow
    assert failed is not None and failed.status is W.FAILED_RETRYABLE
    assert failed.failure_class is FailureClass.TIMEOUT


def test_a_changed_limit_in_the_configuration_moves_the_deadline() -> None:
    running = onboarding(stage_entered_at=NOW - 40 * MINUTE, status_entered_at=NOW - 40 * MINUTE)
    assert moved(decide(node(workflow=running))).workflow is not None
    patient = NodeHandler(NodeConfig(), Limits({"onboarding.running.wait_for_agent_enrollment": timedelta(hours=1)}))
    assert isinstance(patient.handle(node(workflow=running), NOW), Wait)


@pytest.mark.parametrize("attempt", range(1, MAX_ATTEMPTS + 1))
def test_a_stage_backs_off_until_its_attempts_are_used_up(attempt: int) -> None:
    running = onboarding(attempt=attempt, stage_entered_at=LONG_AGO, status_entered_at=LONG_AGO)
    failed = moved(decide(node(workflow=running))).workflow
    assert failed is not None
    if attempt < MAX_ATTEMPTS:
        assert (failed.status, failed.next_attempt_at) == (W.FAILED_RETRYABLE, NOW + stage_backoff(attempt))
    else:
        assert (failed.status, failed.next_attempt_at) == (W.FAILED_MANUAL_INTERVENTION, None)


def test_a_failed_seed_from_before_the_attempt_is_ignored() -> None:
    """If that failure counted, retry_stage would fail again before the agent could report the repair."""
    began = NOW - MINUTE
    for heard, waits in ((began - SECOND, True), (began + SECOND, False)):
        reporting = agent("disk", heard=heard, ssh_seed_failures=3)
        decision = decide(node(workflow=onboarding(status_entered_at=began), agent=reporting))
        assert isinstance(decision, Wait) is waits, decision


def test_an_agent_of_the_former_installation_does_not_complete_a_new_one() -> None:
    anew = onboarding(mode_given_at=NOW - MINUTE)
    before = node(N.RETIRED, workflow=anew, agent=agent())
    assert isinstance(decide(before), Wait)
    again = msgspec.structs.replace(agent(), enrolled_at=NOW - SECOND)
    assert moved(decide(msgspec.structs.replace(before, agent=again))).status is N.OFFLINE


# --- pauses


@pytest.mark.parametrize(
    ("workflow", "goes_on"),
    [
        pytest.param(decommission(D.DISABLE_NODE), False, id="running"),
        pytest.param(decommission(status=W.PENDING), False, id="pending"),
        pytest.param(decommission(D.DRAIN_NODE, W.FAILED_RETRYABLE), False, id="between attempts"),
        pytest.param(decommission(status=W.COMPENSATING, after_undo=AfterUndo.RESTART), False, id="to begin again"),
        pytest.param(decommission(status=W.COMPENSATING, after_undo=AfterUndo.CANCEL), True, id="being cancelled"),
        pytest.param(decommission(D.DRAIN_NODE, stop_requested=StopRequest.FROZEN), True, id="stopping"),
    ],
)
def test_a_pause_stops_a_workflow_but_not_a_cancel_or_a_stop(workflow: object, goes_on: bool) -> None:
    decision = decide(node(N.OFFLINE, workflow=workflow, paused=PAUSED, agent=agent(heard=LONG_AGO)))
    assert isinstance(decision, Transition) is goes_on, decision


def test_a_pause_does_not_stop_the_deletion_of_a_node() -> None:
    walk = decommission(D.DISABLE_NODE, options=WorkflowOptions(untouched="not_applicable"))
    assert moved(decide(node(N.QUARANTINED, workflow=walk, deleting=True, paused=PAUSED))).status is N.DRAINING


# --- tasks


def test_the_task_of_a_workflow_is_cancelled_when_an_operator_stops_the_workflow() -> None:
    removing = node(N.REMOVING, workflow=decommission(D.REMOVE_GPUAAS_NODE_RECORD), tasks=(task(TaskType.UNINSTALL),))
    for action in (Action.CANCEL, Action.RESTART_CLEAN, Action.MARK_MANUAL_INTERVENTION_REQUIRED):
        decision = decide(asking(removing, action))
        assert moved(decision).status is N.RETIRED
        assert [w.status for w in writes(decision) if isinstance(w, EndTask)] == [TaskStatus.CANCELLED], action


def test_another_attempt_of_a_stage_counts_task_failures_from_zero() -> None:
    old = task(TaskType.SCRUB_GPU, TaskStatus.FAILED, failures=4, created_at=NOW - 2 * MINUTE)
    running = decommission(D.SCRUB_GPU, status_entered_at=NOW - MINUTE)
    decision = decide(node(N.RETIRED, agent=agent(), workflow=running, tasks=(old,)))
    assert [w.failures for w in writes(decision) if isinstance(w, CreateTask)] == [0]


def test_a_long_task_result_is_cut_in_the_failure() -> None:
    loud = task(TaskType.DRAIN, TaskStatus.FAILED, failures=4, result={"log": "x" * 10_000})
    after = moved(decide(node(N.DRAINING, workflow=decommission(D.DRAIN_NODE), tasks=(loud,))))
    assert after.workflow is not None and after.workflow.failure_detail is not None
    assert len(after.workflow.failure_detail) < 400


# --- a BMC and a stage that both need a step


def at_a_stage_that_asks(management: M, bmc: Bmc) -> Node:
    """A deployment whose stage calls MAAS in each run, as in an outage of MAAS."""
    asking_ = onboarding(mode=OnboardingMode.DEPLOY, stage=OnboardingStage.LOAD_SITE_CONFIG)
    return with_bmc(management, bmc, site=SITE.name, workflow=asking_)


def step_of(node: Node) -> str:
    handler = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
    decision = handler.handle(node, NOW)
    assert isinstance(decision, Step), decision
    return decision.name


def test_a_stage_with_a_step_in_every_run_does_not_prevent_reads_of_the_bmc() -> None:
    due = Bmc(system_path="/1")
    fresh = Bmc(system_path="/1", power=PowerState.ON, power_at=NOW)
    assert step_of(at_a_stage_that_asks(M.MANAGEABLE, due)) == "read_power"
    assert step_of(at_a_stage_that_asks(M.MANAGEABLE, fresh)) == "load_site_config"


# --- calls that never end


def cut_off(node: Node, times: int) -> Node:
    """The node after `times` calls that were cancelled, with the commit of each."""
    handler = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
    for _ in range(times):
        decision = handler.handle(node, NOW)
        assert isinstance(decision, Step)
        cut = decision.when_interrupted()
        assert cut is not None
        node = cut.to
    return node


def test_a_stage_fails_after_several_interrupted_calls_and_counts_them_anew() -> None:
    fresh = Bmc(system_path="/1", power=PowerState.ON, power_at=NOW)
    begun = at_a_stage_that_asks(M.MANAGEABLE, fresh)
    handler = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
    assert isinstance(handler.handle(cut_off(begun, MOST_INTERRUPTIONS - 1), NOW), Step)
    failed = moved(handler.handle(cut_off(begun, MOST_INTERRUPTIONS), NOW)).workflow
    assert failed is not None
    assert (failed.status, failed.failure_class) == (W.FAILED_RETRYABLE, FailureClass.TIMEOUT)
    assert failed.memo.interruptions == 0


def test_an_undo_whose_calls_never_end_needs_an_operator_after_its_deadline() -> None:
    """The deadline is checked although no call ever returns."""
    job = onboarding(
        W.COMPENSATING, mode=OnboardingMode.DEPLOY, stage=OnboardingStage.DEPLOY_VIA_MAAS, after_undo=AfterUndo.CANCEL
    )
    undone = cut_off(node(site=SITE.name, maas_id="abc123", workflow=job), 1)
    handler = NodeHandler(NodeConfig(), sites={SITE.name: SITE})
    assert isinstance(handler.handle(undone, NOW + timedelta(hours=1)), Step), "the undo may still end"
    late = moved(handler.handle(undone, NOW + timedelta(hours=2))).workflow
    assert late is not None
    assert (late.status, late.failure_class) == (W.FAILED_MANUAL_INTERVENTION, FailureClass.UNDO_FAILED)


# --- quarantined twice


@pytest.mark.parametrize("status", [W.RUNNING, W.FAILED_RETRYABLE])
def test_a_second_quarantine_with_the_same_reason_stops_an_onboarding_resumed_meanwhile(status: W) -> None:
    """If the onboarding continued, it would put a node into service that a client has quarantined."""
    asked = (intent(Action.QUARANTINE, reason="smoke"),)
    resumed = node(
        N.QUARANTINED, ever_active=False, conditions=(hold(reason="smoke"),), workflow=onboarding(status), intents=asked
    )
    after = moved(decide(resumed))
    assert after.status is N.QUARANTINED and after.workflow is not None
    assert after.workflow.status is W.FAILED_MANUAL_INTERVENTION
    held = msgspec.structs.replace(after, intents=asked)
    assert [reason for _, reason in answers(decide(held))] == ["already held as default for this reason"]


def test_a_resume_during_a_hold_reports_that_the_onboarding_waits_for_a_release() -> None:
    held = onboarding(W.FAILED_MANUAL_INTERVENTION, failure_class=FailureClass.OPERATOR_REQUEST)
    asked = (intent(Action.RESUME),)
    stopped = node(N.QUARANTINED, ever_active=False, conditions=(hold(reason="smoke"),), workflow=held, intents=asked)
    ((verdict, reason),) = answers(decide(stopped))
    assert verdict == "accepted" and reason.endswith("; it does not complete before a release: default: smoke")
