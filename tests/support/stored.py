"""The effect of a commit on a node, without a database: computes the snapshot that the next run would load.

For walks over more states than a real loop could be taken through; the tests on PostgreSQL assert the same of the real
statements.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from farrier.model.node.conditions import Condition, Source
from farrier.model.node.layers import LIVE
from farrier.model.node.snapshot import Node, Task, TaskStatus, Workflow
from farrier.model.node.writes import AnswerIntent, CreateTask, EndTask, ForgetAgent, RevokeBootstrap, Write

OPEN = (TaskStatus.QUEUED, TaskStatus.DISPATCHED)


def stored(before: Node, after: Node, decided: tuple[Write, ...], now: datetime) -> Node:
    """The snapshot that the next run would load."""
    workflow = clocked(before.workflow, after.workflow, now)
    forgotten = any(isinstance(w, ForgetAgent) for w in decided)
    same_job = workflow is not None and before.workflow is not None and workflow.id == before.workflow.id
    after = replace(
        after,
        version=before.version + 1,
        status_entered_at=before.status_entered_at if after.status is before.status else now,
        management_entered_at=before.management_entered_at if after.management is before.management else now,
        workflow=workflow,
        agent=None if forgotten else after.agent,
        bmc=replace(after.bmc, power_since=now) if after.bmc.power is not before.bmc.power else after.bmc,
        conditions=dated(before, after, now, forgotten=forgotten),
        maas=None if after.maas_id is None else after.maas,
        intents=unanswered(before, decided),
        secrets_left=() if any(isinstance(w, RevokeBootstrap) for w in decided) else after.secrets_left,
    )
    return replace(after, tasks=issued(before.tasks if same_job else (), decided, now) if workflow is not None else ())


def dated(before: Node, after: Node, now: datetime, *, forgotten: bool) -> tuple[Condition, ...]:
    """The conditions, each with the time at which it began. The conditions of a forgotten agent end."""
    since = {each.key: each.since for each in before.conditions}
    kept = (each for each in after.conditions if not (forgotten and each.source == Source.AGENT))
    return tuple(replace(each, since=since.get(each.key) or now) for each in kept)


def clocked(before: Workflow | None, after: Workflow | None, now: datetime) -> Workflow | None:
    if after is None or after.status not in LIVE:
        return None
    if before is None or before.id != after.id:
        return _new(after, before.id + 1 if before else 100, now)
    return replace(
        after,
        status_entered_at=before.status_entered_at if after.status is before.status else now,
        stage_entered_at=before.stage_entered_at if after.stage is before.stage else now,
    )


def _new(workflow: Workflow, number: int, now: datetime) -> Workflow:
    """The workflow as the database inserts it, with a unique mark."""
    return replace(workflow, id=number, mark=f"{number:016x}", status_entered_at=now, stage_entered_at=now)


def unanswered(before: Node, decided: tuple[Write, ...]) -> Any:
    answered = {w.intent for w in decided if isinstance(w, AnswerIntent)}
    return tuple(i for i in before.intents if i.id not in answered)


def issued(tasks: tuple[Task, ...], decided: tuple[Write, ...], now: datetime) -> tuple[Task, ...]:
    newest = {task.type: task for task in tasks}
    for end in decided:
        if isinstance(end, EndTask):
            newest |= {t.type: replace(t, status=end.status) for t in tasks if t.id == end.task and t.status in OPEN}
    for new in decided:
        if isinstance(new, CreateTask) and (new.type not in newest or newest[new.type].status not in OPEN):
            newest[new.type] = Task(
                id=max((t.id for t in newest.values()), default=0) + 1,
                type=new.type,
                status=new.ended or TaskStatus.QUEUED,
                attempt=new.attempt,
                failures=new.failures,
                created_at=now,
            )
    return tuple(newest.values())
