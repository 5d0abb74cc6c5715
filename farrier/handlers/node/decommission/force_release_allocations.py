"""Stage `force_release_allocations`: ends the node's allocation, even if its owner still uses it."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import tasks
from farrier.handlers.node.moves import Policy, StageResult
from farrier.model.node import Node, TaskType


def force_release_allocations(node: Node, now: datetime, policy: Policy) -> StageResult:
    return tasks.work(node, TaskType.RELEASE_ALLOCATIONS, now, policy)
