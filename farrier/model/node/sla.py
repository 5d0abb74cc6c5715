"""Limits of the time that a node may stay in each state.

Every state of every layer, and every stage, has a default limit or a stated reason for having no limit. `limit` returns
the limit of one node, or None while one of the node's facts stops the clock. `breach` returns by how much the node
exceeds its limit. Views show a breach; it never changes an outcome. A clock starts at the layer's `entered_at`; an
update of the payload does not change this time. Retries of a stage do not reset the stage's clock. Transitions do not
reset the end-to-end clock, so a workflow that repeats stages also exceeds its limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

import msgspec

from farrier.model.kinds.spec import KindState
from farrier.model.node.layers import Layer, Management, NodeStatus, WorkflowStatus
from farrier.model.node.stages import DecommissionStage, OnboardingStage, Stage


class Fact(StrEnum):
    """The facts that can stop a clock."""

    MANAGEMENT = "management"
    MANAGE_ASKED = "manage_asked"
    ONBOARDING = "onboarding"
    HAS_MODE = "has_mode"


YES, NO = "true", "false"


class SlaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one node that can stop a clock. `onboarding` is the status of the last onboarding, which may be live
    or ended."""

    management: Management
    manage_asked: bool = False  # a verification of the BMC is pending
    onboarding: WorkflowStatus | None = None
    has_mode: bool = True  # the workflow has a mode

    def of(self, fact: Fact) -> str | None:
        """Return the value of this fact, for a comparison with `STOPS`; None if there is no onboarding."""
        match fact:
            case Fact.MANAGEMENT:
                return self.management
            case Fact.MANAGE_ASKED:
                return YES if self.manage_asked else NO
            case Fact.ONBOARDING:
                return self.onboarding
            case Fact.HAS_MODE:
                return YES if self.has_mode else NO
            case _ as never:
                assert_never(never)


class Stop(msgspec.Struct, frozen=True):
    """A rule that stops a clock: the clock of this state stops while the fact has one of these values."""

    layer: Layer
    state: str
    fact: Fact
    values: tuple[str, ...]


_NO_BMC = (Management.UNMANAGED, Management.ENROLL, Management.ERROR)
_IDLE = (WorkflowStatus.CANCELLED, WorkflowStatus.FAILED_MANUAL_INTERVENTION)

STOPS: tuple[Stop, ...] = (
    Stop(Layer.STATUS, NodeStatus.ENROLLING, Fact.MANAGEMENT, _NO_BMC),
    Stop(Layer.STATUS, NodeStatus.ENROLLING, Fact.ONBOARDING, _IDLE),
    Stop(Layer.STATUS, NodeStatus.ENROLLING, Fact.HAS_MODE, (NO,)),
    Stop(Layer.MANAGEMENT, Management.ENROLL, Fact.MANAGE_ASKED, (NO,)),
    Stop(Layer.ONBOARDING, WorkflowStatus.PENDING, Fact.HAS_MODE, (NO,)),
)
"""States whose clock stops while the node waits for an intent. The database has a copy of this table."""


_ENDED = KindState(why_none="it has ended")
_PENDING = KindState(limit=timedelta(minutes=10))
_WORKFLOW: Mapping[str, KindState] = {
    WorkflowStatus.PENDING: _PENDING,
    WorkflowStatus.RUNNING: KindState(why_none="each stage has its own limit"),
    WorkflowStatus.COMPLETED: _ENDED,
    WorkflowStatus.FAILED_RETRYABLE: KindState(limit=timedelta(hours=1)),
    WorkflowStatus.FAILED_MANUAL_INTERVENTION: KindState(limit=timedelta(hours=24)),
    WorkflowStatus.CANCELLED: _ENDED,
    WorkflowStatus.COMPENSATING: KindState(limit=timedelta(hours=1)),
    WorkflowStatus.RECONCILED: _ENDED,
}

DEFAULTS: Mapping[Layer, Mapping[str, KindState]] = {
    Layer.STATUS: {
        NodeStatus.BOOTSTRAP_ISSUED: KindState(limit=timedelta(hours=72)),
        NodeStatus.ENROLLING: KindState(
            limit=timedelta(hours=6),
            unless="its onboarding has no mode, was cancelled, or waits for an operator; or its management is "
            "unmanaged, enroll or error",
        ),
        NodeStatus.ACTIVE: KindState(why_none="the target state of a node"),
        NodeStatus.OFFLINE: KindState(limit=timedelta(minutes=30)),
        NodeStatus.QUARANTINED: KindState(limit=timedelta(hours=24)),
        NodeStatus.DRAINING: KindState(limit=timedelta(hours=2)),
        NodeStatus.RETIRED: KindState(why_none="the node stays retired until an operator submits an intent"),
        NodeStatus.REMOVING: KindState(limit=timedelta(hours=1)),
        NodeStatus.DELETED: KindState(why_none="it has ended"),
    },
    Layer.MANAGEMENT: {
        Management.UNMANAGED: KindState(why_none="a node may have no BMC"),
        Management.ENROLL: KindState(limit=timedelta(minutes=30), unless="no verification is pending"),
        Management.VERIFYING: KindState(limit=timedelta(minutes=2)),
        Management.MANAGEABLE: KindState(why_none="the target state of a BMC"),
        Management.ADOPTING: KindState(limit=timedelta(minutes=10)),
        Management.ADOPT_FAILED: KindState(limit=timedelta(hours=24)),
        Management.ERROR: KindState(limit=timedelta(hours=1)),
    },
    Layer.ONBOARDING: {
        **_WORKFLOW,
        WorkflowStatus.PENDING: msgspec.structs.replace(_PENDING, unless="it has no mode yet"),
    },
    Layer.DECOMMISSION: _WORKFLOW,
}

_QUICK = timedelta(minutes=5)  # for stages with at most two calls
_USUAL = timedelta(minutes=15)

_ONBOARDING: Mapping[str, timedelta] = {
    OnboardingStage.LOAD_SITE_CONFIG: _QUICK,
    OnboardingStage.RESOLVE_POWER_CREDENTIALS: _USUAL,
    OnboardingStage.CREATE_OR_FIND_IN_MAAS: _USUAL,
    OnboardingStage.COMMISSION_NODE: timedelta(minutes=5),
    OnboardingStage.WAIT_FOR_READY: timedelta(minutes=45),
    OnboardingStage.CONFIGURE_STORAGE: timedelta(minutes=10),
    OnboardingStage.APPLY_ROCE_PHASE2: _USUAL,
    OnboardingStage.ENSURE_PXE_INTERFACE_AUTO: _USUAL,
    OnboardingStage.RENDER_CLOUD_INIT: _QUICK,
    OnboardingStage.DEPLOY_VIA_MAAS: timedelta(minutes=5),
    OnboardingStage.WAIT_FOR_DEPLOYED: timedelta(minutes=60),
    OnboardingStage.CLASSIFY_DEPLOY_FAILURE: _QUICK,
    OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY: _USUAL,
    OnboardingStage.ENSURE_HARDWARE_SYNC_CONFIGURED: _USUAL,
    OnboardingStage.WAIT_FOR_HARDWARE_SYNC_HEALTHY: timedelta(minutes=30),
    OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT: timedelta(minutes=20),
}

_DECOMMISSION: Mapping[str, timedelta] = {
    DecommissionStage.DISABLE_NODE: _QUICK,
    DecommissionStage.FORCE_RELEASE_ALLOCATIONS: _USUAL,
    DecommissionStage.DRAIN_NODE: timedelta(hours=2),
    DecommissionStage.CLEANUP_STORAGE: timedelta(hours=1),
    DecommissionStage.SCRUB_GPU: timedelta(hours=1),
    DecommissionStage.VALIDATE_CLEAN_NODE: _USUAL,
    DecommissionStage.LOAD_SITE_CONFIG: _QUICK,
    DecommissionStage.RELEASE_MAAS_NODE: timedelta(hours=1),
    DecommissionStage.POWER_OFF_MAAS_NODE: _USUAL,
    DecommissionStage.RETIRE_GPUAAS_NODE: _QUICK,
    DecommissionStage.REMOVE_GPUAAS_NODE_RECORD: _USUAL,
    DecommissionStage.CLEANUP_SECRETS: _QUICK,
    DecommissionStage.REMOVE_MAAS_RECORD: _USUAL,
}

STAGES: Mapping[Layer, Mapping[str, timedelta]] = {
    Layer.ONBOARDING: _ONBOARDING,
    Layer.DECOMMISSION: _DECOMMISSION,
}
"""Limits of `running`, by workflow and stage, because both workflows have a stage `load_site_config`."""

END_TO_END: Mapping[Layer, timedelta] = {
    Layer.ONBOARDING: timedelta(hours=4),
    Layer.DECOMMISSION: timedelta(hours=8),
}
"""Limits of a whole workflow, from the time at which it gets its mode until its end."""

STAGE_DEADLINE_FACTOR = 1.5
"""A waiting stage fails with class `timeout` when it has lasted this many times its limit, so that operators see the
breach before the stage fails."""


def key(layer: Layer, state: str, stage: Stage | None = None) -> str:
    """Return the key of a limit in the configuration, such as `status.enrolling` or
    `onboarding.running.wait_for_ready`."""
    return f"{layer}.{state}" if stage is None else f"{layer}.{state}.{stage}"


def limit(
    layer: Layer,
    state: str,
    *,
    stage: Stage | None = None,
    facts: SlaFacts,
    overrides: Mapping[str, timedelta],
) -> timedelta | None:
    """Return the current limit of this node; None while its clock is stopped. If the workflow is running, `stage` is
    required."""
    if stands_still(layer, state, facts):
        return None
    inner = stage if state == WorkflowStatus.RUNNING else None
    default = DEFAULTS[layer][state].limit if inner is None else STAGES[layer][inner]
    return overrides.get(key(layer, state, inner), default)


def stands_still(layer: Layer, state: str, facts: SlaFacts) -> bool:
    """Return whether the node's facts stop the clock of the state now."""
    return any(stop.layer is layer and stop.state == state and facts.of(stop.fact) in stop.values for stop in STOPS)


def breach(limit: timedelta | None, entered_at: datetime, now: datetime) -> timedelta | None:
    """Return the time above the limit; None if there is no limit or the limit is not exceeded."""
    if limit is None:
        return None
    over = now - entered_at - limit
    return over if over > timedelta(0) else None


def stage_deadline(layer: Layer, stage: Stage, *, overrides: Mapping[str, timedelta]) -> timedelta:
    """Return the time after which a stage that still waits fails with class `timeout`."""
    default = STAGES[layer][stage]
    return overrides.get(key(layer, WorkflowStatus.RUNNING, stage), default) * STAGE_DEADLINE_FACTOR


def undo_deadline(layer: Layer, *, overrides: Mapping[str, timedelta]) -> timedelta:
    """Return the time after which an unfinished undo fails."""
    default = _WORKFLOW[WorkflowStatus.COMPENSATING].limit
    assert default is not None, "the table has a limit"
    return overrides.get(key(layer, WorkflowStatus.COMPENSATING), default) * STAGE_DEADLINE_FACTOR


def end_to_end(layer: Layer, *, overrides: Mapping[str, timedelta]) -> timedelta:
    """Return the limit of a whole workflow, counted from the time at which the workflow got its mode."""
    return overrides.get(f"{layer}.end_to_end", END_TO_END[layer])
