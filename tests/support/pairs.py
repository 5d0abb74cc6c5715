"""The pairs of node and workflow that a handler may leave: those of the database, and the final status of each mode."""

from __future__ import annotations

from farrier.model.node.edges import FITTING
from farrier.model.node.layers import SUCCEEDED, DecommissionMode, NodeStatus
from farrier.model.node.snapshot import Node


def fits(node: Node) -> bool:
    """Whether the node's status fits its workflow. A full decommission ends in `deleted`, and no other workflow
    does."""
    job = node.workflow
    if job is None:
        return True
    if isinstance(job.mode, DecommissionMode) and job.status in SUCCEEDED:
        is_full = job.mode is DecommissionMode.FULL_DECOMMISSION
        if is_full != (node.status is NodeStatus.DELETED):
            return False
    return node.status in FITTING[job.kind, job.status]
