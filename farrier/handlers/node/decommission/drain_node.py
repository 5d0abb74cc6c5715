"""Stage `drain_node`: drains the node and retires it."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.changes import (
    Done,
    Failed,
    Policy,
    StageResult,
    StageStep,
    ended_with_the_workflow,
    with_fields,
)
from farrier.handlers.node.decommission.progress import IN_SERVICE
from farrier.handlers.node.workflow import tasks
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node, StopRequest, TaskType


def drain_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    if node.status in IN_SERVICE:  # resumed after a drain that failed for good
        return StageStep(
            to=with_fields(node, status=N.DRAINING),
            reason="farrier drains the node again",
            writes=tasks.reissue(node, TaskType.DRAIN, now),
        )
    if node.status is not N.DRAINING:
        return Done(reason=f"the node is already {node.status}", skipped=f"the node was already {node.status}")
    result = tasks.work(node, now, policy, TaskType.DRAIN)
    if isinstance(result, Done):
        emptied = with_fields(result.to or node, status=N.RETIRED, cleaned=None)
        return replace(result, to=ended_with_the_workflow(emptied))
    if isinstance(result, Failed):
        return replace(result, stop=StopRequest.DRAIN_FAILED)
    return result
