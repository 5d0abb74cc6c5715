"""Makes a workflow fail or stop, over the edges from `running` to the failed states.

A decommission that must stop while its node is in `draining` takes several edges. The workflow records the requested
stop, and every later run handles the stop first. If an adoption stops, its onboarding also stops.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.changes import Change, transition, uses_maas, with_fields, with_workflow
from farrier.handlers.node.workflow import cleaning_conditions, onboarding_adopt
from farrier.handlers.node.workflow.tasks import end_live
from farrier.model.node import conditions
from farrier.model.node.conditions import Source
from farrier.model.node.failures import (
    BACKOFF_FIRST,
    BACKOFF_MAX,
    BY_THE_REGION,
    MANUAL,
    UNCOUNTED,
    UNSAFE,
    FailureClass,
    needs_operator,
    stage_backoff,
)
from farrier.model.node.layers import Management
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Decommission, Node, Onboarding, StopRequest, Workflow

_STATED_BY = {
    StopRequest.DRAIN_FAILED: conditions.DRAIN_FAILED,
    StopRequest.FROZEN: conditions.FROZEN,
    StopRequest.FAILED: conditions.DECOMMISSION_FAILED,
}

# An onboarding in these statuses stops with its adoption. An onboarding that an operator froze or ended does not
# change.
_GOES_ALONG = (W.RUNNING, W.FAILED_RETRYABLE)


def fail(
    node: Node,
    now: datetime,
    failure: FailureClass,
    detail: str,
    *,
    stop: StopRequest | None = None,
    attempt: int | None = None,
) -> Change:
    """Fail this attempt of the stage. Another attempt follows after the back-off, or the workflow waits for an
    operator. `attempt` replaces the workflow's own count of the stage's attempts."""
    node = node if attempt is None else with_workflow(node, attempt=attempt)
    workflow = node.live
    node = cleaning_conditions.failed(node, failure, detail)
    cause = f"stage: {workflow.stage}"
    # farrier may detect an outage of the region only after this failure. `workflow` then decides whether the last
    # attempt counts.
    may_be_an_outage = failure in BY_THE_REGION and uses_maas(workflow)
    is_last = needs_operator(failure, attempt=workflow.attempt) and not may_be_an_outage
    if stop is not None or failure in MANUAL or is_last:
        return freeze(node, failure, detail, stop=stop or StopRequest.FAILED, cause=cause)
    # A failed uninstall leaves `removing` in the same commit.
    status = N.RETIRED if node.status is N.REMOVING else node.status
    failed = with_workflow(
        node,
        status=W.FAILED_RETRYABLE,
        next_attempt_at=now + _pause(workflow, failure, now),
        failure_class=failure,
        failure_detail=detail,
    )
    return transition(
        node,
        with_fields(failed, status=status),
        reason=f"stage {workflow.stage} failed: {failure}: {detail}",
        cause=cause,
    )


def _pause(workflow: Workflow, failure: FailureClass, now: datetime) -> timedelta:
    """Return the pause before the next attempt; if attempts do not count, as long as the stage already took."""
    if failure in UNCOUNTED:
        return min(max(now - workflow.stage_entered_at, BACKOFF_FIRST), BACKOFF_MAX)
    return stage_backoff(workflow.attempt)


def _held(node: Node, id_: str, detail: str) -> Node:
    """Return the node in `quarantined`, with the condition that this stop of its workflow states."""
    new = conditions.stated(Source.WORKFLOW, id_, detail)
    return with_fields(node, status=N.QUARANTINED, conditions=conditions.added(node.conditions, new))


def _quarantines(node: Node, failure: FailureClass) -> bool:
    """Return whether this failure of an onboarding quarantines the node. If an earlier failure did so, the condition
    gets the reason of the newest failure."""
    if node.status is N.QUARANTINED:
        return conditions.find(node.conditions, Source.WORKFLOW, conditions.ONBOARDING_FAILED) is not None
    return node.status is N.ENROLLING and failure in UNSAFE


def freeze(node: Node, failure: FailureClass, detail: str, *, stop: StopRequest, cause: str) -> Change:
    """Stop the workflow until an operator resolves it, and take the node to a safe status."""
    failed = with_workflow(node, failure_class=failure, failure_detail=detail, next_attempt_at=None, after_undo=None)
    match node.workflow:
        case Onboarding():
            to = with_workflow(failed, status=W.FAILED_MANUAL_INTERVENTION)
            if _quarantines(node, failure):
                to = _held(to, conditions.ONBOARDING_FAILED, detail)
        case Decommission():
            to = _stopped(with_workflow(failed, stop_requested=stop), stop)
        case None:
            raise AssertionError("only a live workflow is frozen")
        case _ as never:
            assert_never(never)
    reason = f"needs an operator: {failure}: {detail}"
    return transition(node, to, reason=reason, cause=cause, writes=end_live(node, stop))


def adoption_cut_short(node: Node, why: str) -> Node:
    """Return the node after its adoption was interrupted. It may have logged in, so its try stays recorded."""
    bmc = replace(node.bmc, trying=None, failure=None, last_error=f"the adoption {why}")
    return adoption_stopped(
        with_fields(node, management=Management.ADOPT_FAILED, bmc=bmc), FailureClass.ADOPT_FAILED, f"the adoption {why}"
    )


def adoption_stopped(node: Node, failure: FailureClass, detail: str) -> Node:
    """Return the node after its adoption stopped: its onboarding waits, and an unsafe failure quarantines it."""
    if not onboarding_adopt.adopts(node) or node.workflow is None or node.workflow.status not in _GOES_ALONG:
        return node
    return freeze(node, failure, detail, stop=StopRequest.FAILED, cause="rule: adopt").to


def settle_stop(node: Node) -> Change:
    """Make the next transition of a stop that was requested earlier."""
    stop = node.live.stop_requested
    assert stop is not None, "only for a requested stop"
    return transition(
        node,
        _stopped(node, stop),
        reason=f"the decommission stops: {stop}",
        cause=f"rule: stop requested ({stop})",
        writes=end_live(node, stop),
    )


# The statuses after those that require a workflow.
_WITHOUT_WORKFLOW = {N.DRAINING: N.OFFLINE, N.REMOVING: N.RETIRED}


def fallback(node: Node) -> N:
    """Return the status of the node after its workflow has ended. This is never a status that requires a workflow."""
    return _WITHOUT_WORKFLOW.get(node.status, node.status)


def _stopped(node: Node, stop: StopRequest) -> Node:
    """Return the node after one more transition towards `failed_manual_intervention`. A decommission may enter this
    state only if its node is retired or quarantined."""
    if node.status is N.DRAINING:
        return with_fields(node, status=N.OFFLINE)
    stopped = with_workflow(node, status=W.FAILED_MANUAL_INTERVENTION, stop_requested=None)
    if node.status in (N.ACTIVE, N.OFFLINE):
        return _held(stopped, _STATED_BY[stop], node.live.failure_detail or str(stop))
    return with_fields(stopped, status=fallback(node))
