"""How far a node is in its decommission: in service, in `removing`, or without its agent.

After a failure or an operator's stop in one of the last stages, the node is `retired` again. Only a node in `removing`
can become `deleted`, so a continued removal enters `removing` again.
"""

from __future__ import annotations

from farrier.handlers.node.changes import StageStep, own, with_fields
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Node

IN_SERVICE = (N.ACTIVE, N.OFFLINE, N.QUARANTINED)


def back_to_removing(node: Node) -> StageStep | None:
    """Return the first step of a removal that continues after a stop; None if the status is already right."""
    if own(node).mode is not DecommissionMode.FULL_DECOMMISSION or node.status is not N.RETIRED:
        return None
    return StageStep(to=with_fields(node, status=N.REMOVING), reason="the removal of the node continues")


def pointless(node: Node) -> str | None:
    """Return why the agent gets no task: there is no work, or the machine was released together with its agent."""
    workflow = node.live
    if workflow.options.untouched is not None:
        return workflow.options.untouched
    return "machine_released" if workflow.memo.released or node.is_bare else None
