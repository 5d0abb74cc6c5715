"""Stage `validate_clean_node`: nothing was left behind, as an agent or the evidence of the region's check shows."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.changes import Done, Failed, Policy, StageResult, own
from farrier.handlers.node.decommission import region_check
from farrier.handlers.node.workflow import cleaning_conditions, proof, tasks
from farrier.model.node.evidence import Contradicted, DeviceKind, judge
from farrier.model.node.snapshot import Node, TaskType


def validate_clean_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Run the task, or judge all evidence. A finished validation ends the condition of one that failed."""
    if region_check.by_region(node):
        return region_check.again(node) or _judged(node, policy)
    result = tasks.work(node, now, policy, TaskType.VALIDATE_CLEAN)
    if isinstance(result, Done) and result.skipped is None:
        return replace(result, to=proof.with_proof(cleaning_conditions.validated(result.to or node)))
    return result


def _judged(node: Node, policy: Policy) -> Done | Failed:
    evidence = own(node).memo.evidence
    if evidence is None:
        return region_check.unchecked(node)
    verdict = judge(evidence, region_check.expected_of(evidence), tuple(DeviceKind))
    if isinstance(verdict, Contradicted):
        return region_check.unclean(verdict.why)
    done = Done(
        reason="the check of the released machine found its disks erased", to=cleaning_conditions.validated(node)
    )
    result = proof.settled(node, policy, done, verdict)
    return replace(result, to=proof.with_proof(result.to or node)) if isinstance(result, Done) else result
