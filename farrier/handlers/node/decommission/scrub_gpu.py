"""Stage `scrub_gpu`: the users' data are erased from the memory of the GPUs.

If the region cleans the machine, a power cycle clears this memory, and the memory of the host.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.changes import Done, Failed, Policy, StageResult, own
from farrier.handlers.node.decommission import region_check
from farrier.handlers.node.workflow import cleaning_conditions, proof, tasks
from farrier.model.node.evidence import DeviceKind, judge
from farrier.model.node.snapshot import Node, TaskType

_MEMORY = (DeviceKind.GPU, DeviceKind.HOST_MEMORY)


def scrub_gpu(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Run the task, or judge the power cycle. Only a finished scrub clears the mark of one that force skipped."""
    if region_check.by_region(node):
        return region_check.again(node) or _cleared(node, policy)
    result = tasks.work(node, now, policy, TaskType.SCRUB_GPU)
    if isinstance(result, Done) and result.skipped is None:
        return replace(result, to=cleaning_conditions.scrubbed(result.to or node))
    return result


def _cleared(node: Node, policy: Policy) -> Done | Failed:
    evidence = own(node).memo.evidence
    if evidence is None:
        return region_check.unchecked(node)
    done = Done(reason="the BMC showed a power cycle of the machine", to=cleaning_conditions.scrubbed(node))
    if evidence.power_cycle is None:
        done = Done(reason="the BMC did not show a power cycle, so nothing shows that the memory was cleared")
    return proof.settled(node, policy, done, judge(evidence, region_check.expected_of(evidence), _MEMORY))
