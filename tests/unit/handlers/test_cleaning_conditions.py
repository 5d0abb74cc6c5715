"""Only clean nodes return to service: a failed cleanup keeps a node out of service, and a clean start cleans again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.maas.reading import MaasStatus
from farrier.model.maas.reading import StatusNumber as Status
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.conditions import NOT_SCRUBBED
from farrier.model.node.layers import CleaningBy, DecommissionMode, OnboardingMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Memo, Node, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import CreateTask
from tests.support.nodes import (
    HANDLER,
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
    unclean,
    writes,
)

T = TaskStatus
FAILED = W.FAILED_MANUAL_INTERVENTION
UNVALIDATED = "cleaning/validation_failed"
CLEANING = {
    D.CLEANUP_STORAGE: TaskType.CLEANUP_STORAGE,
    D.SCRUB_GPU: TaskType.SCRUB_GPU,
    D.VALIDATE_CLEAN_NODE: TaskType.VALIDATE_CLEAN,
}


@dataclass
class Asked:
    """The result of an intent: its status, the reason, and the node after the commit."""

    verdict: str
    reason: str
    node: Node


def ask(it: Node, action: Action, **params: Any) -> Asked:
    decision = decide(replace(it, intents=(intent(action, **params),)))
    ((verdict, reason),) = answers(decision)
    return Asked(verdict, reason, it if verdict == "rejected" else replace(moved(decision), intents=()))


def cleaning(stage: D, status: T, workflow: W = FAILED) -> Node:
    """An emptied node, with the task of its cleaning stage in this status."""
    job = decommission(stage, workflow, mode=DecommissionMode.SOFT_RESET)
    return node(N.RETIRED, agent=agent(), workflow=job, tasks=(task(CLEANING[stage], status),))


def observed(status: Status) -> MaasObservation:
    """A reading of the machine in this status."""
    return MaasObservation(
        system_id="abc123", state=MaasStatus.OTHER, status=status, since=NOW, read_at=NOW, fresh_at=NOW
    )


def idle(it: Node) -> Node:
    """The node after its workflow and tasks have ended."""
    return replace(it, workflow=None, tasks=())


@pytest.mark.parametrize("stage", [D.CLEANUP_STORAGE, D.SCRUB_GPU])
@pytest.mark.parametrize("status", [T.QUEUED, T.DISPATCHED, T.FAILED, T.EXPIRED])
def test_a_node_whose_cleaning_was_cancelled_is_marked_and_does_not_return_to_service(stage: D, status: T) -> None:
    given_up = ask(cleaning(stage, status), Action.CANCEL)
    assert (given_up.verdict, given_up.node.status, given_up.node.not_scrubbed) == ("accepted", N.RETIRED, True)
    for action, params in ((Action.REACTIVATE, {}), (Action.ONBOARD, {"mode": "manual"})):
        refused = ask(idle(given_up.node), action, **params)
        assert refused.verdict == "rejected" and "submit decommission with mode: soft_reset" in refused.reason, action


@pytest.mark.parametrize("status", [T.QUEUED, T.DISPATCHED, T.FAILED, T.EXPIRED])
def test_a_node_whose_validation_was_cancelled_returns_only_by_a_release_with_a_reason(status: T) -> None:
    given_up = ask(cleaning(D.VALIDATE_CLEAN_NODE, status), Action.CANCEL).node
    assert (given_up.status, given_up.failed_validation, given_up.not_scrubbed) == (N.RETIRED, True, False)
    assert ask(idle(given_up), Action.REACTIVATE).verdict == "rejected"
    advice = f"submit release with key: {UNVALIDATED} and a reason"
    for params in ({}, {"key": UNVALIDATED}):
        refused = ask(idle(given_up), Action.RELEASE, **params)
        assert refused.verdict == "rejected" and advice in refused.reason
    released = ask(idle(given_up), Action.RELEASE, key=UNVALIDATED, reason="cleaned by hand").node
    assert (released.status, released.conditions) == (N.RETIRED, ())
    assert ask(released, Action.REACTIVATE).node.status is N.OFFLINE


@pytest.mark.parametrize(
    ("stage", "memo", "seen", "is_marked"),
    [
        (D.RELEASE_MAAS_NODE, Memo(), Status.DEPLOYED, False),
        (D.RELEASE_MAAS_NODE, Memo(asked="release", asked_at=NOW), Status.DEPLOYED, True),
        (D.RELEASE_MAAS_NODE, Memo(asked="abort", asked_at=NOW), Status.FAILED_DISK_ERASING, True),
        (D.RELEASE_MAAS_NODE, Memo(), Status.DISK_ERASING, True),
        (D.CLEANUP_STORAGE, Memo(), Status.READY, True),
    ],
    ids=["nothing requested", "requested", "aborted", "response lost", "released"],
)
def test_a_node_is_marked_if_the_region_had_begun_to_clean_it(
    stage: D, memo: Memo, seen: Status, is_marked: bool
) -> None:
    by_region = WorkflowOptions(cleaned_by=CleaningBy.REGION)
    job = decommission(stage, FAILED, mode=DecommissionMode.REIMAGE, options=by_region, memo=memo)
    it = node(N.RETIRED, workflow=job, maas_id="abc123", maas=observed(seen))
    assert ask(it, Action.CANCEL).node.not_scrubbed is is_marked


def test_a_node_whose_cleaning_succeeded_is_not_marked() -> None:
    assert not ask(cleaning(D.SCRUB_GPU, T.SUCCEEDED), Action.CANCEL).node.not_scrubbed


def test_a_node_marked_as_not_scrubbed_can_be_installed_again() -> None:
    """A forced reimage leads to such an installation."""
    marked = idle(replace(cleaning(D.SCRUB_GPU, T.FAILED), conditions=(unclean(NOT_SCRUBBED),)))
    asked = ask(marked, Action.ONBOARD, mode=OnboardingMode.DEPLOY.value)
    assert "scrub" not in asked.reason


def test_a_clean_restart_cleans_the_node_again_before_it_validates() -> None:
    """Without another cleaning, the validation would find the same data again."""
    dirty = task(TaskType.VALIDATE_CLEAN, T.FAILED, created_at=NOW - MINUTE)
    cleaned = task(TaskType.SCRUB_GPU, T.SUCCEEDED, created_at=NOW - 2 * MINUTE)
    job = decommission(D.VALIDATE_CLEAN_NODE, FAILED, mode=DecommissionMode.SOFT_RESET)
    it = ask(node(N.RETIRED, agent=agent(), workflow=job, tasks=(dirty, cleaned)), Action.RESTART_CLEAN).node
    assert it.workflow is not None and it.workflow.status is W.COMPENSATING
    scrubs = at_stage(it, D.SCRUB_GPU)
    (issued,) = (write for write in writes(HANDLER.handle(scrubs, NOW + MINUTE)) if isinstance(write, CreateTask))
    assert (issued.type, issued.failures) == (TaskType.SCRUB_GPU, 0)
    done = task(TaskType.SCRUB_GPU, T.SUCCEEDED, created_at=NOW + MINUTE)
    through = moved(HANDLER.handle(replace(scrubs, tasks=(done, dirty)), NOW + 2 * MINUTE))
    assert through.workflow is not None and through.workflow.stage is D.VALIDATE_CLEAN_NODE


def at_stage(it: Node, stage: D) -> Node:
    """The node once its workflow has reached the stage again."""
    assert it.workflow is not None
    return replace(it, workflow=replace(it.workflow, status=W.RUNNING, stage=stage, status_entered_at=NOW))


# --- machines that were released before


@pytest.mark.parametrize("stage", [D.FORCE_RELEASE_ALLOCATIONS, *CLEANING])
def test_no_agent_is_awaited_on_a_machine_that_an_earlier_workflow_released(stage: D) -> None:
    """After a reimage that stays retired, or a cancelled redeployment, the machine has no agent."""
    bare = node(N.RETIRED, workflow=decommission(stage))
    after = moved(decide(bare))
    assert after.workflow is not None and after.workflow.stage is not stage
    assert [skipped.why for skipped in after.workflow.skipped] == ["machine_released"]


def test_a_node_without_an_agent_is_removed_with_a_cancelled_uninstall_task() -> None:
    decision = decide(node(N.RETIRED, workflow=decommission(D.REMOVE_GPUAAS_NODE_RECORD)))
    assert moved(decision).status is N.REMOVING
    assert writes(decision) == (CreateTask(type=TaskType.UNINSTALL, ended=T.CANCELLED, result="machine_released"),)


def test_a_reset_without_an_agent_does_not_return_the_node_to_service() -> None:
    job = decommission(D.RETIRE_GPUAAS_NODE, mode=DecommissionMode.SOFT_RESET)
    assert moved(decide(node(N.RETIRED, workflow=job))).status is N.RETIRED


def test_an_agentless_or_draining_node_does_not_count_as_released() -> None:
    draining = decommission(D.DRAIN_NODE)
    for it in (
        node(N.DRAINING, workflow=draining),
        node(N.RETIRED, agentless=True, workflow=decommission(D.SCRUB_GPU)),
    ):
        assert [type(write) for write in writes(decide(it))] == [CreateTask]


@pytest.mark.parametrize(("memo", "result"), [(Memo(released=True), "machine_released"), (Memo(), "forced")])
def test_a_resume_in_a_later_stage_of_the_removal_issues_no_second_uninstall_task(memo: Memo, result: str) -> None:
    over = task(TaskType.UNINSTALL, T.CANCELLED, result=result)
    job = decommission(D.REMOVE_MAAS_RECORD, memo=memo)
    it = node(N.REMOVING, agent=agent(), workflow=job, tasks=(over,), intents=(intent(Action.RESUME),))
    assert not any(isinstance(write, CreateTask) for write in writes(decide(it)))
