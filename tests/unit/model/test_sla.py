"""Limits: defined for every state, switched off only where the model says so, and exact at the boundary."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from farrier.model.node import edges, layers, limits, sla
from farrier.model.node.layers import Layer, Management, WorkflowStatus
from farrier.model.node.sla import SlaFacts
from farrier.model.node.stages import DecommissionStage, OnboardingStage, Stage
from tests.unit.model.test_edges import RESTING

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORDINARY = SlaFacts(
    management=Management.MANAGEABLE, manage_asked=True, onboarding=WorkflowStatus.RUNNING, has_mode=True
)
STAGES: dict[Layer, tuple[Stage, ...]] = {
    Layer.ONBOARDING: tuple(OnboardingStage),
    Layer.DECOMMISSION: tuple(DecommissionStage),
}


def minutes(layer: Layer, state: str, facts: SlaFacts = ORDINARY) -> float | None:
    limit = sla.limit(layer, state, facts=facts, overrides={})
    return None if limit is None else limit / timedelta(minutes=1)


@pytest.mark.parametrize("layer", STAGES)
def test_every_stage_has_a_limit_and_a_later_deadline(layer: Layer) -> None:
    assert set(sla.STAGES[layer]) == set(STAGES[layer])
    for stage in STAGES[layer]:
        limit = sla.limit(layer, "running", stage=stage, facts=ORDINARY, overrides={})
        assert limit is not None
        assert sla.stage_deadline(layer, stage, overrides={}) == 1.5 * limit


@pytest.mark.parametrize("layer", Layer)
def test_terminal_and_resting_states_have_no_limit_and_all_other_states_have_one(layer: Layer) -> None:
    assert set(sla.DEFAULTS[layer]) == set(layers.STATES[layer])
    for state in layers.STATES[layer]:
        unlimited = state in edges.TERMINAL[layer] | RESTING.get(layer, set()) or (
            layer in STAGES and state == "running"  # by stage
        )
        assert (minutes(layer, state) is None) == unlimited, f"{layer}.{state}"


@pytest.mark.parametrize(
    ("layer", "state", "expected"),
    [
        (Layer.STATUS, "bootstrap_issued", 72 * 60),
        (Layer.STATUS, "enrolling", 6 * 60),
        (Layer.STATUS, "offline", 30),
        (Layer.STATUS, "quarantined", 24 * 60),
        (Layer.STATUS, "draining", 120),
        (Layer.STATUS, "removing", 60),
        (Layer.MANAGEMENT, "verifying", 2),
        (Layer.MANAGEMENT, "adopting", 10),
        (Layer.MANAGEMENT, "enroll", 30),
        (Layer.MANAGEMENT, "adopt_failed", 24 * 60),
        (Layer.MANAGEMENT, "error", 60),
        (Layer.ONBOARDING, "pending", 10),
        (Layer.ONBOARDING, "failed_retryable", 60),
        (Layer.DECOMMISSION, "failed_manual_intervention", 24 * 60),
        (Layer.DECOMMISSION, "compensating", 60),
    ],
)
def test_defaults_are_those_of_the_model(layer: Layer, state: str, expected: float) -> None:
    assert minutes(layer, state) == expected


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (OnboardingStage.LOAD_SITE_CONFIG, 5),
        (OnboardingStage.COMMISSION_NODE, 5),
        (OnboardingStage.WAIT_FOR_READY, 45),
        (OnboardingStage.CONFIGURE_STORAGE, 10),
        (OnboardingStage.DEPLOY_VIA_MAAS, 5),
        (OnboardingStage.WAIT_FOR_DEPLOYED, 60),
        (OnboardingStage.WAIT_FOR_HARDWARE_SYNC_HEALTHY, 30),
        (OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT, 20),
        (DecommissionStage.DRAIN_NODE, 120),
        (DecommissionStage.SCRUB_GPU, 60),
        (DecommissionStage.CLEANUP_STORAGE, 60),
        (DecommissionStage.RELEASE_MAAS_NODE, 60),
        (DecommissionStage.VALIDATE_CLEAN_NODE, 15),
    ],
)
def test_stage_limits_are_those_of_the_model(stage: Stage, expected: float) -> None:
    layer = Layer.ONBOARDING if isinstance(stage, OnboardingStage) else Layer.DECOMMISSION
    assert sla.STAGES[layer][stage] == timedelta(minutes=expected)


@pytest.mark.parametrize(
    "facts",
    [
        SlaFacts(management=Management.MANAGEABLE, onboarding=WorkflowStatus.PENDING, has_mode=False),
        SlaFacts(management=Management.MANAGEABLE, onboarding=WorkflowStatus.CANCELLED),
        SlaFacts(management=Management.MANAGEABLE, onboarding=WorkflowStatus.FAILED_MANUAL_INTERVENTION),
        SlaFacts(management=Management.UNMANAGED, onboarding=WorkflowStatus.RUNNING),
        SlaFacts(management=Management.ENROLL, onboarding=WorkflowStatus.RUNNING),
        SlaFacts(management=Management.ERROR, onboarding=WorkflowStatus.RUNNING),
    ],
    ids=["no mode", "cancelled", "waits for operator", "unmanaged", "enroll", "error"],
)
def test_enrolling_has_no_clock_while_it_waits_for_an_operator(facts: SlaFacts) -> None:
    assert minutes(Layer.STATUS, "enrolling", facts) is None
    assert minutes(Layer.STATUS, "offline", facts) == 30  # only `enrolling` has no limit then


def test_enroll_has_no_clock_before_manage_is_requested() -> None:
    assert minutes(Layer.MANAGEMENT, "enroll", SlaFacts(management=Management.ENROLL)) is None


def test_pending_has_no_clock_without_a_mode() -> None:
    modeless = SlaFacts(management=Management.MANAGEABLE, has_mode=False)
    assert minutes(Layer.ONBOARDING, "pending", modeless) is None
    assert minutes(Layer.ONBOARDING, "failed_retryable", modeless) == 60


def test_only_an_onboarding_waits_for_a_mode() -> None:
    assert minutes(Layer.DECOMMISSION, "pending", SlaFacts(management=Management.MANAGEABLE, has_mode=False)) == 10


def test_an_override_replaces_the_default_but_does_not_start_a_clock_that_is_off() -> None:
    changed = {"status.enrolling": timedelta(hours=1), "status.active": timedelta(days=90)}
    off = SlaFacts(management=Management.UNMANAGED)
    assert sla.limit(Layer.STATUS, "enrolling", facts=ORDINARY, overrides=changed) == timedelta(hours=1)
    assert sla.limit(Layer.STATUS, "active", facts=ORDINARY, overrides=changed) == timedelta(days=90)
    assert sla.limit(Layer.STATUS, "enrolling", facts=off, overrides=changed) is None


def test_an_override_of_a_stage_moves_its_deadline_and_no_other_workflow() -> None:
    changed = {"onboarding.running.load_site_config": timedelta(minutes=20)}
    assert changed.keys() <= limits.KEYS
    onboarding = sla.stage_deadline(Layer.ONBOARDING, OnboardingStage.LOAD_SITE_CONFIG, overrides=changed)
    decommission = sla.stage_deadline(Layer.DECOMMISSION, DecommissionStage.LOAD_SITE_CONFIG, overrides=changed)
    assert (onboarding, decommission) == (timedelta(minutes=30), timedelta(minutes=7.5))


def test_end_to_end_limits() -> None:
    assert sla.end_to_end(Layer.ONBOARDING, overrides={}) == timedelta(hours=4)
    assert sla.end_to_end(Layer.DECOMMISSION, overrides={}) == timedelta(hours=8)
    shorter = {"onboarding.end_to_end": timedelta(hours=1)}
    assert sla.end_to_end(Layer.ONBOARDING, overrides=shorter) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("limit", "age", "over"),
    [
        (timedelta(minutes=30), timedelta(minutes=30), None),
        (timedelta(minutes=30), timedelta(minutes=31), timedelta(minutes=1)),
        (timedelta(minutes=30), timedelta(minutes=-5), None),
        (None, timedelta(days=999), None),
    ],
    ids=["exactly at the limit", "above", "entered in the future", "no limit"],
)
def test_a_breach_is_the_time_above_the_limit(limit: timedelta | None, age: timedelta, over: timedelta | None) -> None:
    assert sla.breach(limit, NOW - age, NOW) == over
