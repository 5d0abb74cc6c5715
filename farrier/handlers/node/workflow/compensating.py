"""The state `compensating`: an onboarding in mode `deploy` undoes its work in MAAS, then ends or starts again.

Each run reads the machine and requests at most one change, so a run can be repeated after a crash. A run undoes only
the work of this workflow. If another user owns or deployed the machine, the undo stops, and the error states what the
operator has to do. The machine's record stays in MAAS.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from farrier.handlers.node.changes import (
    Decision,
    Done,
    Failed,
    Outcome,
    Policy,
    ServiceCall,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    attended,
    step_of,
    transition,
    waited,
    waits_since,
    with_fields,
    with_note,
    with_workflow,
)
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.onboarding import deployment, discovery
from farrier.handlers.node.workflow import cleaning_conditions
from farrier.handlers.node.workflow.failure import fallback, freeze
from farrier.model.loop.outcome import Wait
from farrier.model.maas.changes import Abort, LookUp, Release
from farrier.model.maas.reading import BEING_RELEASED, Machine, StatusNumber
from farrier.model.node import sla
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Layer, OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import AfterUndo, Memo, Node, Onboarding, StopRequest, Workflow
from farrier.model.node.stages import DETOUR, PATHS, OnboardingStage
from farrier.model.node.writes import ForgetAgent, RevokeBootstrap, UseNetworks, Write
from farrier.model.plural import counted
from farrier.protocols import MaasClient

S = StatusNumber

CAUSE = "rule: compensating"
_ABORT = "undo: abort"

# MAAS shows an abort only after it has switched the power. After this time, farrier requests the abort again.
_ABORT_TAKES = timedelta(minutes=5)
# The pause before farrier requests a failed change again. It is long, because each change switches power.
_FAILED_AGAIN = timedelta(minutes=1)

_PATH = PATHS[OnboardingMode.DEPLOY]
_IN_MAAS = frozenset(_PATH[_PATH.index(OnboardingStage.CREATE_OR_FIND_IN_MAAS) :]) | DETOUR

# Statuses of machines that no user owns or on which nothing runs. The results of commissioning may stay.
_AT_REST = frozenset({S.NEW, S.READY, S.FAILED_COMMISSIONING, S.FAILED_TESTING, S.BROKEN, S.MISSING, S.RETIRED})
_AT_WORK = frozenset({S.COMMISSIONING, S.TESTING})
_HELD = frozenset(
    {S.DEPLOYING, S.ALLOCATED, S.RESERVED, S.DEPLOYED, S.FAILED_DEPLOYMENT, S.RELEASING_FAILED, S.FAILED_DISK_ERASING}
)

_ABORTABLE = _AT_WORK | {S.DEPLOYING}
# Statuses of a machine that was just created. MAAS may commission the machine by itself.
_UNTOUCHED = frozenset({S.NEW, S.COMMISSIONING})


def has_work(node: Node) -> bool:
    """Return whether the node's live workflow may have changed something in MAAS."""
    workflow = node.workflow
    if not isinstance(workflow, Onboarding) or workflow.mode is not OnboardingMode.DEPLOY:
        return False
    return workflow.status is not W.PENDING and (workflow.memo.touched or workflow.stage in _IN_MAAS)


def undoing(node: Node, after: AfterUndo) -> Node:
    """Return the node at the beginning of an undo. The failure of an earlier undo stays until this one ends."""
    return with_workflow(node, status=W.COMPENSATING, after_undo=after, stop_requested=None, next_attempt_at=None)


def compensate(node: Node, now: datetime, policy: Policy) -> Decision:
    """Make one step of the undo."""
    if not has_work(node):
        return _undone(node, Done(reason="this workflow had changed nothing in MAAS"))
    if policy.maas_of(node) is None:
        return _without_a_site(node, now, policy)
    result = _undo(node, now, policy)
    if not isinstance(result, ServiceCall):
        return _settled(node, result, now, policy)
    interruptions = node.live.memo.interruptions
    if interruptions and _is_late(node, now, policy):
        detail = f"the undo did not finish in time: calls to MAAS were interrupted {counted(interruptions, 'time')}"
        return _gave_up(with_note(node, interruptions=0), detail)
    return step_of(node, result, lambda settled: _settled(node, settled, now, policy))


def _without_a_site(node: Node, now: datetime, policy: Policy) -> Outcome:
    """Wait until the site is configured again. If the undo has already failed, a further cancel ends the workflow."""
    waits = region.elsewhere(node)
    if node.live.failure_class is FailureClass.UNDO_FAILED:
        return _gave_up(node, waits.reason)
    return _waiting(node, waits, now, policy)


def _undo(node: Node, now: datetime, policy: Policy) -> StageResult:
    workflow = node.live
    if node.maas_id is None:
        if workflow.memo.candidate is not None:
            return Done(reason="farrier found a machine in MAAS, but did not change it")
        return region.with_region(
            node, policy, lambda client: _look_for_lost(client, node), name="undo", reads_only=True
        )
    if (waits := _observed_to_go_on(node, now)) is not None:
        return waits

    async def decided(machine: Machine, client: MaasClient) -> Settled | Send:
        ours = machine.status in _HELD and await deployment.is_ours(client, node, machine.system_id)
        return decide(node, machine, now, ours=ours)

    return region.with_machine(node, policy, decided, name="undo")


def _observed_to_go_on(node: Node, now: datetime) -> Waiting | None:
    """Wait while the last observation shows work of MAAS that ends by itself; None if the undo must read."""
    seen = node.maas
    if seen is None or not seen.tells_of(node.live.status_entered_at):
        return None
    if seen.status in BEING_RELEASED:
        return Waiting(reason=_going(seen.system_id))
    asked_at = node.live.memo.asked_at
    if seen.status in _ABORTABLE and _abort_is_asked(node, now) and asked_at is not None and seen.tells_of(asked_at):
        return Waiting(reason=_ending(seen.system_id))
    return None


def decide(node: Node, machine: Machine, now: datetime, *, ours: bool) -> Settled | Send:
    """Return the next change for a machine that is free or farrier's; `ours` if this workflow deployed it."""
    named = f"machine {machine.system_id} is {(machine.status_name or str(machine.status))[:64]}"
    if machine.status in _AT_REST:
        return Done(reason=named)
    if machine.status in BEING_RELEASED:
        return Waiting(reason=_going(machine.system_id))
    if machine.status in _AT_WORK:
        # MAAS also commissions machines that it discovers, and no user owns these machines.
        return (
            _abort(node, machine, now)
            if machine.owner
            else Done(reason=f"{named}, but farrier did not start this operation")
        )
    if machine.status not in _HELD:
        return _refused(f"{named}: end this state in MAAS")
    if not ours:
        return _refused(f"{named}, but this workflow did not request that: find out who uses the machine")
    if machine.locked:
        return _refused(f"{named} and locked in MAAS, so farrier does not change it: unlock it in MAAS")
    if machine.status == S.DEPLOYING:
        return _abort(node, machine, now)
    return Send(change=Release(comment=region.comment(node, "undo")), reason="release")


def _abort(node: Node, machine: Machine, now: datetime) -> Settled | Send:
    """Abort the operation, not too often, because MAAS shows an aborted operation until the power is off."""
    if _abort_is_asked(node, now):
        return Waiting(reason=_ending(machine.system_id))
    to = with_note(node, asked=_ABORT, asked_at=now)
    change_ = Abort(comment=region.comment(node, "undo"))
    return Send(
        change=change_, reason="abort", then=StageStep(to=to, reason=f"requested MAAS to abort {machine.system_id}")
    )


def _abort_is_asked(node: Node, now: datetime) -> bool:
    workflow = node.live
    known = workflow.memo
    if known.asked != _ABORT or known.asked_at is None:
        return False
    return known.asked_at >= workflow.status_entered_at and now - known.asked_at < _ABORT_TAKES


async def _look_for_lost(client: MaasClient, node: Node) -> Settled:
    """Find a machine whose creation was requested, but for which no response arrived."""
    known = discovery.clues(node)
    machines = (
        *await client.machines(LookUp.HOSTNAME, (known.hostname,)),
        *await client.machines(LookUp.MAC_ADDRESS, known.macs),
    )
    ours = region.comment(node, region.CREATE)
    found = sorted(
        {machine.system_id for machine in machines if machine.description == ours and machine.status in _UNTOUCHED}
    )
    if not found:
        return Done(reason="MAAS created no machine for this node")
    to = with_fields(node, maas_id=found[0], maas_created=True)
    return StageStep(to=to, reason=f"MAAS created machine {found[0]} for this node, although the response was lost")


def _settled(node: Node, result: Settled, now: datetime, policy: Policy) -> Outcome:
    match result:
        case Done():
            return _undone(node, result)
        case StageStep():
            return transition(node, result.to, reason=result.reason, cause=CAUSE, source=result.source)
        case Waiting():
            return _waiting(node, result, now, policy)
        case Failed(failure=FailureClass.MACHINE_DELETED_UPSTREAM):
            # Do not search for a deleted machine: a restarted workflow creates or finds another machine.
            without = with_fields(node, maas_id=None, maas_created=False)
            return _undone(without, Done(reason=result.detail, source=result.source))
        case Failed(failure=FailureClass.UPSTREAM_ERROR | FailureClass.POWER_FAILED):
            again = Waiting(reason=f"MAAS: {result.detail}", requeue_after=_FAILED_AGAIN, source=result.source)
            return _waiting(node, again, now, policy)
        case Failed():
            return _gave_up(node, result.detail)
        case _ as never:
            assert_never(never)


def _waiting(node: Node, result: Waiting, now: datetime, policy: Policy) -> Outcome:
    """Wait, or give up after the deadline, also during errors of the region, so that no undo lasts without end."""
    if _is_late(node, now, policy):
        return _gave_up(node, f"the undo did not finish in time: {result.reason}")
    return Wait(
        reason=f"farrier undoes the work of the workflow: {result.reason}",
        requeue_after=result.requeue_after,
        source=result.source,
    )


def _is_late(node: Node, now: datetime, policy: Policy) -> bool:
    """Return whether the undo is past its deadline. Time without access to MAAS does not count. If an operator
    cancelled the workflow after a failed undo, this time counts too, so that the workflow always ends."""
    workflow = node.live
    since, limit = waits_since(workflow), sla.undo_deadline(Layer(workflow.kind), overrides=policy.sla)
    return (attended if _is_to_end(workflow) else waited)(node, since, now) > limit


def _is_to_end(workflow: Workflow) -> bool:
    """Return whether an operator ended the workflow after a failed undo."""
    return workflow.failure_class is FailureClass.UNDO_FAILED and workflow.after_undo is not AfterUndo.RESTART


def _gave_up(node: Node, detail: str) -> Outcome:
    """Stop and wait for an operator. If an operator cancels after that, the workflow ends."""
    workflow = node.live
    if _is_to_end(workflow):
        return _ended(node, f"cancelled; farrier leaves MAAS unchanged: {detail}", _worthless(workflow))
    return freeze(node, FailureClass.UNDO_FAILED, detail, stop=StopRequest.FAILED, cause=CAUSE)


def _undone(node: Node, done: Done) -> Outcome:
    workflow = node.live
    writes = _worthless(workflow)
    if node.networks is not None:
        writes = (*writes, UseNetworks())  # no system runs any more that could use the networks
    if workflow.memo.has_deployed:
        writes = (*writes, ForgetAgent())  # the agent's system is gone
    if workflow.after_undo is not AfterUndo.RESTART:
        return _ended(node, f"the undo is done, and the workflow is cancelled: {done.reason}", writes)
    # The count of deployments continues. With a number used before, an old request would look like a new one, and a new
    # deployment would get the revoked token of the old one.
    counted = workflow.memo.deploys + (workflow.memo.token is not None)
    kept = Memo(deploys=counted, disowned=counted) if has_work(node) else workflow.memo
    fresh = with_workflow(
        node,
        status=W.PENDING,
        stage=None,
        attempt=1,
        after_undo=None,
        skipped=(),
        failure_class=None,
        failure_detail=None,
        memo=kept,
    )
    return transition(
        node,
        fresh,
        reason=f"the undo is done, and the workflow starts again: {done.reason}",
        cause=CAUSE,
        writes=writes,
        source=done.source,
    )


def _ended(node: Node, reason: str, writes: tuple[Write, ...]) -> Outcome:
    ended = with_workflow(cleaning_conditions.given_up(node), status=W.CANCELLED, after_undo=None)
    return transition(node, with_fields(ended, status=fallback(node)), reason=reason, cause=CAUSE, writes=writes)


def _worthless(workflow: Workflow) -> tuple[Write, ...]:
    """Return the write that revokes the bootstrap token in the user data of the deployment."""
    return (RevokeBootstrap(),) if workflow.memo.token is not None else ()


def _refused(detail: str) -> Failed:
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)


def _going(system_id: str) -> str:
    return f"waits for MAAS to release machine {system_id}"


def _ending(system_id: str) -> str:
    return f"waits for MAAS to finish its work on machine {system_id}"
