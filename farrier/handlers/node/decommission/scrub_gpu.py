"""Stage `scrub_gpu`: an agent erases the users' data from the memory of the GPUs."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node import tasks, unclean
from farrier.handlers.node.moves import Done, Policy, StageResult
from farrier.model.node import Node, TaskType


def scrub_gpu(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Run the task. The mark of an earlier scrub that was skipped by force is cleared only when a scrub has
    finished."""
    result = tasks.work(node, now, policy, TaskType.SCRUB_GPU)
    if isinstance(result, Done) and result.skipped is None:
        return replace(result, to=unclean.scrubbed(node))
    return result
