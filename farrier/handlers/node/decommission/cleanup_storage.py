"""Stage `cleanup_storage`: an agent removes the users' data from the node's storage."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import tasks
from farrier.handlers.node.moves import Policy, StageResult
from farrier.model.node import Node, TaskType


def cleanup_storage(node: Node, now: datetime, policy: Policy) -> StageResult:
    return tasks.work(node, TaskType.CLEANUP_STORAGE, now, policy)
