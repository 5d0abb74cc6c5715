"""`delete`: the walk of the table's own edges to `deleted` for a node that never was active.

The node's onboarding is ended first; then a full decommission that touches nothing owns the walk. There is no short
cut: `deleted` is reached from `removing` only.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Change, Policy, transition, with_fields
from farrier.model.failures import QuarantineCause
from farrier.model.node import Decommission, Node, Options, Quarantine
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import DecommissionMode

NOT_APPLICABLE = "not_applicable"


def begin(node: Node, now: datetime, config: Policy) -> Change:
    """Into the walk, once no workflow is live. `enrolling` goes through `quarantined`, as its edges say."""
    walk = Decommission(
        mode=DecommissionMode.FULL_DECOMMISSION,
        mode_given_at=now,
        options=Options(untouched=NOT_APPLICABLE, retire=True),
    )
    to = with_fields(node, workflow=walk, deleting=True)
    if node.status is N.ENROLLING:
        to = with_fields(
            to, status=N.QUARANTINED, quarantine=Quarantine(QuarantineCause.OPERATOR, "the node is being deleted")
        )
    return transition(node, to, reason="the node is being deleted", cause="rule: delete")
