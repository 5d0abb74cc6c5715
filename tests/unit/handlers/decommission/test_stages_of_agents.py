"""The stages that agents carry out: for each stage, a task is issued, awaited, issued again, and skipped by force."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.config import NodeConfig
from farrier.handlers.node.changes import with_fields
from farrier.model.node.conditions import NOT_SCRUBBED, VALIDATION_FAILED
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.snapshot import Memo, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import CreateTask, EndTask, ForgetAgent
from tests.support.decommissions import fails, is_through, skips, waits
from tests.support.nodes import task, unclean
from tests.support.stages import Stand

T = TaskStatus
STAGES = {
    D.FORCE_RELEASE_ALLOCATIONS: TaskType.RELEASE_ALLOCATIONS,
    D.CLEANUP_STORAGE: TaskType.CLEANUP_STORAGE,
    D.SCRUB_GPU: TaskType.SCRUB_GPU,
    D.VALIDATE_CLEAN_NODE: TaskType.VALIDATE_CLEAN,
}
MAX = NodeConfig().max_task_attempts
FORCE = WorkflowOptions(force=True, reason="dead", asked_by="ann")


each_stage = pytest.mark.parametrize(("stage", "type_"), STAGES.items())


# Only tasks that clean or validate mark the node.
MARKS = {
    TaskType.CLEANUP_STORAGE: [NOT_SCRUBBED],
    TaskType.SCRUB_GPU: [NOT_SCRUBBED],
    TaskType.VALIDATE_CLEAN: [VALIDATION_FAILED],
}


@each_stage
async def test_a_task_is_issued_once(stand: Stand, stage: D, type_: TaskType) -> None:
    stand.decommissions(stage)
    waits(await stand.once(), "was issued")
    assert stand.writes == [CreateTask(type=type_)]
    stand.node = with_fields(stand.node, tasks=(task(type_),))
    waits(await stand.once(), "waits for an agent")
    assert stand.writes == [CreateTask(type=type_)]


@each_stage
async def test_the_stage_waits_for_a_claimed_task_until_its_lease_expires(
    stand: Stand, stage: D, type_: TaskType
) -> None:
    stand.decommissions(stage)
    taken = task(type_, T.DISPATCHED, lease_until=stand.now + timedelta(minutes=1))
    stand.node = with_fields(stand.node, tasks=(taken,))
    waits(await stand.once(), "works on")
    stand.now += timedelta(minutes=2)
    waits(await stand.once(), "lease", "issued the task again")
    assert stand.writes == [EndTask(taken.id, T.EXPIRED, "lease expired"), CreateTask(type=type_, attempt=2)]


@each_stage
async def test_a_task_that_succeeded_completes_the_stage(stand: Stand, stage: D, type_: TaskType) -> None:
    stand.decommissions(stage)
    stand.node = with_fields(stand.node, tasks=(task(type_, T.SUCCEEDED),))
    for _ in range(2):
        is_through(await stand.settle())
    assert stand.writes == []


@each_stage
async def test_a_failed_task_is_issued_again_up_to_the_maximum_of_attempts(
    stand: Stand, stage: D, type_: TaskType
) -> None:
    stand.decommissions(stage)
    failed = task(type_, T.FAILED, failures=MAX - 2, created_at=stand.now)
    stand.node = with_fields(stand.node, tasks=(failed,))
    waits(await stand.once(), "was issued")
    assert stand.writes == [CreateTask(type=type_, attempt=2, failures=MAX - 1)]
    stand.node = with_fields(stand.node, tasks=(task(type_, T.FAILED, failures=MAX - 1, created_at=stand.now),))
    failure = F.VALIDATION_FAILED if stage is D.VALIDATE_CLEAN_NODE else F.TASK_FAILED
    fails(await stand.once(), failure, str(type_))


@each_stage
async def test_force_skips_an_unfinished_task_and_marks_the_node_if_the_task_cleans(
    stand: Stand, stage: D, type_: TaskType
) -> None:
    stand.decommissions(stage, options=FORCE)
    stand.node = with_fields(stand.node, tasks=(task(type_),))
    waits(await stand.once())
    stand.now += stand.policy.force_after
    skips(await stand.once(), "ann", "dead")
    assert [each.id for each in stand.node.conditions] == MARKS.get(type_, [])
    assert [write.result for write in stand.writes if isinstance(write, EndTask)] == ["forced"]


@each_stage
async def test_no_task_is_issued_for_a_released_machine(stand: Stand, stage: D, type_: TaskType) -> None:
    """If a task were issued, a rerun would wait for ever for an agent that is gone."""
    stand.decommissions(stage, memo=Memo(released=True))
    skips(await stand.settle(), "machine_released")
    stand.node = with_fields(stand.node, tasks=(task(type_, T.SUCCEEDED),))
    is_through(await stand.settle())
    assert stand.writes == []


@each_stage
async def test_a_deletion_issues_no_task(stand: Stand, stage: D, type_: TaskType) -> None:
    stand.decommissions(stage, options=WorkflowOptions(untouched="not_applicable"))
    skips(await stand.settle(), "not_applicable")
    assert stand.writes == []


async def test_only_a_scrub_that_succeeded_clears_the_mark_not_scrubbed(stand: Stand) -> None:
    stand.decommissions(D.SCRUB_GPU, memo=Memo(released=True))
    stand.node = with_fields(stand.node, conditions=(unclean(NOT_SCRUBBED),))
    skips(await stand.settle())
    assert stand.node.not_scrubbed
    stand.node = with_fields(stand.node, tasks=(task(TaskType.SCRUB_GPU, T.SUCCEEDED),))
    is_through(await stand.settle())
    assert not stand.node.not_scrubbed
    assert ForgetAgent() not in stand.writes
