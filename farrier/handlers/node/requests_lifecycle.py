"""Responses to the intents that immediately change a node's status: quarantine, release, reactivate, delete."""

from __future__ import annotations

from farrier.handlers.node import compensating, region, unclean
from farrier.handlers.node.moves import unproven_health, with_fields, with_workflow
from farrier.handlers.node.reply import Accept, Reject, Reply, Request
from farrier.model import expected
from farrier.model import params as p
from farrier.model.failures import FailureClass, QuarantineCause
from farrier.model.maas import MaasStatus
from farrier.model.node import AfterUndo, Node, Onboarding, Quarantine, Workflow
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import WorkflowStatus as W
from farrier.model.writes import RevokeBootstrap


def quarantine(request: Request) -> Reply:
    """Block the node from scheduling until it is released or its onboarding completes. A running onboarding then waits
    for an operator. An onboarding that is about to begin loses its mode, because it would otherwise end the
    quarantine."""
    node = request.node
    assert isinstance(request.params, p.Because), "the table of actions declares this type"
    goes_on = isinstance(node.workflow, Onboarding) and not _stands(node.workflow)
    why = Quarantine(QuarantineCause.OPERATOR, request.params.reason)
    to = with_fields(node, status=N.QUARANTINED, quarantine=why)
    if to == node and not goes_on:
        return Accept(reason=f"already quarantined for {'another cause' if node.failed_validation else 'this cause'}")
    if isinstance(node.workflow, Onboarding):
        to = _held(to, request.params.reason)
    return Accept(reason=f"quarantined: {request.params.reason}", to=to)


def _stands(workflow: Workflow) -> bool:
    """Return whether the onboarding is unable to end a quarantine: it waits for an operator or for its mode, or it is
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


def release(request: Request) -> Reply:
    """Return the node to service if it has been in service and is healthy now. After a failed validation, a reason is
    required."""
    node, params = request.node, request.params
    assert isinstance(params, p.MaybeBecause), "the table of actions declares this type"
    if not node.ever_onboarded:
        return Reject(reason="release: no onboarding of this node ever succeeded; onboard or delete it")
    if node.not_scrubbed:
        return Reject(reason=f"release: {unclean.NOT_SCRUBBED}")
    if node.failed_validation and params.reason is None:
        return Reject(
            reason="release: the cleanup of this node was not validated; give a reason, or decommission the node "
            "with a cleanup that includes a validation"
        )
    unproven = unproven_health(node, request.now, request.config)
    if unproven is not None:
        return Reject(reason=f"release: the node is not healthy: {unproven}")
    said = f": {params.reason}" if params.reason else ""
    released = with_fields(unclean.cleared(node), status=N.ACTIVE, ever_active=True)
    return Accept(reason=f"the node is released and healthy{said}", to=released)


def reactivate(request: Request) -> Reply:
    """Return the node to `offline`; the node's health decides when it becomes active."""
    node = request.node
    if node.not_scrubbed:
        return Reject(reason=f"reactivate: {unclean.NOT_SCRUBBED}")
    if not node.ever_onboarded:
        return Reject(reason="reactivate: no onboarding of this node ever succeeded; onboard or remove it")
    if node.is_bare:
        return Reject(reason="reactivate: the agent of this node was removed; onboard the node again, or remove it")
    if (why := _not_to_reactivate(request)) is not None:
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
