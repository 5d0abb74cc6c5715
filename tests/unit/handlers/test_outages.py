"""Time in which a node's region could not be read counts against no stage, whichever it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farrier.handlers.node.moves import Policy, is_late, waited
from farrier.handlers.node.onboarding import detour
from farrier.model.failures import FailureClass
from farrier.model.node import Node, Upstream
from farrier.model.observation import Outage, unread
from farrier.model.stages import DecommissionStage, OnboardingStage
from farrier.model.workflow import OnboardingMode
from farrier.model.workflow import WorkflowStatus as W
from tests.support.nodes import MINUTE, NOW, SECOND, decide, decommission, moved, node, onboarding

HOUR = timedelta(hours=1)
LONG = 10 * HOUR
BEGAN = NOW - LONG


def at(stage: OnboardingStage | DecommissionStage, *outages: Outage) -> Node:
    """Ten hours long."""
    when: dict[str, Any] = {"status_entered_at": BEGAN, "stage_entered_at": BEGAN}
    if isinstance(stage, DecommissionStage):
        return node(workflow=decommission(stage, **when), outages=outages)
    job = onboarding(mode=OnboardingMode.DEPLOY, stage=stage, upstream=Upstream(asked_at=BEGAN), **when)
    return node(workflow=job, outages=outages)


@pytest.mark.parametrize("stage", [*OnboardingStage, *DecommissionStage])
def test_no_stage_is_late_by_an_outage(stage: OnboardingStage | DecommissionStage) -> None:
    lasting, over = Outage(BEGAN + MINUTE), Outage(BEGAN + MINUTE, NOW - MINUTE)
    assert is_late(at(stage), NOW, Policy())
    assert not is_late(at(stage, lasting), NOW, Policy())
    assert not is_late(at(stage, over), NOW, Policy())
    assert is_late(at(stage, over), NOW + LONG, Policy()), "what could be read counts"
    assert is_late(at(stage, Outage(BEGAN - LONG, BEGAN)), NOW, Policy()), "what was before does not"


def test_a_deployment_is_not_overdue_by_an_outage() -> None:
    waits = OnboardingStage.WAIT_FOR_DEPLOYED
    assert detour.is_overdue(at(waits), NOW, Policy())
    assert not detour.is_overdue(at(waits, Outage(BEGAN + MINUTE)), NOW, Policy())


@pytest.mark.parametrize(
    ("failure", "noticed", "counts"),
    [
        (FailureClass.UPSTREAM_ERROR, 80 * SECOND, False),
        (FailureClass.UPSTREAM_ERROR, -80 * SECOND, False),
        (FailureClass.UPSTREAM_ERROR, 5 * MINUTE, True),
        (FailureClass.COMMISSIONING_FAILED, 10 * SECOND, True),
    ],
)
def test_an_attempt_that_failed_as_the_region_went_away_is_not_counted(
    failure: FailureClass, noticed: timedelta, counts: bool
) -> None:
    failed = onboarding(W.FAILED_RETRYABLE, attempt=2, failure_class=failure, status_entered_at=NOW - 10 * MINUTE)
    after = moved(decide(node(workflow=failed, outages=(Outage(NOW - 10 * MINUTE + noticed),)))).workflow
    assert after is not None and after.attempt == 2 + counts


@given(st.lists(st.integers(0, 3600), max_size=12), st.integers(0, 3600))
def test_what_counts_is_what_is_left_of_the_time(edges: list[int], since: int) -> None:
    """Outages that do not overlap, the last perhaps still under way."""
    moments = [NOW + edge * SECOND for edge in sorted(edges)]
    outages = tuple(Outage(began, ended) for began, ended in zip(moments[::2], moments[1::2], strict=False))
    if len(moments) % 2:
        outages = (*outages, Outage(moments[-1]))
    start, now = NOW + since * SECOND, NOW + HOUR
    seconds = range(since, 3600)
    away = sum(any(o.began_at <= NOW + s * SECOND < (o.ended_at or now) for o in outages) for s in seconds)
    assert unread(outages, start, now) == away * SECOND
    assert waited(node(outages=outages), start, now) == (3600 - since - away) * SECOND
