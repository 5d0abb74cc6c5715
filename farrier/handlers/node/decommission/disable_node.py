"""Stage `disable_node`: no work is scheduled on the node any more."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import tasks
from farrier.handlers.node.decommission.own import IN_SERVICE
from farrier.handlers.node.moves import Done, Policy, StageResult, with_fields
from farrier.model.node import Node, TaskType
from farrier.model.status import NodeStatus as N


def disable_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    """No longer schedulable, with its drain task in the same commit. A quarantine is remembered until the node is
    retired: a drain that is cancelled does not lift it."""
    if node.status not in IN_SERVICE:
        return Done(reason=f"the node is already {node.status}", skipped=f"the node was already {node.status}")
    return Done(
        reason="taken out of scheduling",
        to=with_fields(node, status=N.DRAINING),
        writes=(tasks.first(node, TaskType.DRAIN),),
    )
