"""The pairs of workflow status and node status that are permitted after a commit.

While a workflow is live, every commit must result in one of these pairs. The same applies to the commit that ends a
workflow. After the end, the node's status may change, except to the two statuses that require a live workflow. The
database's deferred trigger reads a table that is generated from `ROWS` and `WITHOUT_WORKFLOW`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowKind
from farrier.model.node.layers import WorkflowStatus as W


class PermittedPair(msgspec.Struct, frozen=True):
    """One permitted pair. A pair with an ended workflow is permitted only in the commit that ends the workflow."""

    kind: WorkflowKind
    workflow_status: W
    node_status: N


_ONBOARDING_LIVE = frozenset({N.ENROLLING, N.QUARANTINED, N.RETIRED})
_ONBOARDING_DONE = frozenset({N.ACTIVE, N.OFFLINE})  # offline: after a reimage, the node's health decides
_DECOMMISSION_LIVE = frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED, N.DRAINING, N.RETIRED, N.REMOVING})
_DECOMMISSION_DONE = frozenset({N.RETIRED, N.OFFLINE, N.DELETED})

ALLOWED: Mapping[tuple[WorkflowKind, W], frozenset[N]] = {
    (WorkflowKind.ONBOARDING, W.PENDING): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.RUNNING): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.COMPLETED): _ONBOARDING_DONE,
    (WorkflowKind.ONBOARDING, W.FAILED_RETRYABLE): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.FAILED_MANUAL_INTERVENTION): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.CANCELLED): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.COMPENSATING): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.RECONCILED): _ONBOARDING_DONE,
    (WorkflowKind.DECOMMISSION, W.PENDING): _DECOMMISSION_LIVE,
    (WorkflowKind.DECOMMISSION, W.RUNNING): _DECOMMISSION_LIVE,
    (WorkflowKind.DECOMMISSION, W.COMPLETED): _DECOMMISSION_DONE,
    # A failed uninstall leaves `removing` in the same commit or earlier.
    (WorkflowKind.DECOMMISSION, W.FAILED_RETRYABLE): _DECOMMISSION_LIVE - {N.REMOVING},
    (WorkflowKind.DECOMMISSION, W.FAILED_MANUAL_INTERVENTION): frozenset({N.RETIRED, N.QUARANTINED}),
    (WorkflowKind.DECOMMISSION, W.CANCELLED): frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED, N.RETIRED}),
    (WorkflowKind.DECOMMISSION, W.COMPENSATING): _DECOMMISSION_LIVE,
    (WorkflowKind.DECOMMISSION, W.RECONCILED): _DECOMMISSION_DONE,
}

WITHOUT_WORKFLOW = frozenset(N) - {N.DRAINING, N.REMOVING}
"""Statuses that a node without a live workflow may have. The other two require a live decommission."""

ROWS: tuple[PermittedPair, ...] = tuple(
    PermittedPair(kind, workflow_status, node_status)
    for (kind, workflow_status), statuses in ALLOWED.items()
    for node_status in N
    if node_status in statuses
)
"""`ALLOWED` as rows of a database table, in a fixed order."""
