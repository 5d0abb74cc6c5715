"""Time in which farrier cannot read a node's region does not count towards the limit of any stage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.changes import NodeServices, Outcome, Policy, is_late, waited
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.onboarding import deployment
from farrier.handlers.node.workflow.failure import fail
from farrier.model.intents.actions import Action
from farrier.model.loop import outcome
from farrier.model.loop.outcome import Wait
from farrier.model.machine.bmc import BmcFailure
from farrier.model.machine.observation import Outage
from farrier.model.node.failures import MAX_ATTEMPTS, FailureClass
from farrier.model.node.layers import Management, NodeStatus, OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Bmc, Memo, Node, TaskStatus, TaskType, WorkflowOptions
from farrier.model.node.stages import WITH_MAAS, DecommissionStage, OnboardingStage
from tests.support.fake_bmc import FakeBmc
from tests.support.nodes import (
    MINUTE,
    NOW,
    SECOND,
    Alone,
    NoRegions,
    Secrets,
    decide,
    decommission,
    intent,
    moved,
    node,
    onboarding,
    task,
    with_bmc,
    writes,
)
from tests.support.played_region import SYSTEM_ID
from tests.support.stages import SITE

HOUR = timedelta(hours=1)
LONG = 10 * HOUR
BEGAN = NOW - LONG
SERVICES = NodeServices(bmc=FakeBmc(), credentials=Secrets(), maas=NoRegions(), identities=Alone())


def at(stage: OnboardingStage | DecommissionStage, *outages: Outage) -> Node:
    """A node that has been at the stage for ten hours."""
    when: dict[str, Any] = {"status_entered_at": BEGAN, "stage_entered_at": BEGAN}
    if isinstance(stage, DecommissionStage):
        return node(workflow=decommission(stage, **when), outages=outages)
    job = onboarding(mode=OnboardingMode.DEPLOY, stage=stage, memo=Memo(asked_at=BEGAN), **when)
    return node(workflow=job, outages=outages)


@pytest.mark.parametrize("stage", [*OnboardingStage, *sorted(WITH_MAAS)])
def test_an_outage_makes_no_stage_late(stage: OnboardingStage | DecommissionStage) -> None:
    lasting, over = Outage(BEGAN + MINUTE), Outage(BEGAN + MINUTE, NOW - MINUTE)
    assert is_late(at(stage), NOW, Policy())
    assert not is_late(at(stage, lasting), NOW, Policy())
    assert not is_late(at(stage, over), NOW, Policy())
    assert is_late(at(stage, over), NOW + LONG, Policy()), "time without an outage counts"
    assert is_late(at(stage, Outage(BEGAN - LONG, BEGAN)), NOW, Policy()), "an outage before the stage does not count"


@pytest.mark.parametrize("stage", [stage for stage in DecommissionStage if stage not in WITH_MAAS])
def test_a_stage_without_requests_to_maas_is_late_despite_an_outage(stage: DecommissionStage) -> None:
    assert is_late(at(stage, Outage(BEGAN + MINUTE)), NOW, Policy())


def test_a_manual_onboarding_is_late_despite_an_outage() -> None:
    job = onboarding(status_entered_at=BEGAN, stage_entered_at=BEGAN)
    assert is_late(node(workflow=job, outages=(Outage(BEGAN + MINUTE),)), NOW, Policy())


HANDLER = NodeHandler(NodeConfig(), sites={SITE.name: SITE})


def undoing(after: AfterUndo, *outages: Outage, **fields: Any) -> Node:
    """A node that has undone its deployment for ten hours, whose machine MAAS has to release."""
    when: dict[str, Any] = {"status_entered_at": BEGAN, "stage_entered_at": BEGAN, "after_undo": after}
    stage = OnboardingStage.WAIT_FOR_READY
    job = onboarding(W.COMPENSATING, mode=OnboardingMode.DEPLOY, stage=stage, **when | fields)
    return node(workflow=job, maas_id=SYSTEM_ID, site=SITE.name, outages=outages)


async def after_a_look(it: Node) -> Outcome:
    """The outcome of one run of the undo, with a region that does not respond."""
    decision = HANDLER.handle(it, NOW)
    return await decision.act(SERVICES) if isinstance(decision, outcome.Step) else decision


@pytest.mark.parametrize("after", AfterUndo)
async def test_an_outage_fails_no_undo(after: AfterUndo) -> None:
    assert isinstance(await after_a_look(undoing(after, Outage(BEGAN + MINUTE))), Wait)
    late = moved(await after_a_look(undoing(after))).workflow
    assert late is not None and late.failure_class is FailureClass.UNDO_FAILED


async def test_an_operator_can_end_an_undo_in_a_region_that_never_returns() -> None:
    it = undoing(AfterUndo.CANCEL, Outage(BEGAN + MINUTE))
    asked = intent(Action.MARK_MANUAL_INTERVENTION_REQUIRED, reason="the site is closed")
    frozen = moved(HANDLER.handle(replace(it, intents=(asked,)), NOW))
    assert frozen.workflow is not None and frozen.workflow.status is W.FAILED_MANUAL_INTERVENTION
    cancelled = moved(HANDLER.handle(replace(frozen, intents=(intent(Action.CANCEL),)), NOW))
    assert cancelled.workflow is not None and cancelled.workflow.status is W.COMPENSATING
    later = replace(cancelled, intents=(), workflow=replace(cancelled.workflow, status_entered_at=BEGAN))
    ended = moved(await after_a_look(later)).workflow
    assert ended is not None and ended.status is W.CANCELLED


def test_an_outage_that_is_noticed_later_does_not_use_up_the_last_attempt() -> None:
    running = onboarding(mode=OnboardingMode.DEPLOY, stage=OnboardingStage.COMMISSION_NODE, attempt=MAX_ATTEMPTS)
    failed = fail(node(workflow=running), NOW, FailureClass.UPSTREAM_ERROR, "502").to.workflow
    assert failed is not None and failed.status is W.FAILED_RETRYABLE
    it = node(workflow=replace(failed, status_entered_at=NOW))
    assert isinstance(HANDLER.handle(it, NOW + MINUTE), Wait), "an outage may still be noticed"
    frozen = moved(HANDLER.handle(it, NOW + 2 * MINUTE)).workflow
    assert frozen is not None and frozen.status is W.FAILED_MANUAL_INTERVENTION
    assert frozen.failure_class is FailureClass.UPSTREAM_ERROR
    noticed = replace(it, outages=(Outage(NOW + 30 * SECOND, NOW + MINUTE),))
    again = moved(HANDLER.handle(noticed, NOW + 10 * MINUTE)).workflow
    assert again is not None and (again.status, again.attempt) == (W.RUNNING, MAX_ATTEMPTS)


def test_a_failed_last_attempt_of_a_stage_without_maas_needs_an_operator_at_once() -> None:
    job = decommission(DecommissionStage.CLEANUP_STORAGE, attempt=MAX_ATTEMPTS)
    failed = fail(node(NodeStatus.RETIRED, workflow=job), NOW, FailureClass.TIMEOUT, "late").to.workflow
    assert failed is not None and failed.status is W.FAILED_MANUAL_INTERVENTION


def test_an_outage_makes_no_deployment_overdue() -> None:
    waits = OnboardingStage.WAIT_FOR_DEPLOYED
    assert deployment.is_overdue(at(waits), NOW, Policy())
    assert not deployment.is_overdue(at(waits, Outage(BEGAN + MINUTE)), NOW, Policy())


@pytest.mark.parametrize(
    ("failure", "noticed", "counts"),
    [
        (FailureClass.UPSTREAM_ERROR, 80 * SECOND, False),
        (FailureClass.UPSTREAM_ERROR, -80 * SECOND, False),
        (FailureClass.UPSTREAM_ERROR, 5 * MINUTE, True),
        (FailureClass.COMMISSIONING_FAILED, 10 * SECOND, True),
    ],
)
def test_an_attempt_that_failed_at_the_start_of_an_outage_is_not_counted(
    failure: FailureClass, noticed: timedelta, counts: bool
) -> None:
    when = NOW - 10 * MINUTE
    deploy = OnboardingMode.DEPLOY
    failed = onboarding(W.FAILED_RETRYABLE, mode=deploy, attempt=2, failure_class=failure, status_entered_at=when)
    after = moved(decide(node(workflow=failed, outages=(Outage(NOW - 10 * MINUTE + noticed),)))).workflow
    assert after is not None and after.attempt == 2 + counts


MINUTES = st.integers(0, 60)
OUTAGES = st.builds(
    lambda began, lasted: Outage(NOW + began * MINUTE, lasted and NOW + (began + lasted) * MINUTE),
    MINUTES,
    st.none() | MINUTES,
)


@given(st.lists(OUTAGES, max_size=4), st.lists(OUTAGES, max_size=4), MINUTES)
def test_only_time_without_an_outage_of_farrier_or_of_maas_counts(
    gaps: list[Outage], outages: list[Outage], since: int
) -> None:
    start, now, both = NOW + since * MINUTE, NOW + HOUR, (*gaps, *outages)
    minutes = [NOW + minute * MINUTE for minute in range(since, 60)]
    away = sum(any(o.began_at <= minute < (o.ended_at or now) for o in both) for minute in minutes)
    it = node(workflow=onboarding(mode=OnboardingMode.DEPLOY), gaps=tuple(gaps), outages=tuple(outages))
    assert waited(it, start, now) == (60 - since - away) * MINUTE


@pytest.mark.parametrize("stage", [*OnboardingStage, *DecommissionStage])
def test_an_outage_of_farrier_makes_no_stage_late(stage: OnboardingStage | DecommissionStage) -> None:
    away = replace(at(stage), gaps=(Outage(BEGAN + MINUTE, NOW - MINUTE),))
    assert not is_late(away, NOW, Policy())
    assert is_late(away, NOW + LONG, Policy()), "time without an outage counts"


def test_the_last_attempt_waits_for_a_report_of_an_outage_also_after_an_outage_of_farrier() -> None:
    failed_at, gap = NOW - 10 * MINUTE, Outage(NOW - 10 * MINUTE + SECOND, NOW - SECOND)
    failure = {"failure_class": FailureClass.UPSTREAM_ERROR, "status_entered_at": failed_at}
    job = onboarding(W.FAILED_RETRYABLE, mode=OnboardingMode.DEPLOY, attempt=MAX_ATTEMPTS, **failure)
    it = node(workflow=job, gaps=(gap,))
    assert isinstance(decide(it), Wait)
    known = moved(decide(replace(it, outages=(Outage(NOW - SECOND / 2),)))).workflow
    assert known is not None and (known.status, known.attempt) == (W.RUNNING, MAX_ATTEMPTS), (
        "the attempt does not count"
    )


def test_an_outage_extends_a_lease_that_could_not_be_renewed() -> None:
    claimed = task(TaskType.DRAIN, TaskStatus.DISPATCHED, created_at=BEGAN, lease_until=BEGAN + MINUTE)
    job = decommission(DecommissionStage.DRAIN_NODE, status_entered_at=BEGAN, stage_entered_at=BEGAN)
    it = node(NodeStatus.DRAINING, workflow=job, tasks=(claimed,))
    assert writes(decide(it)), "without an outage, the task is issued again"
    waits = decide(replace(it, gaps=(Outage(BEGAN + 30 * SECOND, NOW - SECOND),)))
    assert isinstance(waits, Wait) and not waits.writes
    assert waits.requeue_after == 29 * SECOND


def test_dead_doors_extend_the_lease_of_an_agent_and_not_that_of_a_worker() -> None:
    dead = (Outage(BEGAN + 30 * SECOND, NOW - SECOND),)
    job = decommission(DecommissionStage.DRAIN_NODE, status_entered_at=BEGAN, stage_entered_at=BEGAN)
    for claimed_by, is_issued_again in (("agent of gpu-1", False), ("worker scrubber", True)):
        claimed = task(
            TaskType.DRAIN,
            TaskStatus.DISPATCHED,
            created_at=BEGAN,
            lease_until=BEGAN + MINUTE,
            claimed_by=claimed_by,
        )
        decided = decide(node(NodeStatus.DRAINING, workflow=job, tasks=(claimed,), unreachable=dead))
        assert bool(writes(decided)) is is_issued_again, claimed_by


def test_dead_doors_do_not_count_towards_force_after() -> None:
    queued = task(TaskType.DRAIN, created_at=BEGAN)
    job = decommission(
        DecommissionStage.DRAIN_NODE,
        status_entered_at=BEGAN,
        stage_entered_at=BEGAN,
        options=WorkflowOptions(force=True),
    )
    it = node(NodeStatus.DRAINING, workflow=job, tasks=(queued,))
    assert writes(decide(it)), "without dead doors, force cancels the task"
    assert not writes(decide(replace(it, unreachable=(Outage(BEGAN + MINUTE, NOW - SECOND),))))


@pytest.mark.parametrize("stage", [*OnboardingStage, *sorted(WITH_MAAS)])
def test_dead_doors_delay_only_the_stage_that_waits_for_the_agent(stage: OnboardingStage | DecommissionStage) -> None:
    it = replace(at(stage), unreachable=(Outage(BEGAN + MINUTE, NOW - MINUTE),))
    assert is_late(it, NOW, Policy()) is (stage is not OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT)


def test_an_outage_of_farrier_does_not_count_towards_force_after() -> None:
    forced = decommission(
        DecommissionStage.DRAIN_NODE,
        status_entered_at=BEGAN,
        stage_entered_at=BEGAN,
        options=WorkflowOptions(force=True, reason="dead"),
    )
    it = node(NodeStatus.DRAINING, workflow=forced, tasks=(task(TaskType.DRAIN, created_at=BEGAN),))
    assert moved(decide(it)).status is NodeStatus.RETIRED
    assert isinstance(decide(replace(it, gaps=(Outage(BEGAN + MINUTE, NOW - MINUTE),))), Wait)


@pytest.mark.parametrize("state", [Management.VERIFYING, Management.ADOPTING])
def test_an_outage_of_farrier_does_not_count_towards_the_deadline_of_a_bmc_read(state: Management) -> None:
    it = with_bmc(state, Bmc(tries=(NOW,), trying=NOW), management_entered_at=BEGAN)
    assert moved(decide(it)).bmc.failure is BmcFailure.TIMEOUT
    assert isinstance(decide(replace(it, gaps=(Outage(BEGAN + SECOND, NOW - SECOND),))), outcome.Step)
