"""Stage `validate_clean_node`: somebody has looked, and nothing was left behind."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import tasks
from farrier.handlers.node.moves import Policy
from farrier.handlers.node.stage import StageResult
from farrier.model.node import Node, TaskType


def validate_clean_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    return tasks.work(node, TaskType.VALIDATE_CLEAN, now, policy)
