"""How an onboarding ends well."""

from __future__ import annotations

from farrier.handlers.node import onboarding_adopt
from farrier.handlers.node.moves import change, job
from farrier.model.node import Node
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import WorkflowStatus as W


def complete(node: Node, *, ending: W | None = None) -> Node:
    """The node as its onboarding ends well: in service, or after a reimage one step before. An adoption installed
    nothing: it found the goal reached, which is another ending."""
    ending = ending or (W.RECONCILED if onboarding_adopt.adopts(node) else W.COMPLETED)
    ended = change(
        node,
        workflow=job(node, status=ending, failure_class=None, failure_detail=None, next_attempt_at=None),
        ever_onboarded=True,
        quarantine=None,
    )
    if node.status is N.RETIRED:
        return change(ended, status=N.OFFLINE)
    return change(ended, status=N.ACTIVE, ever_active=True)
