"""Stage `disable_node`: takes the node out of scheduling."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Policy, StageResult, with_fields
from farrier.handlers.node.decommission.progress import IN_SERVICE
from farrier.handlers.node.workflow import tasks
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node, TaskType


def disable_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Start the drain. A quarantine stays until the node is retired, so a cancelled drain does not end it."""
    if node.status not in IN_SERVICE:
        return Done(reason=f"the node is already {node.status}", skipped=f"the node was already {node.status}")
    return Done(
        reason="the node is taken out of scheduling",
        to=with_fields(node, status=N.DRAINING),
        writes=(tasks.first(node, TaskType.DRAIN),),
    )
