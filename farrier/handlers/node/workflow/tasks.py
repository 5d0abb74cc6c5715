"""Agent tasks: functions that issue and reissue tasks, count their failures, and skip them by force.

A task waits for an agent without a time limit. Each time its lease expires, the task is issued again. Meanwhile, views
show that the stage is above its limit. Only `failed` results count; after `max_task_attempts` of them, the task has
failed for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import assert_never

from farrier.handlers.node.changes import Done, Failed, Policy, StageResult, Waiting, attended, reachable
from farrier.handlers.node.decommission.progress import pointless
from farrier.handlers.node.workflow import cleaning_conditions, proof
from farrier.model.node.evidence import Require
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy, NodeStatus
from farrier.model.node.snapshot import NO_TIME, Decommission, Node, Task, TaskType
from farrier.model.node.snapshot import TaskStatus as T
from farrier.model.node.writes import CreateTask, EndTask, Write
from farrier.model.plural import counted

_AT_ONCE = timedelta(0)
_DETAIL_MAX = 300
# The result of a task that ended because nobody would have finished it.
_FORCED = "forced"

OWNING: Mapping[NodeStatus, TaskType] = {NodeStatus.DRAINING: TaskType.DRAIN, NodeStatus.REMOVING: TaskType.UNINSTALL}
"""The task type that a node in this status depends on."""


def work(node: Node, now: datetime, config: Policy, type_: TaskType) -> StageResult:
    """Return the result of a stage that consists of one agent task. The task is issued until it succeeds."""
    task = _current(node, type_, config)
    why = None if _is_of_worker(node, type_, config) else pointless(node)
    if why is not None and (task is None or task.status is not T.SUCCEEDED):
        return Done(reason=f"{type_}: {why}", skipped=why)
    if task is None:
        return _issue(type_, CreateTask(type=type_))
    if task.is_live and node.live.options.force and _had_its_time(node, now, config):
        return _by_force(node, task)
    if _nobody_comes(node, task) and _had_its_time(node, now, config):
        return _without_an_agent(node, task)
    match task.status:
        case T.QUEUED:
            what = f"task {task.id} ({type_})"
            reason = f"waits for a worker to take {what}" if node.agentless else f"waits for an agent to take {what}"
            return Waiting(reason=reason, requeue_after=None, timed=False)
        case T.DISPATCHED:
            return _dispatched(node, task, now)
        case T.SUCCEEDED:
            done = Done(reason=f"task {task.id} ({type_}) succeeded{_by(task)}")
            judged = proof.settled(node, config, done, proof.of_task(node, task))
            return judged if isinstance(judged, Done) else _again_or(judged, task, config)
        case T.FAILED:
            return _failed(task, config)
        case T.EXPIRED | T.CANCELLED:
            return _issue(type_, CreateTask(type=type_, attempt=task.attempt + 1, failures=task.failures))
        case _ as never:
            assert_never(never)


def first(node: Node, type_: TaskType) -> CreateTask:
    """Return the first task of a type. If no agent has anything to do, the task is inserted with status `cancelled`."""
    why = pointless(node)
    return CreateTask(type=type_) if why is None else CreateTask(type=type_, ended=T.CANCELLED, result=why)


def _is_of_worker(node: Node, type_: TaskType, config: Policy) -> bool:
    """Return whether a worker cleans the machine also without an agent, for the evidence that the site requires."""
    site = config.site_of(node)
    if site is None or type_ not in proof.STAGE_OF or node.live.options.untouched is not None:
        return False
    return site.cleaning.require is not Require.NONE and site.cleaning.by is CleaningBy.WORKER


def reissue(node: Node, type_: TaskType, now: datetime) -> tuple[Write, ...]:
    """Return the writes with which `resume` issues a task again. The result is empty while the task is new or its lease
    is live, and after the task succeeded or was cancelled by force."""
    task = _current(node, type_)
    if task is None:
        return (CreateTask(type=type_),)
    if pointless(node) is not None or (task.status is T.CANCELLED and task.result == _FORCED):
        return ()
    if task.status is T.QUEUED or (task.status is T.DISPATCHED and _lease_left(node, task, now) > _AT_ONCE):
        return ()
    if task.status is T.DISPATCHED:
        return _again(task)
    if task.status is T.SUCCEEDED:
        return ()
    return (CreateTask(type=type_, attempt=task.attempt + 1, failures=0),)


def end_live(node: Node, result: str) -> tuple[Write, ...]:
    """Cancel all tasks of the workflow that agents have not finished."""
    return tuple(EndTask(task.id, T.CANCELLED, result) for task in node.tasks if task.is_live)


def _dispatched(node: Node, task: Task, now: datetime) -> StageResult:
    left = _lease_left(node, task, now)
    if left <= _AT_ONCE:
        return Waiting(
            reason=f"the lease of {task.type} expired; farrier issued the task again",
            requeue_after=_AT_ONCE,
            timed=False,
            writes=_again(task),
        )
    return Waiting(
        reason=f"{task.claimed_by or 'an agent'} works on task {task.id} ({task.type})",
        requeue_after=left,
        timed=False,
    )


def _failed(task: Task, config: Policy) -> StageResult:
    failures, result = task.failures + 1, str(task.result)[:_DETAIL_MAX]
    detail = f"task {task.id} ({task.type}) failed {counted(failures, 'time')}{_by(task)}: {result}"
    validates = task.type is TaskType.VALIDATE_CLEAN
    failure = FailureClass.VALIDATION_FAILED if validates else FailureClass.TASK_FAILED
    return _again_or(Failed(failure=failure, detail=detail), task, config)


def _again_or(failed: Failed, task: Task, config: Policy) -> StageResult:
    """Issue a failed task again; after the last attempt, the stage has failed."""
    failures = task.failures + 1
    if failures >= config.max_task_attempts:
        return failed
    return _issue(task.type, CreateTask(type=task.type, attempt=task.attempt + 1, failures=failures))


def _by(task: Task) -> str:
    """Name the agent or worker of the task, for the history."""
    return f", done by {task.claimed_by}" if task.claimed_by else ""


def _by_force(node: Node, task: Task) -> StageResult:
    options = node.live.options
    why = f"forced by {options.asked_by or 'an operator'}: {options.reason}"
    return Done(
        reason=f"task {task.id} ({task.type}) was cancelled: {why}",
        to=cleaning_conditions.skipped(node, task.type, f"task {task.type} was cancelled, {why}"),
        skipped=why,
        writes=(EndTask(task.id, T.CANCELLED, _FORCED),),
    )


def _nobody_comes(node: Node, task: Task) -> bool:
    """Return whether no worker may come for an agentless node's task, which the region's cleaning does not need."""
    by_region = isinstance(node.workflow, Decommission) and node.workflow.options.cleaned_by is CleaningBy.REGION
    return node.agentless and by_region and task.status is T.QUEUED and task.type not in proof.STAGE_OF


def _without_an_agent(node: Node, task: Task) -> StageResult:
    why = "the node is agentless, and no worker took the task"
    ended = (EndTask(task.id, T.CANCELLED, _FORCED),)
    return Done(reason=f"task {task.id} ({task.type}) was cancelled: {why}", skipped=why, writes=ended)


def _issue(type_: TaskType, create: CreateTask) -> StageResult:
    return Waiting(reason=f"task {type_} was issued", requeue_after=_AT_ONCE, timed=False, writes=(create,))


def _again(task: Task) -> tuple[Write, ...]:
    return (
        EndTask(task.id, T.EXPIRED, "lease expired"),
        CreateTask(type=task.type, attempt=task.attempt + 1, failures=task.failures),
    )


def _lease_left(node: Node, task: Task, now: datetime) -> timedelta:
    """Return how long the lease still lasts, extended by outages in which its agent could not renew it."""
    if task.lease_until is None:
        return _AT_ONCE
    could_renew = attended if task.is_with_worker else reachable
    return task.lease_until - task.created_at - could_renew(node, task.created_at, now)


def _current(node: Node, type_: TaskType, config: Policy | None = None) -> Task | None:
    """Return the newest task of a type; None if the stage must issue the first task. A task that ended without success,
    or without the evidence that the site requires, counts only in the attempt that issued it; each new attempt of the
    stage counts failures from 0. After `restart_clean`, tasks that had succeeded run again."""
    task, workflow = node.task(type_), node.live
    if task is None or task.is_live:
        return task
    restarted_at = workflow.memo.restarted_at
    if restarted_at is not None and task.created_at <= restarted_at:
        return None
    counts = task.status is T.SUCCEEDED and (
        config is None or proof.why_refused(node, config, proof.of_task(node, task)) is None
    )
    return task if counts or task.created_at >= workflow.status_entered_at else None


def _had_its_time(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the task had `force_after`, from the start of the stage or the end of the last pause."""
    workflow = node.live
    began_at = max(workflow.stage_entered_at, workflow.memo.unpaused_at or NO_TIME)
    return reachable(node, began_at, now) >= config.force_after
