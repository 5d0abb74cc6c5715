"""The successful end of a decommission."""

from __future__ import annotations

from farrier.handlers.node.changes import Policy, with_fields, with_workflow
from farrier.handlers.node.decommission.entry import own
from farrier.handlers.node.workflow import cleaning_conditions, proof
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node


def complete(node: Node, policy: Policy) -> Node:
    """Return the node after its decommission. A full decommission ends in `deleted`. A reimage leaves the node retired
    until a new installation begins, or permanently with option `retire`. After any other mode, the node is offline if
    it may return to service; otherwise, it stays retired."""
    workflow = own(node)
    ending = W.RECONCILED if workflow.memo.adopted else W.COMPLETED
    ended = with_workflow(node, status=ending, next_attempt_at=None)
    if workflow.mode is DecommissionMode.FULL_DECOMMISSION:
        return with_fields(ended, status=N.DELETED, conditions=())
    if workflow.mode is DecommissionMode.REIMAGE:
        return with_fields(ended, redeploying=not workflow.options.retire)
    is_clean = not cleaning_conditions.is_marked(node) and proof.not_to_return(node, policy) is None
    fit = node.ever_onboarded and is_clean and not node.is_bare
    returns = fit and not workflow.options.retire
    return with_fields(ended, status=N.OFFLINE) if returns else ended
