"""The rules of the live workflow: requested stops, attempts, and the results of stages.

In a run, `stop` is the first rule, and `progress` comes after the rules about the node's health.
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
    StageStep,
    Waiting,
    attended,
    is_late,
    is_unread,
    outages,
    step_of,
    transition,
    with_fields,
    with_note,
    with_workflow,
)
from farrier.handlers.node.workflow import proof
from farrier.handlers.node.workflow.compensating import compensate
from farrier.handlers.node.workflow.failure import fail, freeze, settle_stop
from farrier.handlers.node.workflow.stages import advanced, run_stage, started
from farrier.model.loop.outcome import EndsBy, Wait
from farrier.model.node.failures import BY_THE_REGION, UNCOUNTED, FailureClass, needs_operator
from farrier.model.node.layers import LIVE, DecommissionMode, NodeStatus, OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import (
    AfterUndo,
    Decommission,
    Node,
    Onboarding,
    StopRequest,
    Workflow,
    WorkflowOptions,
)

AGAIN_WHILE_UNREAD = timedelta(seconds=15)
"""Interval at which a stage retries a request while the region cannot be read: the same as after other failures of the
region (`REGION_AGAIN`)."""

NOTICED_WITHIN = timedelta(seconds=90)
"""Longest time for which calls may fail before farrier notices an outage of the region: a poll begins 5 s after the
last poll and takes at most 75 s."""

MOST_INTERRUPTIONS = 5
"""Number of consecutive interrupted calls after which the attempt has failed."""


def stop(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Make the next transition of a requested stop, one transition in each run; return None if no stop is requested."""
    return None if node.live.stop_requested is None else settle_stop(node)


def progress(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Advance the live workflow by one step."""
    if node.paused is not None and not node.deleting and not _is_being_cancelled(node.live):
        return Wait(reason=f"paused: {node.paused.reason}", ends_by=EndsBy.PERSON, rests=True)
    match node.live.status:
        case W.PENDING:
            return _pending(node)
        case W.RUNNING:
            return _running(node, now, config)
        case W.FAILED_RETRYABLE:
            return _failed_retryable(node, now)
        case W.FAILED_MANUAL_INTERVENTION:
            return Wait(reason=f"waits for an operator: {_failure(node)}", ends_by=EndsBy.PERSON, rests=True)
        case W.COMPENSATING:
            return compensate(node, now, config)
        case W.COMPLETED | W.CANCELLED | W.RECONCILED:
            return None  # never live; listed only so that the match is complete
        case _ as never:
            assert_never(never)


def _is_being_cancelled(workflow: Workflow) -> bool:
    return workflow.status is W.COMPENSATING and workflow.after_undo is not AfterUndo.RESTART


def not_begun(node: Node, now: datetime, config: Policy) -> Decision:
    """Wait for an intent, because the node is `enrolling` and has no onboarding."""
    return Wait(reason="no onboarding is live; an operator has to begin one", ends_by=EndsBy.PERSON, rests=True)


def orphaned(node: Node, now: datetime, config: Policy) -> Decision:
    """Wait for an operator: a backup or an edit left the node without the decommission that its status requires."""
    why = f"waits for an operator: the node is {node.status}, but no decommission of it is live"
    return Wait(reason=why, ends_by=EndsBy.PERSON, rests=True)


def remove(node: Node, now: datetime, config: Policy) -> Decision:
    """Begin the decommission of a node that is being deleted and was never active. `deleted` can only be reached from
    `removing`, so this decommission takes the node through the edges, but skips all work. A node in `enrolling` first
    enters `quarantined`, as its edges require."""
    walk = Decommission(
        mode=DecommissionMode.FULL_DECOMMISSION,
        mode_given_at=now,
        options=WorkflowOptions(untouched="not_applicable", retire=True),
    )
    to = with_fields(node, workflow=walk, deleting=True)
    if node.status is NodeStatus.ENROLLING:
        to = with_fields(to, status=NodeStatus.QUARANTINED)
    return transition(node, to, reason="the node is being deleted", cause="rule: delete")


def redeploy(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Begin the second half of a reimage: an onboarding that installs the node, which stays retired until its end."""
    if not node.redeploying:
        return None
    if node.paused is not None:
        return Wait(reason=f"paused: {node.paused.reason}", ends_by=EndsBy.PERSON, rests=True)
    if (why := proof.not_to_return(node, config)) is not None:
        return Wait(reason=f"farrier does not install the node: {why}", ends_by=EndsBy.PERSON, rests=True)
    return transition(
        node,
        with_fields(
            node,
            redeploying=False,
            workflow=Onboarding(mode=OnboardingMode.DEPLOY, mode_given_at=now),
        ),
        reason="the node was drained for a reimage",
        cause="rule: reimage",
    )


def _pending(node: Node) -> Decision:
    workflow = node.live
    if workflow.mode is None:
        return Wait(
            reason="the onboarding has no mode yet; an operator has to choose it", ends_by=EndsBy.PERSON, rests=True
        )
    return transition(
        node,
        started(node),
        reason=f"{workflow.kind} ({workflow.mode}) begins",
        cause=f"rule: {workflow.kind}",
    )


def _failed_retryable(node: Node, now: datetime) -> Decision:
    workflow = node.live
    failure, by_outage = workflow.failure_class, was_by_an_outage(node)
    if failure is not None and needs_operator(failure, attempt=workflow.attempt) and not by_outage:
        return _last_attempt(node, failure, now)
    if workflow.next_attempt_at is not None and now < workflow.next_attempt_at:
        return Wait(
            reason=f"stage {workflow.stage} failed ({workflow.failure_class}); farrier retries it after the back-off",
            requeue_after=workflow.next_attempt_at - now,
        )
    is_spent = not by_outage and failure not in UNCOUNTED
    attempt = workflow.attempt + is_spent
    return transition(
        node,
        with_workflow(node, status=W.RUNNING, attempt=attempt, next_attempt_at=None),
        reason=f"another attempt at stage {workflow.stage}",
        cause="timer: back-off",
    )


def _last_attempt(node: Node, failure: FailureClass, now: datetime) -> Decision:
    """After the last attempt, stop the workflow for an operator, unless an outage of the region was the cause."""
    workflow = node.live
    left = NOTICED_WITHIN - attended(node, workflow.status_entered_at, now)
    if left >= timedelta(0):
        return Wait(
            reason=f"the last attempt at stage {workflow.stage} failed ({failure}); farrier checks whether MAAS was "
            "unreachable",
            requeue_after=left + timedelta(seconds=1),
        )
    detail = workflow.failure_detail or str(failure)
    return freeze(node, failure, detail, stop=StopRequest.FAILED, cause=f"stage: {workflow.stage}")


def was_by_an_outage(node: Node) -> bool:
    """Return whether the attempt failed because of an outage of the region that farrier may have noticed only later."""
    failed_at = node.live.status_entered_at
    begun = (
        failed_at - NOTICED_WITHIN <= outage.began_at and attended(node, failed_at, outage.began_at) <= NOTICED_WITHIN
        for outage in outages(node)
    )
    return node.live.failure_class in BY_THE_REGION and any(begun)


def _running(node: Node, now: datetime, config: Policy) -> Decision:
    workflow = node.live
    if workflow.stage is None:
        return _through(node, Done(reason="every stage was skipped"), config)
    if workflow.memo.interruptions >= MOST_INTERRUPTIONS:
        if is_unread(node):
            node = with_note(node, interruptions=0)
            return transition(
                node,
                node,
                reason="MAAS cannot be read; until it can be read, farrier does not count interrupted calls",
                cause="",
            )
        calls = f"{MOST_INTERRUPTIONS} calls in a row were interrupted; the log has the error of each"
        detail = f"stage {workflow.stage}: {calls}"
        return fail(with_note(node, interruptions=0), now, FailureClass.TIMEOUT, detail)
    result = run_stage(node, now, config)
    if isinstance(result, ServiceCall):
        return step_of(node, result, lambda settled: _settled(node, settled, now, config))
    return _settled(node, result, now, config)


def _settled(node: Node, result: Settled, now: datetime, config: Policy) -> Outcome:
    stage = node.live.stage
    match result:
        case Done():
            return _through(node, result, config)
        case Waiting():
            if result.timed and is_late(node, now, config):
                return fail(node, now, FailureClass.TIMEOUT, f"stage {stage}: {result.reason}")
            return Wait(
                reason=result.reason,
                ends_by=result.ends_by,
                requeue_after=result.requeue_after,
                writes=result.writes,
                source=result.source,
            )
        case StageStep():
            return transition(
                node,
                result.to,
                reason=result.reason,
                cause=f"stage: {stage}",
                writes=result.writes,
                source=result.source,
            )
        case Failed():
            if is_unread(node) and result.failure in BY_THE_REGION:
                return Wait(reason=result.detail, requeue_after=AGAIN_WHILE_UNREAD, source=result.source)
            return fail(node, now, result.failure, result.detail, stop=result.stop, attempt=result.attempt)
        case _ as never:
            assert_never(never)


def _through(node: Node, done: Done, config: Policy) -> Outcome:
    """Return the transition after a finished stage: to the next stage, or to the end of the workflow."""
    workflow = node.live
    to = advanced(node, done, config)
    is_live = to.workflow is not None and to.workflow.status in LIVE
    reason = done.reason if is_live else f"{workflow.kind} completed: {done.reason}{_stays(to, config)}"
    return transition(node, to, reason=reason, cause=f"stage: {workflow.stage}", writes=done.writes, source=done.source)


def _stays(node: Node, config: Policy) -> str:
    """Say that a node which should return to service stays retired, because its cleaning is not proven."""
    workflow = node.live
    is_meant = isinstance(workflow, Decommission) and not workflow.options.retire
    why = proof.not_to_return(node, config) if is_meant and node.status is NodeStatus.RETIRED else None
    return "" if why is None else f"; the node stays retired: {why}"


def _failure(node: Node) -> str:
    """Return the failure for which the workflow waits. `node why` has the advice, which depends on more facts."""
    failure, detail = node.live.failure_class, node.live.failure_detail
    return ": ".join(filter(None, (failure, detail))) or "the workflow was stopped"
