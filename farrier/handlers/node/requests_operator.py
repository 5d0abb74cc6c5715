"""Responses to the operator's actions on workflows (000 §8). All may be asked for twice."""

from __future__ import annotations

from farrier.handlers.node import management, onboarding, onboarding_adopt, tasks
from farrier.handlers.node.failing import fallback, freeze
from farrier.handlers.node.moves import change, job, proven_healthy
from farrier.handlers.node.reply import Accept, Reject, Reply, Request, Respond
from farrier.handlers.node.workflow import start
from farrier.model.actions import Action
from farrier.model.failures import FailureClass
from farrier.model.health import Unhealthy
from farrier.model.management import Management
from farrier.model.node import AfterUndo, Decommission, Node, Onboarding, StopRequest, TaskType, Workflow
from farrier.model.params import MaybeBecause
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import WorkflowStatus as W

_FAILED = (W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION)
# Which task carries a status that is not self-sufficient.
_OWNING_TASK = {N.DRAINING: TaskType.DRAIN, N.REMOVING: TaskType.UNINSTALL}


def retry_stage(request: Request) -> Reply:
    """The failed stage again, now, with a fresh count of attempts."""
    workflow = _live(request)
    return Accept(reason=f"stage {workflow.stage} is tried again", to=_running(request))


def resume(request: Request) -> Reply:
    """Go on from the last safe stage; a task that was lost is issued again, one that is fresh or held is left alone."""
    node = request.node
    if node.workflow is not None and node.workflow.status in _FAILED:
        return Accept(reason=f"goes on at stage {node.workflow.stage}", to=_running(request))
    type_ = _OWNING_TASK.get(node.status)
    if type_ is None or node.workflow is None:
        return Accept(reason="nothing to resume: the workflow is running")
    writes = tasks.reissue(node, type_, request.now)
    return Accept(reason=f"{type_} was issued again" if writes else f"{type_} is under way", writes=writes)


def rerun(request: Request) -> Reply:
    """From the top, passing over what is done already."""
    workflow = _live(request)
    return Accept(
        reason="runs again from the top",
        to=change(request.node, workflow=job(request.node, **start(workflow))),
    )


def restart_clean(request: Request) -> Reply:
    """Undo, then start again; meanwhile the node is in a state that needs no workflow."""
    node = request.node
    undoing = job(
        node,
        status=W.COMPENSATING,
        after_undo=AfterUndo.RESTART,
        stop_requested=None,
        next_attempt_at=None,
        failure_detail=None,
    )
    return Accept(
        reason="undoes what was done, then starts again",
        to=change(node, status=fallback(node), workflow=undoing),
        writes=tasks.end_live(node, "restart_clean"),
    )


def cancel(request: Request) -> Reply:
    """Stop the workflow, and verifying with it; the node falls back to a state that needs no workflow."""
    node = request.node
    if node.management is Management.VERIFYING:  # or `auto_manage` would begin it again at once
        node = management.put_off(node, request.now)
    if node.workflow is None:
        return Accept(reason="verifying is cancelled", to=node)
    workflow = node.workflow
    if workflow.status is W.COMPENSATING:
        if workflow.after_undo is AfterUndo.CANCEL:
            return Accept(reason="is being cancelled already")
        return Accept(reason="ends once undone", to=change(node, workflow=job(node, after_undo=AfterUndo.CANCEL)))
    ended = job(node, status=W.CANCELLED, stop_requested=None, next_attempt_at=None)
    return Accept(
        reason=f"{workflow.kind} cancelled",
        to=change(node, status=fallback(node), workflow=ended, deleting=False),
        writes=tasks.end_live(node, "cancel"),
    )


def adopt_observed_state(request: Request) -> Reply:
    """Finish from what was observed, if that is the goal."""
    node = request.node
    if isinstance(node.workflow, Decommission):
        return Reject(reason="adopt_observed_state: nothing that was observed shows this decommission's goal")
    if onboarding_adopt.adopts(node) and not onboarding_adopt.is_proven(node):
        return Reject(reason="adopt_observed_state: nobody has looked yet whether it is the recorded machine; adopt")
    proof = proven_healthy(node, request.now, request.config)
    if isinstance(proof, Unhealthy):
        return Reject(reason=f"adopt_observed_state: the goal is a healthy node: {proof.reason}")
    return Accept(reason="the observed state is the goal", to=onboarding.complete(node, ending=W.RECONCILED))


def mark_manual_intervention_required(request: Request) -> Reply:
    """Freeze the workflow until a person resolves it."""
    assert isinstance(request.params, MaybeBecause), "the table names the type"
    frozen = freeze(
        request.node,
        FailureClass.OPERATOR_REQUEST,
        request.params.reason or "frozen by an operator",
        stop=StopRequest.FROZEN,
        cause=f"intent {request.intent.id}",
    )
    return Accept(reason=frozen.reason, to=frozen.to, writes=frozen.writes)


def _running(request: Request) -> Node:
    fresh = job(
        request.node,
        status=W.RUNNING,
        attempt=1,
        next_attempt_at=None,
        failure_class=None,
        failure_detail=None,
        stop_requested=None,
    )
    return change(request.node, workflow=fresh)


def _live(request: Request) -> Onboarding | Decommission:
    workflow: Workflow | None = request.node.workflow
    assert workflow is not None, "the table asks for a live workflow"
    return workflow


RESPONSES: dict[Action, Respond] = {
    Action.RETRY_STAGE: retry_stage,
    Action.RESUME: resume,
    Action.RERUN: rerun,
    Action.RESTART_CLEAN: restart_clean,
    Action.CANCEL: cancel,
    Action.ADOPT_OBSERVED_STATE: adopt_observed_state,
    Action.MARK_MANUAL_INTERVENTION_REQUIRED: mark_manual_intervention_required,
}
