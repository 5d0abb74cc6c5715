"""Responses to the operator's actions on workflows (000 §8). All may be asked for twice."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from farrier.handlers.node import compensating, management, observed_state, requests_lifecycle, tasks, unclean
from farrier.handlers.node.failing import fallback, freeze
from farrier.handlers.node.moves import with_fields, with_note, with_workflow
from farrier.handlers.node.reply import Accept, Reply, Request, Respond
from farrier.handlers.node.stages import again, counted_anew, start
from farrier.model.actions import Action
from farrier.model.failures import FailureClass
from farrier.model.management import Management
from farrier.model.node import AfterUndo, Decommission, Node, Onboarding, StopRequest, Workflow
from farrier.model.params import Drain, MaybeBecause, Remove
from farrier.model.status import NodeStatus as N
from farrier.model.workflow import FAILED
from farrier.model.workflow import WorkflowStatus as W

_LED_THERE: Mapping[N, tuple[Respond, Drain | Remove]] = {
    N.DRAINING: (requests_lifecycle.drain, Drain()),
    N.REMOVING: (requests_lifecycle.remove, Remove()),
}


def retry_stage(request: Request) -> Reply:
    """The failed stage again, now, with a fresh count of attempts."""
    workflow = _live(request)
    return Accept(reason=f"stage {workflow.stage} is tried again", to=_running(request))


def resume(request: Request) -> Reply:
    """Go on from the last safe stage; a task that was lost is issued again, one that is fresh or held is left alone.
    A decommission that was lost itself is made again."""
    node = request.node
    if node.workflow is None:
        return _owner(request)
    if node.workflow.status in FAILED:
        if node.deleting and isinstance(node.workflow, Onboarding):  # what failed is its undo; nothing else may go on
            return Accept(reason="goes on being undone", to=_undoing(node, AfterUndo.CANCEL))
        return Accept(reason=f"goes on at stage {node.workflow.stage}", to=_running(request))
    type_ = tasks.OWNING.get(node.status)
    if type_ is None:
        return Accept(reason="nothing to resume: the workflow is running")
    writes = tasks.reissue(node, type_, request.now)
    if not writes:
        return Accept(reason=f"{type_} is under way")
    if node.paused is not None:
        later = None if node.workflow.upstream.resumed else with_note(node, resumed=True)
        return Accept(reason=f"{type_} is issued again when the pause ends", to=later)
    return Accept(reason=f"{type_} was issued again", writes=writes)


def rerun(request: Request) -> Reply:
    """From the top, passing over what is done already. That there is something to undo in MAAS is not forgotten."""
    node, workflow = request.node, _live(request)
    known = replace(
        counted_anew(workflow),
        touched=compensating.has_work(node),
        failure_class=None,
        failure_detail=None,
    )
    return Accept(
        reason="runs again from the top",
        to=with_fields(node, workflow=with_workflow(node, **start(workflow) | {"upstream": known})),
    )


def restart_clean(request: Request) -> Reply:
    """Undo, then start again, with nothing taken for done; meanwhile the node is in a state that needs no workflow."""
    node = with_note(request.node, restarted_at=request.now, adopted=False)
    return Accept(
        reason="undoes what was done, then starts again",
        to=with_fields(_undoing(node, AfterUndo.RESTART), status=fallback(node)),
        writes=tasks.end_live(node, "restart_clean"),
    )


def cancel(request: Request) -> Reply:
    """Stop the workflow, and verifying with it; the node falls back to a state that needs no workflow. One whose
    cleaning came to no good end is marked: nobody is to have it before that is made up for."""
    node = request.node
    if node.management is Management.VERIFYING:  # or `auto_manage` would begin it again at once
        node = management.put_off(node, request.now)
    if node.workflow is None:
        return Accept(reason="verifying is cancelled", to=node)
    workflow = node.workflow
    if workflow.status is W.COMPENSATING:
        if workflow.after_undo is AfterUndo.CANCEL and not node.deleting:
            return Accept(reason="is being cancelled already")
        to = with_fields(node, workflow=with_workflow(node, after_undo=AfterUndo.CANCEL), deleting=False)
        return Accept(reason="ends once undone", to=to)
    if compensating.has_work(node):
        to = with_fields(_undoing(node, AfterUndo.CANCEL), deleting=False)
        return Accept(reason=f"{workflow.kind} cancelled; ends once undone", to=to)
    ended = with_workflow(node, status=W.CANCELLED, stop_requested=None, next_attempt_at=None)
    return Accept(
        reason=f"{workflow.kind} cancelled",
        to=with_fields(unclean.given_up(node), status=fallback(node), workflow=ended, deleting=False),
        writes=tasks.end_live(node, "cancel"),
    )


def adopt_observed_state(request: Request) -> Reply:
    """Go on from what was observed, or finish if that is the goal."""
    return observed_state.adopt(request.node, request.now, request.config)


def mark_manual_intervention_required(request: Request) -> Reply:
    """Freeze the workflow until a person resolves it."""
    assert isinstance(request.params, MaybeBecause), "the table names the type"
    # A cancel after that ends it, whatever could be undone.
    undoes = _live(request).status is W.COMPENSATING and compensating.has_work(request.node)
    frozen = freeze(
        request.node,
        FailureClass.UNDO_FAILED if undoes else FailureClass.OPERATOR_REQUEST,
        request.params.reason or "frozen by an operator",
        stop=StopRequest.FROZEN,
        cause=f"intent {request.intent.id}",
    )
    return Accept(reason=frozen.reason, to=frozen.to, writes=frozen.writes)


def _owner(request: Request) -> Reply:
    """What led into the state, asked for again: its stages find the node where it is."""
    status = request.node.status
    assert status in _LED_THERE, "elsewhere the table asks for a live workflow"
    unowned = f"no live decommission owned status {status}"
    respond, params = _LED_THERE[status]
    if request.node.agentless:  # no agent ends what led there, so only force does
        params = replace(params, force=True, reason=unowned)
    made = respond(replace(request, params=params))
    return replace(made, reason=f"{unowned}; {made.reason}")


def _running(request: Request) -> Node:
    return with_fields(request.node, workflow=with_workflow(request.node, **again(_live(request))))


def _undoing(node: Node, after: AfterUndo) -> Node:
    return with_fields(node, workflow=compensating.undoing(node, after))


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
