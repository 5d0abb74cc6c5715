"""Intent `delete`: deletes a node that was never active. The node goes through the model's edges to `deleted`.

The node's onboarding ends first. `deleted` can only be reached from `removing`, so a full decommission then takes the
node through the edges, but skips all work.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Change, Policy, transition, with_fields
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Decommission, Node, WorkflowOptions

NOT_APPLICABLE = "not_applicable"


def begin(node: Node, now: datetime, config: Policy) -> Change:
    """Begin the decommission when no workflow is live. A node in `enrolling` first enters `quarantined`, as its edges
    require."""
    walk = Decommission(
        mode=DecommissionMode.FULL_DECOMMISSION,
        mode_given_at=now,
        options=WorkflowOptions(untouched=NOT_APPLICABLE, retire=True),
    )
    to = with_fields(node, workflow=walk, deleting=True)
    if node.status is N.ENROLLING:
        to = with_fields(to, status=N.QUARANTINED)
    return transition(node, to, reason="the node is being deleted", cause="rule: delete")
