"""Responses to the intents that begin a decommission, and to the intents by which an operator controls a workflow or
pauses the node.

A response only creates the workflow; the workflow's stages take the node to `draining` and `removing`. All these
intents may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from farrier.config.sites import LEAVES_DATA
from farrier.handlers.node.bmc import probing
from farrier.handlers.node.changes import with_fields, with_note, with_workflow
from farrier.handlers.node.decommission import by_bmc
from farrier.handlers.node.intents.alternatives import ends
from farrier.handlers.node.intents.reply import Accept, FinalReply, Reject, Reply, Request
from farrier.handlers.node.workflow import cleaning_conditions, compensating, proof, tasks
from farrier.handlers.node.workflow.failure import fallback, freeze
from farrier.handlers.node.workflow.stages import continued, counted_anew, started
from farrier.model.advice.recommended import Recommended
from farrier.model.intents import params as p
from farrier.model.intents.actions import Action
from farrier.model.loop.runs import cause_of_intent
from farrier.model.node import conditions
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import FAILED, CleaningBy, DecommissionMode, Management
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Decommission, Node, Onboarding, Pause, StopRequest, WorkflowOptions
from farrier.model.node.stages import BY_REGION, PATHS, REMOVE_STARTS_AT, DecommissionStage

D = DecommissionStage
# Intent drain is a soft reset that only drains the node.
_MORE_THAN_DRAINING = (D.FORCE_RELEASE_ALLOCATIONS, D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE)
_FULL_PATH = PATHS[DecommissionMode.FULL_DECOMMISSION]
_BEFORE_REMOVAL = tuple(s for s in _FULL_PATH[: _FULL_PATH.index(REMOVE_STARTS_AT)] if isinstance(s, D))


def drain(request: Request) -> FinalReply:
    """Drain the node and retire it."""
    assert isinstance(request.params, p.Drain), "the table of actions declares this type"
    options = _options(request, request.params, retire=True, leave_out=_MORE_THAN_DRAINING)
    return _decommission(request, DecommissionMode.SOFT_RESET, options, "drain")


def remove(request: Request) -> FinalReply:
    """Uninstall a retired node and delete it."""
    params = request.params
    assert isinstance(params, p.RemoveParams), "the table of actions declares this type"
    if params.remove_maas and (why := _record_stays(request)) is not None:
        return Reject(reason=f"remove: {why}")
    keep = () if params.remove_maas else (D.REMOVE_MAAS_RECORD,)
    options = _options(request, params, retire=True, leave_out=_BEFORE_REMOVAL + keep)
    return _decommission(request, DecommissionMode.FULL_DECOMMISSION, options, "remove")


def decommission(request: Request) -> Reply:
    """Drain and clean the node; the mode decides its final status."""
    params = request.params
    assert isinstance(params, p.DecommissionParams), "the table of actions declares this type"
    if (why := proof.why_not_in_mode(request.node, request.config, params.mode)) is not None:
        return Reject(reason=f"decommission: {why}")
    if (refused := _without_maas(request, params.mode)) is not None:
        return refused
    if params.leave_on and params.mode is not DecommissionMode.FULL_DECOMMISSION:
        return Reject(
            reason=f"decommission: leave_on needs mode full_decommission; mode {params.mode} leaves the power"
        )
    stays = _stays_on(request.node) if params.mode is DecommissionMode.FULL_DECOMMISSION else None
    options = replace(
        _options(request, params, retire=params.retire),
        leave_on=params.leave_on,
        cleaned_by=_who_cleans(request, params.mode),
    )
    reply = _decommission(request, params.mode, options, f"decommission ({params.mode})")
    if stays is None or not isinstance(reply, Accept):
        return reply
    if not params.leave_on:
        left = Recommended(Action.DECOMMISSION, {**request.intent.params, "leave_on": True}, when="if it may stay on")
        return Reject(reason=f"decommission: the machine would stay on: {stays}", instead=(left,))
    return replace(reply, reason=f"{reply.reason}; the machine stays on: {stays}")


def _without_maas(request: Request, mode: DecommissionMode) -> Reject | None:
    """Refuse to begin a decommission for which MAAS has to release the machine, if MAAS cannot; otherwise return
    None."""
    node = request.node
    if mode not in BY_REGION or isinstance(node.workflow, Decommission):
        return None
    if node.maas_id is not None and request.config.maas_of(node) is None:
        lacking = f"decommission: mode {mode} needs MAAS, but site {node.site or '(none)'} has no MAAS configured"
        return Reject(reason=lacking, instead=ends(node) if mode is DecommissionMode.FULL_DECOMMISSION else ())
    if node.maas_id is None and mode is DecommissionMode.REIMAGE:
        return Reject(reason="decommission: mode reimage needs a machine in MAAS; this node has no MAAS ID")
    return None


def _who_cleans(request: Request, mode: DecommissionMode) -> CleaningBy | None:
    """Return who will clean the machine, or None. The region cleans only machines that it releases."""
    site, node = request.config.site_of(request.node), request.node
    by = None if site is None else site.cleaning.by
    has_region = site is not None and site.maas is not None and node.maas_id is not None
    if has_region and mode in BY_REGION and by in (None, CleaningBy.REGION):
        return CleaningBy.REGION
    return CleaningBy.AGENT if by is CleaningBy.REGION else by


def _stays_on(node: Node) -> str | None:
    """Return why neither MAAS nor farrier can switch the machine off; None if one of them may."""
    if node.maas_id is not None or isinstance(node.workflow, Decommission):
        return None
    return by_bmc.why_not(node)


def retry_stage(request: Request) -> Reply:
    """Retry the failed stage now, and count its attempts from the beginning."""
    node = request.node
    return Accept(reason=f"stage {node.live.stage} is retried", to=continued(node))


def resume(request: Request) -> Reply:
    """Continue from the last safe stage. A lost task is issued again, and a lost decommission is created again."""
    node = request.node
    if node.workflow is None:
        return _owner(request)
    if node.workflow.status in FAILED:
        if node.deleting and isinstance(node.workflow, Onboarding):  # the undo failed, and nothing else may continue
            return Accept(reason="the undo of the workflow continues", to=compensating.undoing(node, AfterUndo.CANCEL))
        held = conditions.in_words(node.conditions) if isinstance(node.workflow, Onboarding) else ""
        then = f"; it does not complete before a release: {held}" if held else ""
        return Accept(reason=f"the workflow continues at stage {node.workflow.stage}{then}", to=continued(node))
    type_ = tasks.OWNING.get(node.status)
    if type_ is None:
        return Accept(reason="nothing to resume: the workflow is running")
    writes = tasks.reissue(node, type_, request.now)
    if not writes:
        return Accept(reason=f"task {type_} is in progress")
    if node.paused is not None:
        later = None if node.workflow.memo.resumed else with_note(node, resumed=True)
        return Accept(reason=f"farrier issues task {type_} again when the pause ends", to=later)
    return Accept(reason=f"task {type_} was issued again", writes=writes)


def rerun(request: Request) -> Reply:
    """Run all stages again, skipping work that is done. The workflow still records what an undo has to undo."""
    node, workflow = request.node, request.node.live
    known = replace(counted_anew(workflow), touched=compensating.has_work(node))
    return Accept(
        reason="the workflow runs again from its first stage",
        to=with_workflow(started(node), memo=known),
    )


def restart_clean(request: Request) -> Reply:
    """Undo the workflow, then run all stages again. During the undo, the node is in a status that needs no workflow."""
    node = with_note(request.node, restarted_at=request.now, adopted=False)
    return Accept(
        reason="farrier undoes the work of the workflow, and then starts the workflow again",
        to=with_fields(compensating.undoing(node, AfterUndo.RESTART), status=fallback(node)),
        writes=tasks.end_live(node, "restart_clean"),
    )


def cancel(request: Request) -> Reply:
    """Stop the workflow and a running verification. The node returns to a status that requires no workflow. If the
    node's cleaning did not complete, the node is marked as not clean."""
    node = request.node
    if node.management is Management.VERIFYING:  # otherwise `auto_manage` would begin the verification again at once
        node = probing.deferred(node, request.now)
    if node.workflow is None:
        return Accept(reason="the verification is cancelled", to=node)
    workflow = node.workflow
    if workflow.status is W.COMPENSATING:
        if workflow.after_undo is AfterUndo.CANCEL and not node.deleting:
            return Accept(reason="the workflow is already being cancelled")
        to = with_fields(with_workflow(node, after_undo=AfterUndo.CANCEL), deleting=False)
        return Accept(reason="the workflow ends when its undo is done", to=to)
    if compensating.has_work(node):
        to = with_fields(compensating.undoing(node, AfterUndo.CANCEL), deleting=False)
        return Accept(reason=f"{workflow.kind} cancelled; the workflow ends when its undo is done", to=to)
    ended = with_workflow(
        cleaning_conditions.given_up(node), status=W.CANCELLED, stop_requested=None, next_attempt_at=None
    )
    return Accept(
        reason=f"{workflow.kind} cancelled",
        to=with_fields(ended, status=fallback(node), deleting=False),
        writes=tasks.end_live(node, "cancel"),
    )


def mark_manual_intervention_required(request: Request) -> Reply:
    """Freeze the workflow until an operator resolves it."""
    assert isinstance(request.params, p.MaybeBecause), "the table of actions declares this type"
    # A cancel of a workflow with class `undo_failed` ends it, even if its work cannot be undone.
    undoes = request.node.live.status is W.COMPENSATING and compensating.has_work(request.node)
    frozen = freeze(
        request.node,
        FailureClass.UNDO_FAILED if undoes else FailureClass.OPERATOR_REQUEST,
        request.params.reason or "frozen by an operator",
        stop=StopRequest.FROZEN,
        cause=cause_of_intent(request.intent.id),
    )
    return Accept(reason=frozen.reason, to=frozen.to, writes=frozen.writes)


def pause(request: Request) -> Reply:
    """Pause the node. farrier continues to observe the node, but changes nothing."""
    assert isinstance(request.params, p.Because), "the table of actions declares this type"
    paused = Pause(request.params.reason, request.now)
    if request.node.paused is not None and request.node.paused.reason == paused.reason:
        return Accept(reason="the node is already paused")
    return Accept(reason=f"paused: {paused.reason}", to=with_fields(request.node, paused=paused))


def unpause(request: Request) -> Reply:
    """End the pause. All deadlines of the live workflow start again, because it could not continue meanwhile."""
    node = request.node
    if node.paused is None:
        return Accept(reason="the node was not paused")
    if node.workflow is None:
        return Accept(reason="unpaused", to=with_fields(node, paused=None))
    owning = tasks.OWNING.get(node.status) if node.workflow.memo.resumed else None
    writes = () if owning is None else tasks.reissue(node, owning, request.now)
    node = with_note(node, unpaused_at=request.now, resumed=False)
    return Accept(reason="unpaused", to=with_fields(node, paused=None), writes=writes)


_LED_THERE: Mapping[N, tuple[Callable[[Request], FinalReply], p.Drain | p.RemoveParams]] = {
    N.DRAINING: (drain, p.Drain()),
    N.REMOVING: (remove, p.RemoveParams()),
}


def _owner(request: Request) -> FinalReply:
    """Create the decommission that normally leads into the node's status; its stages continue from there."""
    status = request.node.status
    assert status in _LED_THERE, "in other statuses, the table of actions requires a live workflow"
    unowned = f"the node is {status}, but no decommission of it is live"
    respond, params = _LED_THERE[status]
    if request.node.agentless:  # no agent can finish these tasks, so force is required
        params = replace(params, force=True, reason=unowned)
    made = respond(replace(request, params=params))
    return replace(made, reason=f"{unowned}; {made.reason}")


def _decommission(request: Request, mode: DecommissionMode, options: WorkflowOptions, what: str) -> FinalReply:
    node, live, asked = request.node, request.node.workflow, request.intent
    if isinstance(live, Decommission):
        return _raised(node, live, mode, options, what)
    because = () if asked.params.get("reason") else ("reason",)
    if node.agentless and not options.force and not _is_erased_by_region(request, options):
        return Reject(
            reason=f"{what}: this node is agentless, and only an agent can drain and clean a node, unless MAAS erases "
            "it in a decommission; a cleaning that force skips keeps the node out of service",
            instead=(Recommended(asked.action, {**asked.params, "force": True}, because, "to skip these tasks"),),
        )
    begun = Decommission(mode=mode, mode_given_at=request.now, options=options)
    return Accept(reason=f"{what} accepted", to=with_fields(request.node, workflow=begun, redeploying=False))


def _is_erased_by_region(request: Request, options: WorkflowOptions) -> bool:
    """Return whether the region cleans the machine, so that the node needs no agent."""
    site = request.config.site_of(request.node)
    return options.cleaned_by is CleaningBy.REGION and site is not None and site.release.erase not in LEAVES_DATA


def _raised(node: Node, live: Decommission, mode: DecommissionMode, options: WorkflowOptions, what: str) -> FinalReply:
    """Return the live decommission with additional options. Options are added, never removed."""
    if (live.mode, _left_out(live.options)) != (mode, _left_out(options)):
        return Reject(
            reason=f"{what}: refused, because decommission {live.id} of this node is live (mode {live.mode}); to "
            "extend the options of the live decommission, submit the same action with the same mode"
        )
    now = live.options
    force = options.force and not now.force
    raised = replace(
        now,
        force=now.force or options.force,
        retire=now.retire or options.retire,
        leave_on=now.leave_on or options.leave_on,
        leave_out=tuple(stage for stage in now.leave_out if stage in options.leave_out),
        reason=options.reason if force else now.reason,
        asked_by=options.asked_by if force else now.asked_by,
    )
    if raised == now:
        return Accept(reason=f"{what} is already in progress")
    return Accept(
        reason=f"{what}: the options of the live decommission were extended",
        to=with_workflow(node, options=raised),
    )


def _left_out(options: WorkflowOptions) -> set[D]:
    """Return the left-out stages, which show by which action the decommission was requested. The stage that the flag
    `remove_maas` of `remove` leaves out is not included."""
    return {*options.leave_out} - {D.REMOVE_MAAS_RECORD}


def _record_stays(request: Request) -> str | None:
    """Return why the machine cannot be deleted in MAAS, if this is already known. The stage checks everything else."""
    node = request.node
    if node.maas_id is None:
        return None
    if request.config.maas_of(node) is None:
        return f"remove_maas needs MAAS, but site {node.site or '(none)'} has no MAAS configured"
    if request.in_maas_as(deployed=True):
        return (
            f"machine {node.maas_id} is deployed in MAAS; use decommission in mode full_decommission, which releases "
            "the machine first"
        )
    return None


def _options(
    request: Request,
    params: p.Drain | p.RemoveParams | p.DecommissionParams,
    *,
    retire: bool,
    leave_out: tuple[DecommissionStage, ...] = (),
) -> WorkflowOptions:
    return WorkflowOptions(
        retire=retire,
        force=params.force,
        reason=params.reason,
        asked_by=request.intent.requested_by,
        leave_out=leave_out,
    )
