"""Responses to the intents that immediately change a node's status: quarantine, reactivate, delete."""

from __future__ import annotations

from farrier.handlers.node.changes import with_fields, with_workflow
from farrier.handlers.node.intents.reply import Accept, Reject, Reply, Request
from farrier.handlers.node.maas import region
from farrier.handlers.node.workflow import cleaning_conditions, compensating, proof
from farrier.model.intents import params as p
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine import expected
from farrier.model.node import conditions
from farrier.model.node.conditions import Source
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Node, Onboarding, Workflow
from farrier.model.node.writes import RevokeBootstrap


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
        return Reject(reason=f"quarantine: the node has {holds} holds already, which is the limit; release one first")
    to = with_fields(node, status=N.QUARANTINED, conditions=conditions.added(node.conditions, hold))
    if isinstance(node.workflow, Onboarding):
        to = _held(to, params.reason)
    return Accept(reason=f"quarantined: {params.reason}", to=to)


def _stands(workflow: Workflow) -> bool:
    """Return whether the onboarding does not continue by itself: it waits for an operator or for its mode, or it is
    being cancelled."""
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


def reactivate(request: Request) -> Reply:
    """Return the node to `offline`; the node's health decides when it becomes active."""
    node = request.node
    if node.not_scrubbed:
        return Reject(reason=f"reactivate: {cleaning_conditions.REFUSAL}")
    if not node.ever_onboarded:
        return Reject(reason="reactivate: no onboarding of this node ever succeeded; onboard or remove it")
    if node.is_bare:
        return Reject(reason="reactivate: the agent of this node was removed; onboard the node again, or remove it")
    if held := conditions.quarantining(node.conditions):
        return Reject(reason=f"reactivate: {conditions.in_words(held)}; release {conditions.names(held)} first")
    if (why := _not_to_reactivate(request) or proof.not_to_return(node, request.config)) is not None:
        return Reject(reason=f"reactivate: {why}")
    return Accept(reason="reactivated", to=with_fields(node, status=N.OFFLINE, redeploying=False))


def delete(request: Request) -> Reply:
    """Begin the deletion of a node that was never active."""
    node = request.node
    if node.ever_active:
        return Reject(reason="delete: this node has been in service; decommission or remove it")
    marked = with_fields(node, deleting=True)
    if node.status is N.BOOTSTRAP_ISSUED:
        return Accept(reason="being deleted", to=with_fields(marked, status=N.ENROLLING), writes=(RevokeBootstrap(),))
    if node.workflow is None:
        return Accept(reason="being deleted", to=marked, writes=(RevokeBootstrap(),))
    if compensating.has_work(node):  # also during an undo: the deletion replaces the state after it
        undone = compensating.undoing(marked, AfterUndo.CANCEL)
        return Accept(
            reason="farrier deletes the node when the undo of the node's workflow is done",
            to=undone,
            writes=(RevokeBootstrap(),),
        )
    cancelled = with_workflow(marked, status=W.CANCELLED, next_attempt_at=None)
    return Accept(reason="being deleted", to=cancelled, writes=(RevokeBootstrap(),))


def _not_to_reactivate(request: Request) -> str | None:
    """Return why a fresh reading forbids the return to service. If an operator put the machine into service by hand, it
    may have any owner."""
    node = request.node
    if request.in_maas_as(deployed=False):
        assert node.maas is not None, "in_maas_as needs an observation"
        if node.maas.state is MaasStatus.ABSENT:
            return f"machine {node.maas_id} no longer exists in MAAS; remove the node, or onboard it again"
        return f"machine {node.maas_id} is no longer deployed in MAAS; onboard it again"
    if request.in_maas_as(deployed=True) and node.deployed_here and node.maas is not None:
        return expected.disagreement(node.status, node.maas, foreign=region.is_foreign(node.maas))
    return None
