"""Facts about a node's trouble, derived from its view: whether it is held, silent or outdated.

Pure functions of a `views.NodeDetail`, used by `why` and `advice`. No decision about a node is made here.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from farrier.model.expected import EXPECTED, REPORTED, disagreement
from farrier.model.failures import QuarantineCause
from farrier.model.maas_region import RegionState
from farrier.model.management import Management
from farrier.model.mapping import WITHOUT_WORKFLOW
from farrier.model.stages import DecommissionStage as D
from farrier.model.stages import OnboardingStage as O
from farrier.model.status import NodeStatus
from farrier.model.views import NodeDetail, RegionView, RequestView
from farrier.model.workflow import LIVE, OnboardingMode, WorkflowKind, WorkflowStatus
from farrier.model.workflow_condition import POWER_IS_FREE

GOING_ON = frozenset({WorkflowStatus.PENDING, WorkflowStatus.RUNNING, WorkflowStatus.COMPENSATING})

_TASK_STAGES = frozenset(
    {
        D.FORCE_RELEASE_ALLOCATIONS,
        D.DRAIN_NODE,
        D.CLEANUP_STORAGE,
        D.SCRUB_GPU,
        D.VALIDATE_CLEAN_NODE,
        D.REMOVE_GPUAAS_NODE_RECORD,
    }
)
_BAD_REGIONS = frozenset({RegionState.FAILING, RegionState.UNCONFIGURED})


class Patience(msgspec.Struct, frozen=True):
    """After how long an agent counts as silent, and what MAAS said as old: the settings of these names."""

    offline_after: timedelta = timedelta(seconds=180)
    observation_ttl: timedelta = timedelta(seconds=300)


def is_deleted(node: NodeDetail) -> bool:
    """It is only remembered."""
    return node.status == NodeStatus.DELETED


def is_held(node: NodeDetail) -> bool:
    """A pause holds it up. A deletion and what a cancel began go on, and then its last run says what is waited for,
    which may be the end of the pause all the same."""
    if node.paused is None:
        return False
    goes_on = node.deleting or (node.workflow is not None and node.workflow.status == WorkflowStatus.COMPENSATING)
    said = "" if node.outcome is None else node.outcome.reason
    return not goes_on or said == f"paused: {node.paused}"


def is_unowned(node: NodeDetail) -> bool:
    """It is in a state that only a live workflow may hold, and has none: restored from a backup, or edited by hand."""
    is_live = node.workflow is not None and node.workflow.status in LIVE
    return node.status in frozenset(NodeStatus) - WITHOUT_WORKFLOW and not is_live


def is_unvalidated(node: NodeDetail) -> bool:
    """It is retired, and its cleanup was not validated: in service again it is quarantined."""
    return (
        node.status == NodeStatus.RETIRED
        and node.workflow is None
        and node.quarantine_cause == QuarantineCause.CLEANUP_VALIDATION_FAILED
    )


def is_braked(node: NodeDetail) -> bool:
    """Its site's brake keeps it in service although something speaks against it."""
    return node.braked_at is not None


def is_unread(node: NodeDetail) -> bool:
    """Whether the node's power should be read but cannot be read."""
    return node.management == Management.MANAGEABLE and node.bmc.sync_failure is not None


def is_unkept(node: NodeDetail) -> bool:
    """Whether the node's power differs from the enforced power."""
    bmc = node.bmc
    return node.management == Management.MANAGEABLE and bmc.desired_power not in (None, bmc.power)


def unanswered(node: NodeDetail) -> tuple[RequestView, ...]:
    """Its requests without an answer, the oldest first."""
    return tuple(request for request in reversed(node.requests) if request.status == "pending")


def goes_on(node: NodeDetail) -> bool:
    """Whether a workflow with a mode continues by itself."""
    workflow = node.workflow
    return workflow is not None and workflow.mode is not None and workflow.status in GOING_ON


def stage(node: NodeDetail) -> str | None:
    """The stage that runs now."""
    workflow = node.workflow
    return workflow.stage if workflow is not None and workflow.status == WorkflowStatus.RUNNING else None


def waits_to_enrol(node: NodeDetail) -> bool:
    """A stage waits until its agent has enrolled and is healthy."""
    return stage(node) == O.WAIT_FOR_AGENT_ENROLLMENT and not node.agentless


def waits_for_a_task(node: NodeDetail) -> bool:
    """A stage waits for what its agent has to do."""
    return (
        node.workflow is not None
        and node.workflow.kind == WorkflowKind.DECOMMISSION
        and stage(node) in _TASK_STAGES
        and not node.agentless
    )


def is_about_the_bmc(node: NodeDetail) -> bool:
    """Nothing but its BMC is waited for, as far as its last run says."""
    said = "" if node.outcome is None else node.outcome.reason
    return not goes_on(node) or stage(node) == O.RESOLVE_POWER_CREDENTIALS or "BMC" in said or "credential" in said


def is_silent(node: NodeDetail, now: datetime, patience: Patience) -> bool:
    """Its agent was heard, and not within `offline_after`."""
    heard = node.last_heartbeat_at
    return not node.agentless and heard is not None and now - heard > patience.offline_after


def bad_region(node: NodeDetail) -> RegionView | None:
    """The MAAS region of its site, where the node has to do with it and it cannot be read."""
    workflow = node.workflow
    deploys = workflow is not None and workflow.mode == OnboardingMode.DEPLOY
    if node.region is None or node.region.state not in _BAD_REGIONS or (node.maas_id is None and not deploys):
        return None
    return node.region


def not_as_expected(node: NodeDetail, now: datetime, patience: Patience) -> str | None:
    """What MAAS says of the machine that does not go with the node's status, of a node that drift does not move. A
    workflow that changes the machine in MAAS compares by itself."""
    seen, status = node.maas, next((status for status in REPORTED if status == node.status), None)
    if seen is None or status is None or old_since(node, now, patience) is not None:
        return None
    if status in (NodeStatus.RETIRED, NodeStatus.QUARANTINED) and not POWER_IS_FREE.fits(node.workflow):
        return None
    us = None if node.region is None else node.region.username
    foreign = node.held_here and bool(seen.owner) and us is not None and seen.owner != us
    said = disagreement(status, seen, foreign=foreign, noted=node.quarantine_reason)
    return None if said is None else f"{said}; expected while {status}: {EXPECTED[status].text}"


def old_since(node: NodeDetail, now: datetime, patience: Patience) -> datetime | None:
    """Since when nothing new is known of its machine in MAAS, if that is too long."""
    if node.maas is None:
        return None
    since = node.maas.stale_since or node.maas.fresh_at or node.maas.read_at
    return since if now - since > patience.observation_ttl else None
