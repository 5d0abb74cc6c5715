"""The evidence of cleaning tasks: what a missing, incomplete or contradicting one does to the stage and to the node."""

from __future__ import annotations

from typing import Any

import pytest

from farrier.config import NodeConfig
from farrier.config.sites import CleaningSite
from farrier.handlers.node.changes import Done, with_fields
from farrier.model.node.conditions import UNPROVEN, Effect
from farrier.model.node.evidence import (
    By,
    Cleaned,
    Device,
    DeviceKind,
    DeviceResult,
    Evidence,
    ExpectedDevices,
    Judged,
    Part,
    Require,
)
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.snapshot import Memo, Skipped, Task, TaskStatus, TaskType
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.writes import CreateTask
from tests.support.decommissions import fails, is_through, waits
from tests.support.nodes import task, unclean
from tests.support.stages import Stand

MAX = NodeConfig().max_task_attempts
EXPECTED = ExpectedDevices(disks=(Part(serial="S1"),), gpus=(Part(serial="G1"),))
KIND = {
    TaskType.CLEANUP_STORAGE: (DeviceKind.DISK, "S1"),
    TaskType.SCRUB_GPU: (DeviceKind.GPU, "G1"),
    TaskType.VALIDATE_CLEAN: (DeviceKind.DISK, "S1"),
}
STAGES = {
    D.CLEANUP_STORAGE: TaskType.CLEANUP_STORAGE,
    D.SCRUB_GPU: TaskType.SCRUB_GPU,
    D.VALIDATE_CLEAN_NODE: TaskType.VALIDATE_CLEAN,
}
each_stage = pytest.mark.parametrize(("stage", "type_"), STAGES.items())


def of(type_: TaskType, by: By = By.AGENT, **fields: Any) -> Evidence:
    kind, serial = KIND[type_]
    return Evidence(by=by, devices=(Device(kind=kind, serial=serial, result=DeviceResult.ERASED, **fields),))


def finished(type_: TaskType, evidence: Evidence | None, **fields: Any) -> Task:
    return task(type_, TaskStatus.SUCCEEDED, evidence=evidence, claimed_by="agent of gpu-1", **fields)


def at(stand: Stand, stage: D, ended: Task, require: Require = Require.NONE, **fields: Any) -> None:
    stand.use(cleaning=CleaningSite(require=require))
    stand.decommissions(stage, **fields)
    stand.node = with_fields(stand.node, tasks=(ended,), expected=EXPECTED)


@each_stage
async def test_a_result_without_evidence_is_accepted_and_marked_unproven(
    stand: Stand, stage: D, type_: TaskType
) -> None:
    at(stand, stage, finished(type_, None))
    done = await stand.settle()
    assert isinstance(done, Done) and done.reason.endswith("unproven: the result has no evidence")
    (note,) = stand.node.conditions
    assert (note.id, note.target, note.effect) == (UNPROVEN, stage, Effect.NOTE)
    assert stand.node.live.memo.judged == (Judged(stage, why="the result has no evidence"),)


@each_stage
async def test_a_proven_result_ends_the_mark_of_its_stage_alone(stand: Stand, stage: D, type_: TaskType) -> None:
    at(stand, stage, finished(type_, of(type_)))
    other = with_target(unclean(UNPROVEN), "another stage")
    stand.node = with_fields(stand.node, conditions=(with_target(unclean(UNPROVEN), stage), other))
    done = await stand.settle()
    assert isinstance(done, Done) and done.reason.endswith("; proven by the agent")
    assert stand.node.conditions == (other,)
    assert stand.node.live.memo.judged == (Judged(stage, by=By.AGENT),)


def with_target(condition: Any, target: str) -> Any:
    return with_fields(condition, target=target)


@each_stage
@pytest.mark.parametrize(
    ("require", "evidence"),
    [(Require.EVIDENCE, False), (Require.OUTSIDE, False), (Require.OUTSIDE, True)],
)
async def test_a_site_that_requires_more_has_the_task_done_again_and_then_fails_the_stage(
    stand: Stand, stage: D, type_: TaskType, require: Require, evidence: bool
) -> None:
    told = of(type_) if evidence else None
    at(stand, stage, finished(type_, told, created_at=stand.now), require)
    waits(await stand.once(), "was issued")
    assert stand.writes == [CreateTask(type=type_, attempt=2, failures=1)]
    at(stand, stage, finished(type_, told, failures=MAX - 1, created_at=stand.now), require)
    fails(await stand.once(), F.VALIDATION_FAILED, str(type_), f"cleaning.require of site north is {require}")


@each_stage
async def test_a_new_attempt_of_the_stage_has_the_task_done_anew(stand: Stand, stage: D, type_: TaskType) -> None:
    at(stand, stage, finished(type_, None, failures=MAX - 1), Require.EVIDENCE)
    waits(await stand.once(), "was issued")
    assert stand.writes == [CreateTask(type=type_)]


@each_stage
async def test_evidence_of_a_failure_fails_the_task_also_where_nothing_is_required(
    stand: Stand, stage: D, type_: TaskType
) -> None:
    lying = of(type_, samples=8, bad_samples=3)
    at(stand, stage, finished(type_, lying, failures=MAX - 1, created_at=stand.now))
    fails(await stand.once(), F.VALIDATION_FAILED, "contradicts its success", "3 of 8 samples are not erased")


async def test_the_last_stage_records_the_weakest_proof_of_the_whole_cleaning(stand: Stand) -> None:
    proved = (Judged(D.CLEANUP_STORAGE, by=By.WORKER), Judged(D.SCRUB_GPU, by=By.AGENT))
    at(stand, D.VALIDATE_CLEAN_NODE, finished(TaskType.VALIDATE_CLEAN, of(TaskType.VALIDATE_CLEAN, By.WORKER)))
    for memo, skipped, cleaned in (
        (Memo(judged=proved), (), Cleaned(By.AGENT, 12)),
        (Memo(judged=proved[:1]), (), None),
        (Memo(judged=(proved[0], Judged(D.SCRUB_GPU, why="no evidence"))), (), None),
        (Memo(judged=proved), (Skipped(D.SCRUB_GPU, "forced"),), None),
    ):
        stand.decommissions(D.VALIDATE_CLEAN_NODE, memo=memo, skipped=skipped)
        stand.node = with_fields(stand.node, cleaned=None)
        is_through(await stand.settle())
        assert stand.node.cleaned == cleaned


async def test_a_soft_reset_needs_evidence_of_the_gpus_alone(stand: Stand) -> None:
    at(
        stand,
        D.VALIDATE_CLEAN_NODE,
        finished(TaskType.VALIDATE_CLEAN, None),
        Require.EVIDENCE,
        mode=DecommissionMode.SOFT_RESET,
        memo=Memo(judged=(Judged(D.SCRUB_GPU, by=By.AGENT),)),
    )
    is_through(await stand.settle())
    assert stand.node.cleaned == Cleaned(By.AGENT, 12)
