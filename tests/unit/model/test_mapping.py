"""The mapping: the statuses of a node that each status of its workflow allows."""

from __future__ import annotations

from farrier.model.node import mapping
from farrier.model.node.layers import NodeStatus, WorkflowKind, WorkflowStatus

# The table of the model's page; all other pairs must be refused.
ALLOWED = {
    "onboarding": {
        "pending running failed_retryable compensating failed_manual_intervention cancelled": (
            "enrolling quarantined retired"
        ),
        "completed reconciled": "active offline",
    },
    "decommission": {
        "pending running compensating": "active offline quarantined draining retired removing",
        "failed_retryable": "active offline quarantined draining retired",
        "failed_manual_intervention": "retired quarantined",
        "completed reconciled": "deleted retired offline",
        "cancelled": "active offline quarantined retired",
    },
}


def expected() -> set[tuple[str, str, str]]:
    return {
        (kind, status, node)
        for kind, rows in ALLOWED.items()
        for statuses, nodes in rows.items()
        for status in statuses.split()
        for node in nodes.split()
    }


def test_the_rows_are_those_of_the_model() -> None:
    rows = [(row.kind, row.workflow_status, row.node_status) for row in mapping.ROWS]
    assert set(rows) == expected()
    assert len(rows) == len(set(rows))


def test_only_draining_and_removing_need_a_live_workflow() -> None:
    assert set(NodeStatus) - mapping.WITHOUT_WORKFLOW == {NodeStatus.DRAINING, NodeStatus.REMOVING}
    for needy in (NodeStatus.DRAINING, NodeStatus.REMOVING):
        owners = {row.kind for row in mapping.ROWS if row.node_status is needy}
        assert owners == {WorkflowKind.DECOMMISSION}


def test_every_workflow_status_allows_some_node_status() -> None:
    for kind in WorkflowKind:
        for status in WorkflowStatus:
            assert mapping.ALLOWED[kind, status], f"{kind} {status} allows no node status"
