"""The table of all transitions that the layers of a node may make, and the statuses that fit each other.

The handlers and the diagrams use these tables. The database's tables are generated from them, and triggers read the
database's tables. The stages of a workflow are substates of its layer and have no edges here. No code may write a
transition that is not in `EDGES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from farrier.model.kinds.spec import KindEdge
from farrier.model.node import layers
from farrier.model.node.layers import Layer, Management, WorkflowKind
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W


def _fan(*rows: tuple[tuple[StrEnum, ...], StrEnum, str, str]) -> tuple[KindEdge, ...]:
    """Return one edge for each source state of each row; a row is (source states, target state, owner, trigger)."""
    return tuple(
        KindEdge(str(source), str(target), trigger, owner)
        for sources, target, owner, trigger in rows
        for source in sources
    )


_STATUS = _fan(
    (
        (N.BOOTSTRAP_ISSUED,),
        N.ENROLLING,
        "onboarding",
        "intent onboard, adopt or delete was accepted, or the agent enrolled with its token",
    ),
    ((N.ENROLLING,), N.ACTIVE, "onboarding", "the onboarding completed or reconciled, and the node is healthy"),
    (
        (N.ENROLLING,),
        N.QUARANTINED,
        "onboarding or operator",
        "an unsafe failure stopped the onboarding, or intent quarantine or delete was accepted",
    ),
    (
        (N.ACTIVE,),
        N.OFFLINE,
        "heartbeat",
        "the last heartbeat is older than offline_after, or a fresh read that is newer reports power off",
    ),
    ((N.OFFLINE,), N.ACTIVE, "heartbeat", "the node is healthy again, and no decommission is live"),
    (
        (N.ACTIVE, N.OFFLINE),
        N.QUARANTINED,
        "reconciler or cleanup validation",
        (
            "a condition with the effect quarantine: for example an agent's alert, an operator's hold, a contradiction "
            "in MAAS or a stopped decommission"
        ),
    ),
    (
        (N.QUARANTINED,),
        N.ACTIVE,
        "operator or reconciler",
        ("the node's onboarding ended, or nothing keeps the node out of service any more, and its health is proven"),
    ),
    (
        (N.ACTIVE, N.OFFLINE, N.QUARANTINED),
        N.DRAINING,
        "operator",
        "intent drain, decommission or delete; the transition creates or resumes the task node.drain",
    ),
    ((N.DRAINING,), N.RETIRED, "drain", "the task node.drain succeeded, was forced, or was not needed"),
    (
        (N.DRAINING,),
        N.OFFLINE,
        "drain or operator",
        "node.drain failed for good, or the drain was cancelled or stopped",
    ),
    (
        (N.RETIRED,),
        N.OFFLINE,
        "operator",
        "intent reactivate, or the end of a reset or redeploy; the node becomes active when its health is proven",
    ),
    (
        (N.RETIRED,),
        N.REMOVING,
        "remove workflow",
        (
            "intent remove, delete or decommission full_decommission; the transition creates or resumes the task "
            "node.uninstall"
        ),
    ),
    ((N.REMOVING,), N.RETIRED, "uninstall or operator", "the uninstall failed, or intent cancel was accepted"),
    (
        (N.REMOVING,),
        N.DELETED,
        "remove workflow",
        "the removal finished; the same commit completes the decommission",
    ),
)

_MANAGEMENT = _fan(
    ((Management.UNMANAGED,), Management.ENROLL, "operator", "an operator set the first BMC detail"),
    (
        (Management.ENROLL,),
        Management.VERIFYING,
        "operator or auto_manage",
        "intent manage, or auto_manage with complete details",
    ),
    (
        (Management.VERIFYING,),
        Management.MANAGEABLE,
        "probe",
        "power and management interfaces are valid, and the power state was read",
    ),
    (
        (Management.VERIFYING,),
        Management.ENROLL,
        "probe",
        "the probe failed, timed out or was cancelled; last_error has the reason",
    ),
    (
        (Management.MANAGEABLE,),
        Management.VERIFYING,
        "operator",
        "intent manage, or a change of the BMC address or the credential version",
    ),
    (
        (Management.MANAGEABLE, Management.ADOPT_FAILED),
        Management.ADOPTING,
        "operator",
        "intent adopt was accepted, or an onboarding in mode adopt began or resumed",
    ),
    (
        (Management.ADOPTING,),
        Management.MANAGEABLE,
        "adoption",
        "a fresh read-only probe succeeded and the identity matches; the onboarding continues",
    ),
    (
        (Management.ADOPTING,),
        Management.ADOPT_FAILED,
        "adoption",
        "the adoption failed, timed out or was interrupted by an intent; last_error has the reason",
    ),
    ((Management.ADOPT_FAILED,), Management.VERIFYING, "operator", "intent manage"),
    (
        (
            Management.ENROLL,
            Management.VERIFYING,
            Management.MANAGEABLE,
            Management.ADOPTING,
            Management.ADOPT_FAILED,
        ),
        Management.ERROR,
        "operator",
        "an operator removed all BMC details",
    ),
    ((Management.ERROR,), Management.ENROLL, "operator", "an operator set a BMC detail again"),
)


_FAILING = (W.RUNNING, W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION)

# Both kinds of workflow have the same edges.
_WORKFLOW = _fan(
    ((W.PENDING,), W.RUNNING, "workflow", "the first run after the mode was set"),
    ((W.PENDING, *_FAILING), W.CANCELLED, "operator", "intent cancel or delete, if there is nothing to undo"),
    ((W.RUNNING,), W.COMPLETED, "workflow", "the last stage is done"),
    ((W.RUNNING,), W.FAILED_RETRYABLE, "workflow", "a stage failed with a retryable failure class"),
    (
        (W.FAILED_RETRYABLE,),
        W.RUNNING,
        "workflow or operator",
        "the time next_attempt_at has come, or intent retry_stage, resume or rerun was accepted",
    ),
    (
        (W.RUNNING, W.FAILED_RETRYABLE),
        W.FAILED_MANUAL_INTERVENTION,
        "workflow or operator",
        (
            "no attempts are left, the failure class needs an operator, or intent mark_manual_intervention_required "
            "was accepted"
        ),
    ),
    (
        (W.FAILED_MANUAL_INTERVENTION,),
        W.RUNNING,
        "operator",
        "intent retry_stage, resume, rerun or adopt",
    ),
    (
        _FAILING,
        W.COMPENSATING,
        "operator",
        "intent cancel or delete, if there is work to undo; or intent restart_clean",
    ),
    ((W.COMPENSATING,), W.CANCELLED, "workflow", "the undo that follows a cancel is done"),
    ((W.COMPENSATING,), W.PENDING, "workflow", "the undo that follows a restart_clean is done"),
    (
        (W.COMPENSATING,),
        W.FAILED_MANUAL_INTERVENTION,
        "workflow or operator",
        "the undo failed, or intent mark_manual_intervention_required was accepted",
    ),
    (_FAILING, W.RECONCILED, "operator or adoption", "the observed state is the target state"),
)

EDGES: Mapping[Layer, tuple[KindEdge, ...]] = {
    Layer.STATUS: _STATUS,
    Layer.MANAGEMENT: _MANAGEMENT,
    Layer.ONBOARDING: _WORKFLOW,
    Layer.DECOMMISSION: _WORKFLOW,
}

ALLOWED: Mapping[Layer, frozenset[tuple[str, str]]] = {
    layer: frozenset((edge.source, edge.target) for edge in of) for layer, of in EDGES.items()
}

INITIAL: Mapping[Layer, frozenset[str]] = {
    Layer.STATUS: frozenset({N.BOOTSTRAP_ISSUED, N.ENROLLING}),
    Layer.MANAGEMENT: frozenset({Management.UNMANAGED, Management.ENROLL}),
    Layer.ONBOARDING: frozenset({W.PENDING}),
    Layer.DECOMMISSION: frozenset({W.PENDING}),
}
"""The states in which a new row may begin."""

TERMINAL: Mapping[Layer, frozenset[str]] = {
    Layer.STATUS: frozenset({N.DELETED}),
    Layer.MANAGEMENT: frozenset(),
    Layer.ONBOARDING: layers.TERMINAL,
    Layer.DECOMMISSION: layers.TERMINAL,
}
"""The states without outgoing edges. Management has no such state, because it ends with the node."""

_ONBOARDING_LIVE = frozenset({N.ENROLLING, N.QUARANTINED, N.RETIRED})
_ONBOARDING_DONE = frozenset({N.ACTIVE, N.OFFLINE})  # offline: after a reimage, the node's health decides
_DECOMMISSION_LIVE = frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED, N.DRAINING, N.RETIRED, N.REMOVING})
_DECOMMISSION_DONE = frozenset({N.RETIRED, N.OFFLINE, N.DELETED})

FITTING: Mapping[tuple[WorkflowKind, W], frozenset[N]] = {
    (WorkflowKind.ONBOARDING, W.PENDING): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.RUNNING): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.COMPLETED): _ONBOARDING_DONE,
    (WorkflowKind.ONBOARDING, W.FAILED_RETRYABLE): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.FAILED_MANUAL_INTERVENTION): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.CANCELLED): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.COMPENSATING): _ONBOARDING_LIVE,
    (WorkflowKind.ONBOARDING, W.RECONCILED): _ONBOARDING_DONE,
    (WorkflowKind.DECOMMISSION, W.PENDING): _DECOMMISSION_LIVE,
    (WorkflowKind.DECOMMISSION, W.RUNNING): _DECOMMISSION_LIVE,
    (WorkflowKind.DECOMMISSION, W.COMPLETED): _DECOMMISSION_DONE,
    # A failed uninstall leaves `removing` in the same commit or earlier.
    (WorkflowKind.DECOMMISSION, W.FAILED_RETRYABLE): _DECOMMISSION_LIVE - {N.REMOVING},
    (WorkflowKind.DECOMMISSION, W.FAILED_MANUAL_INTERVENTION): frozenset({N.RETIRED, N.QUARANTINED}),
    (WorkflowKind.DECOMMISSION, W.CANCELLED): frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED, N.RETIRED}),
    (WorkflowKind.DECOMMISSION, W.COMPENSATING): _DECOMMISSION_LIVE,
    (WorkflowKind.DECOMMISSION, W.RECONCILED): _DECOMMISSION_DONE,
}
"""The node statuses that are permitted after a commit in which a workflow of this kind has this status. That is every
commit while the workflow is live, and the commit that ends it. After the end, the node's status may change."""

WITHOUT_WORKFLOW = frozenset(N) - {N.DRAINING, N.REMOVING}
"""Statuses that a node without a live workflow may have. The other two require a live decommission."""
