"""Facts about the problems of a node, derived from its view: for example, whether a pause delays it or its agent is
silent. Pure functions of a `views.NodeDetail`. Handlers do not use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from farrier.model.advice.recommended import Recommended
from farrier.model.intents.actions import Action
from farrier.model.intents.workflow_condition import POWER_IS_FREE
from farrier.model.maas.reading import UNUSED, MaasStatus
from farrier.model.maas.region import RegionState
from farrier.model.machine.bmc import PowerState
from farrier.model.machine.expected import EXPECTED, GOES_ON_AT, REPORTED, disagreement, goals_left, shows_goal
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Source
from farrier.model.node.edges import WITHOUT_WORKFLOW
from farrier.model.node.evidence import Require
from farrier.model.node.layers import (
    LIVE,
    DecommissionMode,
    Management,
    NodeStatus,
    OnboardingMode,
    WorkflowKind,
    WorkflowStatus,
)
from farrier.model.node.stages import IN_ITS_OWN_SYSTEM, PATHS
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.views.nodes import MaasView, NodeDetail, NodeView, RegionView, RequestView

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
# The reason of a node that waits because its BMC has refused too many logins. The node itself may have no failure: the
# logins of other nodes at the same BMC count, too.
_LOGIN_PAUSE = "waits for a pause in logins"
_WITHOUT_BMC = (Management.UNMANAGED, Management.ERROR)
_BAD_REGIONS = frozenset({RegionState.FAILING, RegionState.UNCONFIGURED})


class Patience(msgspec.Struct, frozen=True):
    """The ages at which an agent counts as silent and an observation from MAAS as stale. Each field has the name of its
    setting."""

    offline_after: timedelta = timedelta(seconds=180)
    observation_ttl: timedelta = timedelta(seconds=300)


def notes(node: NodeView) -> Iterator[str]:
    """Yield short notes for lists about problems that may need a decision of an operator, the most important first. A
    note names no stage, because lists show the coarse state of a node."""
    workflow = node.workflow
    if node.restored_at is not None:
        yield "held after a restore"
    if node.paused is not None:
        yield f"paused: {node.paused}"
    if node.held:
        yield "held by the brake"
    if node.quarantine_cause is not None:
        yield f"{node.quarantine_cause}: {node.quarantine_reason}"
    yield from (f"note, {note.text}" for note in conditions.shown_notes(node.conditions))
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION:
        yield f"waits for an operator: {workflow.failure_class or workflow.kind}"
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_RETRYABLE:
        yield f"retries: {workflow.failure_class or workflow.kind}"
    if node.bmc_failure is not None:
        yield f"BMC: {node.bmc_failure}"
    if node.power_failure is not None:
        yield f"power unreadable: {node.power_failure}"


def is_deleted(node: NodeDetail) -> bool:
    """Return whether the node is deleted."""
    return node.status == NodeStatus.DELETED


def is_held(node: NodeDetail) -> bool:
    """Return whether a pause delays the node. A deletion and the undo after a cancel continue during a pause."""
    is_cancelled = node.workflow is not None and node.workflow.being_cancelled
    return node.paused is not None and not node.deleting and not is_cancelled


def is_unowned(node: NodeDetail) -> bool:
    """Return whether the node is in a state that requires a live workflow, but has no live workflow: the row of such a
    node was restored from a backup or edited by hand."""
    is_live = node.workflow is not None and node.workflow.status in LIVE
    return node.status in frozenset(NodeStatus) - WITHOUT_WORKFLOW and not is_live


def is_unvalidated(node: NodeDetail) -> bool:
    """Return whether the node is retired without a validated cleanup. Such a node does not return to service."""
    unclean = conditions.find(conditions.quarantining(node.conditions), Source.CLEANING, conditions.VALIDATION_FAILED)
    return node.status == NodeStatus.RETIRED and node.workflow is None and unclean is not None


def is_unread(node: NodeDetail) -> bool:
    """Return whether farrier should read the node's power but cannot read it."""
    return node.management == Management.MANAGEABLE and node.bmc.sync_failure is not None


def is_unkept(node: NodeDetail) -> bool:
    """Return whether the node's power differs from the power that farrier enforces."""
    bmc = node.bmc
    return node.management == Management.MANAGEABLE and bmc.desired_power not in (None, bmc.power)


def waits_for_logins(node: NodeDetail) -> bool:
    """Return whether the node waits until farrier may log in at its BMC again."""
    outcome = node.outcome
    return outcome is not None and outcome.outcome == "wait" and outcome.reason.startswith(_LOGIN_PAUSE)


def unanswered(node: NodeDetail) -> tuple[RequestView, ...]:
    """Return the intents of the node that have no answer yet, the oldest first."""
    return tuple(request for request in reversed(node.requests) if request.status == "pending")


def goes_on(node: NodeDetail) -> bool:
    """Return whether the live workflow has a mode and continues without an operator."""
    workflow = node.workflow
    return workflow is not None and workflow.mode is not None and workflow.status in GOING_ON


def stage(node: NodeDetail) -> str | None:
    """Return the stage that runs now."""
    workflow = node.workflow
    return workflow.stage if workflow is not None and workflow.status == WorkflowStatus.RUNNING else None


def waits_to_enrol(node: NodeDetail) -> bool:
    """Return whether a stage waits until the node's agent has enrolled and is healthy."""
    return stage(node) == O.WAIT_FOR_AGENT_ENROLLMENT and not node.agentless


def has_to_enrol(node: NodeDetail) -> bool:
    """Return whether a stage waits for an agent that has not enrolled yet. If the agent enrolled before a deployment,
    or before the onboarding of a retired node, it must enrol again."""
    workflow, enrolled_at = node.workflow, node.enrolled_at
    if workflow is None or not waits_to_enrol(node):
        return False
    enrols_again = workflow.mode == OnboardingMode.DEPLOY or node.status == NodeStatus.RETIRED
    begun = workflow.mode_given_at
    return enrolled_at is None or (enrols_again and begun is not None and enrolled_at < begun)


def waits_for_a_task(node: NodeDetail) -> bool:
    """Return whether a stage waits for a task of the node's agent."""
    return (
        node.workflow is not None
        and node.workflow.kind == WorkflowKind.DECOMMISSION
        and stage(node) in _TASK_STAGES
        and not node.agentless
    )


def is_about_the_bmc(node: NodeDetail) -> bool:
    """Return whether the node may be waiting for its BMC: no workflow continues, or the current stage needs the BMC.
    The last stage of a node without an agent also needs the BMC."""
    proves_health = node.agentless and stage(node) == O.WAIT_FOR_AGENT_ENROLLMENT
    return not goes_on(node) or stage(node) == O.RESOLVE_POWER_CREDENTIALS or proves_health


def is_silent(node: NodeDetail, now: datetime, patience: Patience) -> bool:
    """Return whether the last heartbeat of the node's agent is older than `offline_after`."""
    heard = node.last_heartbeat_at
    return not node.agentless and heard is not None and now - heard > patience.offline_after


def bad_region(node: NodeDetail) -> RegionView | None:
    """Return the MAAS region of the node's site if the node uses this region and farrier cannot read it; otherwise
    None."""
    workflow = node.workflow
    deploys = workflow is not None and workflow.mode == OnboardingMode.DEPLOY
    if node.region is None or node.region.state not in _BAD_REGIONS or (node.maas_id is None and not deploys):
        return None
    return node.region


def not_as_expected(node: NodeDetail, now: datetime, patience: Patience) -> str | None:
    """Return the difference between MAAS and the status of a node that is not in service, or None. During a workflow
    that changes the machine in MAAS, the result is also None, because the workflow itself compares the state."""
    seen, status = node.maas, next((status for status in REPORTED if status == node.status), None)
    if seen is None or status is None or old_since(node, now, patience) is not None:
        return None
    if status in (NodeStatus.RETIRED, NodeStatus.QUARANTINED) and not POWER_IS_FREE.fits(node.workflow):
        return None
    said = disagreement(status, seen, foreign=node.held_here and is_foreign(node, seen))
    return None if said is None else f"{said}; expected while {status}: {EXPECTED[status].text}"


def fresh_reading(node: NodeDetail, now: datetime, patience: Patience) -> MaasView | None:
    """Return the reading of the node's machine in MAAS if it is fresh; otherwise None."""
    return None if old_since(node, now, patience) is not None else node.maas


def is_foreign(node: NodeDetail, seen: MaasView) -> bool:
    """Return whether another MAAS user is known to own the machine."""
    us = None if node.region is None else node.region.username
    return bool(seen.owner) and us is not None and seen.owner != us


def is_ours(node: NodeDetail, seen: MaasView) -> bool:
    """Return whether farrier's user is known to own the machine."""
    us = None if node.region is None else node.region.username
    return us is not None and seen.owner == us


def may_be_in_use(node: NodeDetail, now: datetime, patience: Patience) -> bool:
    """Return whether somebody may use the node's machine: only a fresh reading of a free or absent machine proves that
    nobody does."""
    seen = fresh_reading(node, now, patience)
    return seen is None or seen.state not in UNUSED


def may_accept(intent: Recommended, node: NodeDetail, now: datetime, patience: Patience) -> bool:
    """Return whether the facts that a view shows let the node accept the intent. The states are checked elsewhere."""
    if intent.action is Action.ADOPT_OBSERVED_STATE:
        return _shows_a_way_on(node, now, patience)
    if intent.action is Action.RELEASE:
        return _may_release(intent.params.get("key"), node, now, patience)
    if intent.action is Action.DECOMMISSION and not _can_clean(intent.params.get("mode"), node):
        return False
    has_bmc = bool(node.bmc_address and node.bmc_credential) and node.management not in _WITHOUT_BMC
    if intent.action is Action.MANAGE:
        return has_bmc
    mode = intent.params.get("mode") if intent.action is Action.ONBOARD else None
    if mode == OnboardingMode.DEPLOY:
        return has_bmc and node.region is not None
    return has_bmc or mode != OnboardingMode.ADOPT


def _can_clean(mode: object, node: NodeDetail) -> bool:
    """Return whether somebody can clean the machine in this mode, and as the node's site requires. A machine that its
    region has released has no system in which an agent could clean."""
    by_region = node.maas_id is not None and node.region is not None
    if mode == DecommissionMode.REIMAGE:
        return by_region
    from_outside = node.region is not None and node.region.requires == Require.OUTSIDE
    is_released = by_region and not node.agentless and node.enrolled_at is None
    return mode not in IN_ITS_OWN_SYSTEM or not (from_outside or is_released)


def _may_release(key: str | None, node: NodeDetail, now: datetime, patience: Patience) -> bool:
    """Return whether the node has what the intent releases. The last cause of a quarantine requires proven health."""
    standing = conditions.quarantining(node.conditions)
    if key is None:
        holds = sum(each.source == Source.OPERATOR for each in standing)
        if holds != 1:
            return False
    elif key not in {each.name for each in standing if _is_lifted(node, each)}:
        return False
    is_last = len(standing) == 1
    moves = node.status == NodeStatus.QUARANTINED and node.workflow is None and node.ever_onboarded
    return not (is_last and moves) or _seems_healthy(node, now, patience)


def _is_lifted(node: NodeDetail, condition: Condition) -> bool:
    """Return whether a release may lift the condition, which may end with a workflow instead."""
    is_settled = node.workflow is None and node.ever_onboarded
    return condition.source not in conditions.ENDS_WITH_A_WORKFLOW or is_settled


def _seems_healthy(node: NodeDetail, now: datetime, patience: Patience) -> bool:
    if not node.agentless:
        heard = node.last_heartbeat_at is not None and not is_silent(node, now, patience)
        blocks = any(each.source == Source.AGENT for each in conditions.quarantining(node.conditions))
        return heard and not blocks
    seen = fresh_reading(node, now, patience)
    in_service = node.maas_id is None or (seen is not None and seen.state == MaasStatus.DEPLOYED)
    return in_service and node.management == Management.MANAGEABLE and node.bmc.power == PowerState.ON


def _shows_a_way_on(node: NodeDetail, now: datetime, patience: Patience) -> bool:
    """Return whether the live workflow can continue from the state that MAAS reports."""
    workflow, seen = node.workflow, fresh_reading(node, now, patience)
    if seen is None or workflow is None or is_foreign(node, seen):
        return False
    mode = next((mode for mode in PATHS if mode == workflow.mode), None)
    if mode is OnboardingMode.DEPLOY:
        taken = seen.state in (MaasStatus.DEPLOYING, MaasStatus.DEPLOYED)
        return seen.state in GOES_ON_AT and (is_ours(node, seen) or not taken)
    if not isinstance(mode, DecommissionMode):
        return False
    goals = goals_left(mode, workflow.stage, workflow.leave_out, workflow.cleaned_by)
    return any(shows_goal(seen.state, seen.power_state, goal) for goal in goals)


def old_since(node: NodeDetail, now: datetime, patience: Patience) -> datetime | None:
    """Return the time since which the observation of the node's machine in MAAS is stale; None if the observation is
    fresh."""
    if node.maas is None:
        return None
    since = node.maas.stale_since or node.maas.fresh_at or node.maas.read_at
    return since if now - since > patience.observation_ttl else None
