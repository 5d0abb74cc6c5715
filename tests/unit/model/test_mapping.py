"""Which node status goes with which workflow."""

from __future__ import annotations

import pytest

from farrier.model import mapping
from farrier.model.status import NodeStatus
from farrier.model.workflow import DecommissionMode, WorkflowKind, WorkflowStatus

EVERY = [(kind, status, node) for kind in WorkflowKind for status in WorkflowStatus for node in NodeStatus]

# As the model's page has it; what is not here must be refused.
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


@pytest.mark.parametrize(("kind", "status", "node"), EVERY)
def test_the_function_agrees_with_the_rows(kind: WorkflowKind, status: WorkflowStatus, node: NodeStatus) -> None:
    text = mapping.violation(node, kind=kind, workflow_status=status)
    if (kind, status, node) in expected():
        assert text is None
    else:
        assert text is not None
        assert f"{kind} {status}" in text
        assert text.endswith(f"this one is {node}")


@pytest.mark.parametrize(
    ("mode", "node", "fits"),
    [
        (DecommissionMode.FULL_DECOMMISSION, NodeStatus.DELETED, True),
        (DecommissionMode.FULL_DECOMMISSION, NodeStatus.RETIRED, False),
        (DecommissionMode.REIMAGE, NodeStatus.RETIRED, True),
        (DecommissionMode.REIMAGE, NodeStatus.DELETED, False),
        (DecommissionMode.SOFT_RESET, NodeStatus.OFFLINE, True),
    ],
)
def test_only_a_full_decommission_ends_in_deleted_and_nowhere_else(
    mode: DecommissionMode, node: NodeStatus, fits: bool
) -> None:
    text = mapping.violation(node, kind=WorkflowKind.DECOMMISSION, workflow_status=WorkflowStatus.COMPLETED, mode=mode)
    assert (text is None) == fits


def test_every_workflow_status_goes_with_some_node_status() -> None:
    for kind in WorkflowKind:
        for status in WorkflowStatus:
            assert mapping.ALLOWED[kind, status], f"{kind} {status} goes with no node at all"
