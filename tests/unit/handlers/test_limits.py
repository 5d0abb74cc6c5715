"""Limits in the node's handler: a limit moves the deadlines of the nodes in its scope, but changes no reason of a
wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.config import NodeConfig
from farrier.handlers.node.handler import NodeHandler
from farrier.model.loop.outcome import Transition, Wait
from farrier.model.node import clocks
from farrier.model.node.layers import WorkflowStatus
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import OnboardingStage
from tests.support import nodes
from tests.support.nodes import MINUTE, NOW
from tests.unit.model.test_clocks import view, workflow

STAGE = f"onboarding.running.{OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT}"  # 20 minutes, so its deadline is 30
PATIENT = {STAGE: timedelta(hours=1)}


def waiting(minutes: int, *, site: str | None = None, model: str | None = None) -> Node:
    """Return a node that has waited for its agent for so many minutes."""
    since = NOW - minutes * MINUTE
    job = nodes.onboarding(stage_entered_at=since, status_entered_at=since, mode_given_at=since)
    return nodes.node(site=site, model=model, workflow=job)


def status_after(handler: NodeHandler, node: Node) -> WorkflowStatus:
    decision = handler.handle(node, NOW)
    after = decision.to if isinstance(decision, Transition) else node
    assert after.workflow is not None
    return after.workflow.status


@pytest.mark.parametrize(
    ("site", "model", "waits"),
    [
        ("north", None, True),
        ("south", "h100", True),
        ("north", "impatient", True),
        ("south", "impatient", False),
        ("south", None, False),
        (None, None, False),
    ],
)
def test_a_deadline_follows_the_limit_of_the_node_s_site_and_model(
    site: str | None, model: str | None, waits: bool
) -> None:
    limits = Limits(
        models={"h100": PATIENT, "impatient": {STAGE: 5 * MINUTE}},
        sites={"north": PATIENT},
    )
    handler = NodeHandler(NodeConfig(), limits)
    expected = WorkflowStatus.RUNNING if waits else WorkflowStatus.FAILED_RETRYABLE
    assert status_after(handler, waiting(31, site=site, model=model)) is expected
    handler.use_sites({})
    assert status_after(handler, waiting(31, site=site, model=model)) is expected


def test_a_wait_above_its_limit_keeps_its_reason() -> None:
    handler = NodeHandler(NodeConfig())
    early, late = handler.handle(waiting(1), NOW), handler.handle(waiting(25), NOW)
    assert isinstance(early, Wait)
    assert isinstance(late, Wait)
    assert late.reason == early.reason
    shown = view(status="enrolling", workflow=workflow(stage_entered_at=NOW - 25 * MINUTE))
    assert [clock.above for clock in clocks.above(shown, NOW, Limits())] == [5 * MINUTE]
