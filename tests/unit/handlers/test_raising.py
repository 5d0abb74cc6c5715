"""Options of a decommission under way are raised and never lowered; an agentless node needs `force` from the start;
`resume` during a pause issues its tasks when the pause ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Wait
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Decommission, Node, Pause, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import CreateTask, EndTask
from tests.support.nodes import (
    LONG_AGO,
    MINUTE,
    NOW,
    agent,
    answers,
    decide,
    decommission,
    intent,
    moved,
    node,
    task,
    writes,
)
from tests.support.stored import stored

BECAUSE = {"force": True, "reason": "the agent is dead"}
DRAIN_ONLY = (D.FORCE_RELEASE_ALLOCATIONS, D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE)


def asked(it: Node, action: Action, **params: Any) -> tuple[str, str, Node]:
    """The intent's status, the reason, and the node after its answer."""
    decision = decide(replace(it, intents=(intent(action, **params),)))
    ((verdict, reason),) = answers(decision)
    after = it if isinstance(decision, Wait) else moved(decision)
    return verdict, reason, stored(it, replace(after, intents=()), writes(decision), NOW)


def options_of(it: Node) -> WorkflowOptions:
    assert isinstance(it.workflow, Decommission)
    return it.workflow.options


def draining(**options: Any) -> Node:
    job = decommission(
        D.DRAIN_NODE,
        mode=DecommissionMode.SOFT_RESET,
        options=WorkflowOptions(retire=True, leave_out=DRAIN_ONLY, **options),
        stage_entered_at=LONG_AGO,
    )
    return node(N.DRAINING, workflow=job, tasks=(task(TaskType.DRAIN),), agent=agent())


def resetting(status: W = W.RUNNING, where: N = N.RETIRED, **options: Any) -> Node:
    job = decommission(
        D.SCRUB_GPU,
        status,
        mode=DecommissionMode.SOFT_RESET,
        options=WorkflowOptions(**options),
        stage_entered_at=LONG_AGO,
    )
    return node(where, workflow=job, tasks=(task(TaskType.SCRUB_GPU),), agent=agent())


def test_force_on_a_running_drain_ends_its_task() -> None:
    verdict, _, forced = asked(draining(), Action.DRAIN, **BECAUSE)
    assert verdict == "accepted"
    assert (options_of(forced).force, options_of(forced).reason) == (True, "the agent is dead")
    assert options_of(forced).asked_by == "an operator"
    after = decide(forced)
    assert moved(after).status is N.RETIRED
    assert [w.result for w in writes(after) if isinstance(w, EndTask)] == ["forced"]


@pytest.mark.parametrize("status", [W.RUNNING, W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION])
def test_force_and_retire_of_a_decommission_are_raised_in_any_of_its_states(status: W) -> None:
    verdict, _, raised = asked(resetting(status), Action.DECOMMISSION, mode="soft_reset", retire=True, **BECAUSE)
    assert verdict == "accepted"
    assert (options_of(raised).force, options_of(raised).retire) == (True, True)
    assert raised.workflow is not None and raised.workflow.status is status


def test_no_option_is_lowered() -> None:
    first = resetting(force=True, retire=True, reason="dead", asked_by="ann")
    verdict, reason, after = asked(first, Action.DECOMMISSION, mode="soft_reset")
    assert (verdict, options_of(after)) == ("accepted", options_of(first))
    assert "already" in reason


@pytest.mark.parametrize(
    ("it", "action", "params"),
    [
        (resetting(), Action.DECOMMISSION, {"mode": "reimage"}),
        (resetting(), Action.DRAIN, {}),
        (draining(), Action.DECOMMISSION, {"mode": "soft_reset"}),
    ],
    ids=["another mode", "a drain of a reset", "a reset of a drain"],
)
def test_another_workflow_is_refused_with_the_name_of_the_live_workflow(it: Node, action: Action, params: Any) -> None:
    verdict, reason, after = asked(replace(it, maas_id=None), action, **params, **BECAUSE)
    assert verdict == "rejected" and options_of(after) == options_of(it)
    assert "decommission" in reason


@pytest.mark.parametrize(
    ("status", "action", "params"),
    [
        (N.ACTIVE, Action.DRAIN, {}),
        (N.OFFLINE, Action.DRAIN, {}),
        (N.ACTIVE, Action.DECOMMISSION, {"mode": "soft_reset"}),
        (N.RETIRED, Action.DECOMMISSION, {"mode": "full_decommission", "leave_on": True}),
        (N.RETIRED, Action.REMOVE, {}),
    ],
)
def test_an_agentless_node_refuses_work_of_an_agent_unless_it_is_forced(
    status: N, action: Action, params: dict[str, Any]
) -> None:
    verdict, reason, _ = asked(node(status, agentless=True), action, **params)
    assert verdict == "rejected" and "force: true" in reason
    verdict, _, begun = asked(node(status, agentless=True), action, **params, **BECAUSE)
    assert verdict == "accepted" and options_of(begun).force


PAUSED = Pause("fire drill", LONG_AGO)


@pytest.mark.parametrize("status", [TaskStatus.DISPATCHED, TaskStatus.FAILED])
def test_a_task_that_resume_issues_during_a_pause_is_created_when_the_pause_ends(status: TaskStatus) -> None:
    lost = task(TaskType.DRAIN, status, lease_until=NOW - MINUTE, failures=3)
    paused = replace(draining(), paused=PAUSED, tasks=(lost,))
    verdict, reason, resumed = asked(paused, Action.RESUME)
    assert verdict == "accepted" and "when the pause ends" in reason
    assert [t.status for t in resumed.tasks] == [status], "no task is issued in a pause"
    again, _, twice = asked(resumed, Action.RESUME)
    assert again == "accepted" and twice.tasks == resumed.tasks
    ended = decide(replace(twice, intents=(intent(Action.UNPAUSE),)))
    assert [w.type for w in writes(ended) if isinstance(w, CreateTask)] == [TaskType.DRAIN]
    after = moved(ended).workflow
    assert after is not None and not after.memo.resumed


def test_resume_during_a_pause_does_not_replace_a_claimed_task() -> None:
    held = task(TaskType.DRAIN, TaskStatus.DISPATCHED, lease_until=NOW + MINUTE)
    verdict, reason, after = asked(replace(draining(), paused=PAUSED, tasks=(held,)), Action.RESUME)
    assert verdict == "accepted" and "in progress" in reason
    assert not writes(decide(replace(after, intents=(intent(Action.UNPAUSE),))))[1:]


def test_a_failed_workflow_that_is_resumed_during_a_pause_continues_after_the_pause() -> None:
    failed = replace(resetting(W.FAILED_MANUAL_INTERVENTION), paused=PAUSED)
    verdict, _, resumed = asked(failed, Action.RESUME)
    assert verdict == "accepted"
    assert resumed.workflow is not None and resumed.workflow.status is W.RUNNING
    still = decide(resumed)
    assert isinstance(still, Wait) and not still.writes and "paused" in still.reason
