"""Stage `validate_clean_node`: nothing was left behind, as an agent or the evidence of the region's check shows."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node import tasks, unclean
from farrier.handlers.node.decommission import checked
from farrier.handlers.node.decommission.clean_check import expected_of
from farrier.handlers.node.decommission.own import own
from farrier.handlers.node.moves import Done, Failed, Policy, StageResult
from farrier.model.evidence import Contradicted, DeviceKind, Unproven, judge
from farrier.model.node import Node, TaskType


def validate_clean_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Run the task, or judge all of the evidence. A finished validation ends the condition of an earlier validation
    that failed."""
    if checked.by_region(node):
        return checked.again(node) or _judged(node)
    result = tasks.work(node, now, policy, TaskType.VALIDATE_CLEAN)
    if isinstance(result, Done) and result.skipped is None:
        return replace(result, to=unclean.validated(node))
    return result


def _judged(node: Node) -> Done | Failed:
    evidence = own(node).memo.evidence
    if evidence is None:
        return checked.unchecked(node)
    verdict = judge(evidence, expected_of(evidence), tuple(DeviceKind))
    if isinstance(verdict, Contradicted):
        return checked.unclean(verdict.why)
    shown = f"; unproven: {verdict.why}" if isinstance(verdict, Unproven) else ""
    return Done(reason=f"the check of the released machine found its disks erased{shown}", to=unclean.validated(node))
