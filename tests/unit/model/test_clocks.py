"""Clocks of one node: the clock of each layer runs from the begin of its state; an unknown state has no clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from farrier.model.node import clocks
from farrier.model.node.limits import Limits
from farrier.model.views.nodes import NodeView, WorkflowView

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def workflow(**fields: Any) -> WorkflowView:
    """A manual onboarding that has just begun its last stage."""
    given: dict[str, Any] = {
        "kind": "onboarding",
        "id": 1,
        "mode": "manual",
        "status": "running",
        "status_entered_at": NOW,
        "stage": "wait_for_agent_enrollment",
        "stage_entered_at": NOW,
        "attempt": 1,
        "next_attempt_at": None,
        "failure_class": None,
        "failure_detail": None,
        "mode_given_at": NOW,
        "created_at": NOW,
    }
    return WorkflowView(**given | fields)


def view(**fields: Any) -> NodeView:
    """An active node without a BMC and without faults."""
    given: dict[str, Any] = {
        "id": 1,
        "name": "gpu-1",
        "site": None,
        "model": None,
        "labels": {},
        "status": "active",
        "status_entered_at": NOW,
        "management": "unmanaged",
        "management_entered_at": NOW,
        "verify_pending_at": None,
        "schedulable": True,
        "paused": None,
        "quarantine_cause": None,
        "quarantine_reason": None,
        "last_heartbeat_at": None,
        "created_at": NOW,
        "workflow": None,
        "last_onboarding": None,
    }
    return NodeView(**given | fields)


def above(node: NodeView, limits: Limits | None = None) -> list[tuple[str, str, timedelta | None]]:
    return [(clock.layer, clock.state, clock.above) for clock in clocks.above(node, NOW, limits or Limits())]


def test_a_node_at_rest_is_never_above_a_limit() -> None:
    node = view(status_entered_at=NOW - 1000 * HOUR, management_entered_at=NOW - 1000 * HOUR)
    assert above(node) == []
    assert [(clock.limit, bool(clock.note)) for clock in clocks.running(node, NOW, Limits())] == [
        (None, True),
        (None, True),
    ]


def test_each_layer_has_its_own_clock_and_the_worst_comes_first() -> None:
    node = view(
        status="offline",
        status_entered_at=NOW - 31 * MINUTE,
        management="verifying",
        management_entered_at=NOW - 12 * MINUTE,
    )
    assert above(node) == [("management", "verifying", 10 * MINUTE), ("status", "offline", MINUTE)]


def test_a_limit_of_the_configuration_replaces_the_default() -> None:
    node = view(status="active", status_entered_at=NOW - 2 * HOUR)
    assert above(node, Limits({"status.active": HOUR})) == [("status", "active", HOUR)]


def test_a_running_workflow_counts_from_its_stage_and_any_other_from_its_status() -> None:
    early = NOW - 61 * MINUTE
    running = workflow(status_entered_at=early)
    assert above(view(workflow=running)) == []
    failing = workflow(status="failed_retryable", status_entered_at=early)
    assert above(view(workflow=failing)) == [("onboarding", "failed_retryable", MINUTE)]


@pytest.mark.parametrize(
    ("status", "runs"),
    [
        ("running", True),
        ("failed_retryable", True),
        ("failed_manual_intervention", False),
        ("compensating", False),
        ("pending", False),
    ],
)
def test_the_clock_of_a_stage_runs_until_the_workflow_waits_for_an_operator_or_undoes_its_work(
    status: str, runs: bool
) -> None:
    retried = workflow(status=status, attempt=3, stage_entered_at=NOW - 25 * MINUTE)
    stage = ("onboarding", "running/wait_for_agent_enrollment", 5 * MINUTE)
    assert (stage in above(view(workflow=retried))) is runs


def test_the_clock_of_a_pending_verification_runs_on_while_the_bmc_is_verified() -> None:
    pending = {"management_entered_at": NOW, "verify_pending_at": NOW - HOUR}
    for management in ("enroll", "verifying"):
        assert above(view(management=management, **pending)) == [("management", "enroll", 30 * MINUTE)]
    assert above(view(management="manageable", **pending)) == []


def test_a_workflow_that_changes_its_stage_can_exceed_its_end_to_end_limit() -> None:
    bouncing = workflow(mode_given_at=NOW - 5 * HOUR)
    assert above(view(workflow=bouncing)) == [("onboarding", clocks.END_TO_END, HOUR)]


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        ({"management": "manageable", "workflow": workflow(), "last_onboarding": "running"}, True),
        ({"management": "manageable", "workflow": workflow(mode=None, status="pending", mode_given_at=None)}, False),
        ({"management": "manageable", "last_onboarding": "cancelled"}, False),
        ({"management": "unmanaged", "workflow": workflow(), "last_onboarding": "running"}, False),
    ],
    ids=["under way", "no mode", "cancelled", "unmanaged"],
)
def test_an_enrolling_node_is_late_only_while_its_onboarding_runs(fields: dict[str, Any], runs: bool) -> None:
    node = view(status="enrolling", status_entered_at=NOW - 7 * HOUR, **fields)
    assert (("status", "enrolling", HOUR) in above(node)) is runs


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "hibernating"},
        {"management": "telepathic"},
        {"workflow": workflow(status="dreaming")},
        {"workflow": workflow(stage="levitate")},
        {"last_onboarding": "dreaming"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_node_in_an_unknown_state_has_no_clocks(fields: dict[str, Any]) -> None:
    late: dict[str, Any] = {"status": "offline", "status_entered_at": NOW - HOUR}
    assert clocks.running(view(**late | fields), NOW, Limits()) == ()


def test_a_deleted_node_has_no_limit() -> None:
    node = view(status="deleted", management=None, management_entered_at=None)
    assert [(clock.layer, clock.limit) for clock in clocks.running(node, NOW, Limits())] == [("status", None)]


def test_a_limit_of_a_site_applies_only_to_nodes_of_this_site() -> None:
    limits = Limits(sites={"north": {"status.offline": 2 * HOUR}}, models={"h100": {"status.active": HOUR}})
    late: dict[str, Any] = {"status": "offline", "status_entered_at": NOW - HOUR}
    assert above(view(**late, site="north"), limits) == []
    assert above(view(**late, site="south"), limits) == [("status", "offline", 30 * MINUTE)]


def test_a_limit_of_one_model_starts_a_clock_for_its_nodes() -> None:
    limits = Limits(models={"h100": {"status.active": HOUR}})
    node = view(status_entered_at=NOW - 2 * HOUR, model="h100")
    assert above(node, limits) == [("status", "active", HOUR)]
