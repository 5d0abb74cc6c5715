"""Responses to the intents that immediately change a node's status: quarantine, release, reactivate, delete."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.changes import unproven_health, with_fields, with_workflow
from farrier.handlers.node.intents.alternatives import ends, is_lifted, release_of, releases
from farrier.handlers.node.intents.reply import Accept, Reject, Reply, Request
from farrier.handlers.node.maas import region
from farrier.handlers.node.workflow import cleaning_conditions, compensating, proof
from farrier.model.advice.recommended import Recommended
from farrier.model.advice.workflow import ONBOARD
from farrier.model.intents import params as p
from farrier.model.intents.actions import Action
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine import expected
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Effect, Source
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Node, Onboarding, Workflow
from farrier.model.node.writes import RevokeBootstrap

# Sources whose conditions farrier or an operator states once. Any other source would state its condition again at
# once, so a release lowers it to a note.
_STATED_ONCE = frozenset({Source.OPERATOR, Source.CLEANING, Source.WORKFLOW})
_RELEASE = Recommended(Action.RELEASE, fill=("key",))


def quarantine(request: Request) -> Reply:
    """Hold the node out of service until this hold is released. A running onboarding then waits for an operator. An
    onboarding that is about to begin loses its mode, so that it does not begin unnoticed."""
    node, params = request.node, request.params
    assert isinstance(params, p.QuarantineParams), "the table of actions declares this type"
    hold = conditions.stated(Source.OPERATOR, params.key, params.reason)
    known = conditions.find(node.conditions, Source.OPERATOR, params.key)
    goes_on = isinstance(node.workflow, Onboarding) and not _stands(node.workflow)
    if node.status is N.QUARANTINED and not goes_on and known is not None and known.message == params.reason:
        return Accept(reason=f"already held as {params.key} for this reason")
    holds = sum(each.source == Source.OPERATOR for each in node.conditions)
    if known is None and holds >= conditions.MOST_HOLDS:
        return Reject(reason=f"quarantine: the node has {holds} holds already, which is the limit", instead=(_RELEASE,))
    to = with_fields(node, status=N.QUARANTINED, conditions=conditions.added(node.conditions, hold))
    if isinstance(node.workflow, Onboarding):
        to = _held(to, params.reason)
    return Accept(reason=f"quarantined: {params.reason}", to=to)


def _stands(workflow: Workflow) -> bool:
    """Return whether the onboarding waits for an operator or for its mode, or is being cancelled."""
    if workflow.status is W.COMPENSATING:
        return workflow.after_undo is AfterUndo.CANCEL
    return workflow.status is W.FAILED_MANUAL_INTERVENTION or workflow.mode is None


def _held(node: Node, reason: str) -> Node:
    if node.live.status is W.PENDING:
        return with_workflow(node, mode=None, mode_given_at=None)
    return with_workflow(
        node,
        status=W.FAILED_MANUAL_INTERVENTION,
        failure_class=FailureClass.OPERATOR_REQUEST,
        failure_detail=reason,
        next_attempt_at=None,
        after_undo=None,
    )


def release(request: Request) -> Reply:
    """Lift one condition. A quarantined node that nothing else keeps out of service returns to service, which requires
    proven health. In any other state, only the condition ends."""
    node, params = request.node, request.params
    assert isinstance(params, p.ReleaseParams), "the table of actions declares this type"
    found = _chosen(node, params, request.now)
    if isinstance(found, Reject):
        return found
    lifted = _lifted(node, found, request.now)
    said = f"{found.name} is released" + (f": {params.reason}" if params.reason else "")
    if node.status is not N.QUARANTINED or node.workflow is not None or node.deleting:
        return Accept(reason=said, to=lifted)
    if held := conditions.in_words(lifted.conditions):
        return Accept(reason=f"{said}; the node stays quarantined: {held}", to=lifted)
    if not node.ever_onboarded:
        return Accept(reason=f"{said}; the node stays quarantined until it is onboarded or deleted", to=lifted)
    unproven = unproven_health(lifted, request.now, request.config)
    if unproven is not None:
        return Reject(reason=f"release: the node is not healthy: {unproven}")
    return Accept(reason=f"{said}; the node is healthy", to=with_fields(lifted, status=N.ACTIVE, ever_active=True))


def _chosen(node: Node, params: p.ReleaseParams, now: datetime) -> Condition | Reject:
    """Return what the intent lifts. An intent without a key means the only hold."""
    liftable = tuple(each for each in node.conditions if is_lifted(node, each, now))
    names = conditions.names(liftable)
    if params.key is None:
        holds = [each for each in liftable if each.source == Source.OPERATOR]
        if len(holds) == 1:
            return holds[0]
        if holds:
            told = f"release: {len(holds)} holds keep the node out of service"
            return Reject(reason=told, instead=tuple(map(release_of, holds)))
        if liftable:
            told = "release: no operator holds the node, but conditions keep it out of service"
            return Reject(reason=told, instead=tuple(map(release_of, liftable)))
        return Reject(reason="release: no hold and no condition keeps the node out of service")
    found = next((each for each in liftable if each.name == params.key), None)
    if found is None:
        expected = f"expected one of: {names}" if names else "nothing does"
        return Reject(reason=f"release: nothing named {params.key} keeps the node out of service; {expected}")
    if found.source != Source.OPERATOR and params.reason is None:
        told = f"release: {found.name} is not an operator's hold, so its release needs a reason"
        return Reject(reason=told, instead=(release_of(found),))
    return found


def _lifted(node: Node, condition: Condition, now: datetime) -> Node:
    """Return the node after the release. A fact stays as a note until its source ends it, unless its source is lost."""
    if condition.source in _STATED_ONCE or condition.effect is Effect.NOTE or condition.is_expired(now):
        return with_fields(node, conditions=tuple(each for each in node.conditions if each.key != condition.key))
    note = replace(condition, effect=Effect.NOTE, released=True)
    return with_fields(node, conditions=conditions.added(node.conditions, note))


def reactivate(request: Request) -> Reply:
    """Return the node to `offline`; the node's health decides when it becomes active."""
    node, anew = request.node, (*ONBOARD, *ends(request.node))
    if node.not_scrubbed:
        return Reject(reason=f"reactivate: {cleaning_conditions.REFUSAL}", instead=cleaning_conditions.CLEANINGS)
    if not node.ever_onboarded:
        return Reject(reason="reactivate: no onboarding of this node ever succeeded", instead=anew)
    if node.is_bare:
        return Reject(reason="reactivate: the agent of this node was removed", instead=anew)
    if held := conditions.quarantining(node.conditions):
        return Reject(reason=f"reactivate: {conditions.in_words(held)}", instead=releases(node, request.now))
    if (why := _not_to_reactivate(request)) is not None:
        return Reject(reason=f"reactivate: {why}", instead=anew)
    if (why := proof.not_to_return(node, request.config)) is not None:
        return Reject(reason=f"reactivate: {why}")
    return Accept(reason="reactivated", to=with_fields(node, status=N.OFFLINE, redeploying=False))


def delete(request: Request) -> Reply:
    """Begin the deletion of a node that was never active."""
    node = request.node
    if node.ever_active:
        return Reject(reason="delete: this node has been in service", instead=ends(node))
    to, reason = with_fields(node, deleting=True), "being deleted"
    if node.status is N.BOOTSTRAP_ISSUED:
        to = with_fields(to, status=N.ENROLLING)
    elif compensating.has_work(node):  # also during an undo: the deletion replaces the state after it
        to = compensating.undoing(to, AfterUndo.CANCEL)
        reason = "farrier deletes the node when the undo of the node's workflow is done"
    elif node.workflow is not None:
        to = with_workflow(to, status=W.CANCELLED, next_attempt_at=None)
    return Accept(reason=reason, to=to, writes=(RevokeBootstrap(),))


def _not_to_reactivate(request: Request) -> str | None:
    """Return why a fresh reading forbids the return to service. A machine set up by hand may have any owner."""
    node = request.node
    if request.in_maas_as(deployed=False):
        assert node.maas is not None, "in_maas_as needs an observation"
        if node.maas.state is MaasStatus.ABSENT:
            return f"machine {node.maas_id} no longer exists in MAAS"
        return f"machine {node.maas_id} is no longer deployed in MAAS"
    if request.in_maas_as(deployed=True) and node.deployed_here and node.maas is not None:
        return expected.disagreement(node.status, node.maas, foreign=region.is_foreign(node.maas))
    return None
