"""Returns the decommission of a node, and takes the node back into `removing`.

After a failure or an operator's stop in one of the last stages, the node is `retired` again. Only a node in `removing`
can become `deleted`, so a continued removal enters `removing` again.
"""

from __future__ import annotations

from farrier.handlers.node.changes import StageStep, with_fields
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Decommission, Node

IN_SERVICE = (N.ACTIVE, N.OFFLINE, N.QUARANTINED)


def own(node: Node) -> Decommission:
    """Return the decommission to which the running stage belongs."""
    assert isinstance(node.workflow, Decommission), "the node's workflow is a decommission"
    return node.workflow


def back_to_removing(node: Node) -> StageStep | None:
    """Return the first step for a node whose removal continues after a stop; None if the node is already in the right
    status."""
    if own(node).mode is not DecommissionMode.FULL_DECOMMISSION or node.status is not N.RETIRED:
        return None
    return StageStep(to=with_fields(node, status=N.REMOVING), reason="the removal of the node continues")
