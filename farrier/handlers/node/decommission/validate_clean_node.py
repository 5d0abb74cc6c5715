"""Stage `validate_clean_node`: an agent verifies that nothing was left behind."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node import tasks, unclean
from farrier.handlers.node.moves import Done, Policy, StageResult
from farrier.model.node import Node, TaskType


def validate_clean_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Run the task. A finished validation ends the condition of an earlier validation that failed."""
    result = tasks.work(node, now, policy, TaskType.VALIDATE_CLEAN)
    if isinstance(result, Done) and result.skipped is None:
        return replace(result, to=unclean.validated(node))
    return result
