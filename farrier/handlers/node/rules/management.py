"""The management layer: whether farrier may use the BMC.

Nodes in `enroll` with complete details are verified after the back-off of the last failure, if `auto_manage` is set or
an intent requested the verification. A verification only reads. A verification ends when the read has a result, when
its deadline passes, when an intent arrives that must not wait, or when farrier recovers from a crash. An interrupted
verification goes back to `enroll`, and the next one needs a new login try.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from farrier.handlers.node.bmc import probing, rotation
from farrier.handlers.node.bmc.logins import has_try, missing_detail, tries_after, tries_before
from farrier.handlers.node.changes import (
    Change,
    Decision,
    NodeServices,
    Outcome,
    Policy,
    attended,
    transition,
    with_fields,
)
from farrier.model.loop.outcome import EndsBy, Step, Wait
from farrier.model.loop.runs import cause_of_intent
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, backoff, raised
from farrier.model.node.failures import ends_by
from farrier.model.node.layers import Management as M
from farrier.model.node.snapshot import Node

_NEEDS_AN_EDIT = frozenset(failure for failure in BmcFailure if backoff(failure, 1) is None)


def enroll(node: Node, now: datetime, config: Policy) -> Decision:
    """Verify a BMC whose details are complete, or return the reason for which the node waits."""
    if node.paused is not None:
        return Wait(reason=f"paused: {node.paused.reason}", ends_by=EndsBy.PERSON, rests=True)
    missing = missing_detail(node)
    if missing is not None:
        if node.bmc.last_error != missing:
            bmc = msgspec.structs.replace(node.bmc, last_error=missing, failure=BmcFailure.INCOMPLETE, next_try_at=None)
            return transition(node, with_fields(node, bmc=bmc), reason=missing, cause="rule: BMC details")
        return Wait(reason=f"{missing}; an operator has to set the BMC details", ends_by=EndsBy.PERSON, rests=True)
    if not node.auto_manage and node.bmc.asked_at is None:
        return Wait(
            reason="the BMC details are complete; an operator has to request the verification",
            ends_by=EndsBy.PERSON,
            rests=True,
        )
    watched = rotation.watch_enroll(node, now, config)
    if watched is not None:
        return watched
    if node.bmc.failures > 0 and node.bmc.failure in _NEEDS_AN_EDIT:
        return Wait(
            reason=f"{node.bmc.last_error}; an operator has to correct the BMC details",
            ends_by=EndsBy.PERSON,
            rests=True,
        )
    if node.bmc.next_try_at is not None and now < node.bmc.next_try_at:
        why = (
            "the verification was cancelled"
            if node.bmc.failures == 0
            else f"the BMC could not be verified ({node.bmc.failure})"
        )
        return Wait(
            reason=f"{why}; farrier retries after the back-off",
            ends_by=ends_by(node.bmc.failure if node.bmc.failures else None),
            requeue_after=node.bmc.next_try_at - now,
        )
    asked = node.bmc.asked_at is not None
    return probing.begin_verify(
        node,
        now,
        reason="manage was requested" if asked else "the BMC details are complete",
        cause="rule: manage" if asked else "rule: auto_manage",
    )


def verify_if_asked(node: Node, now: datetime, config: Policy) -> Decision | None:
    """If an intent requested a verification after a failed adoption, and the verification had to wait, begin it now."""
    if node.paused is not None or node.bmc.asked_at is None:
        return None
    return probing.begin_verify(node, now, reason="manage was requested", cause="rule: manage")


def verify(node: Node, now: datetime, config: Policy) -> Decision:
    """Read the BMC one time, or end the verification."""
    if attended(node, node.management_entered_at, now) > config.transient_deadline:
        error = BmcError(BmcFailure.TIMEOUT, "the verification took longer than its deadline")
        # The result of the login is unknown, so the login counts.
        return _failed(node, now, error, tries=node.bmc.tries, cause="timer: deadline of verifying")
    why = _gives_way(node)
    if why is not None:
        return transition(node, probing.interrupted(node), reason=why, cause="rule: verify")

    async def look(services: NodeServices) -> Outcome:
        try:
            reading = await probing.verified(node, services, must_prove=False)
        except BmcError as error:
            return _failed(node, now, error, tries=tries_after(node.bmc, error), cause="step: verify")
        return _verified(node, now, reading)

    return Step(
        name="verify",
        act=look,
        deadline=config.transient_deadline,
        reads_only=True,
        if_interrupted=probing.unfinished(node),
        if_failed=_failed(node, now, raised(), tries=tries_before(node.bmc), cause="step: verify"),
    )


def _gives_way(node: Node) -> str | None:
    """Return why the verification has to end; None if it may continue."""
    if node.paused is not None:
        return f"paused: {node.paused.reason}"
    request = probing.interrupting(node)
    if request is not None:
        return f"the verification ends because of intent {request.id} ({request.action})"
    if not has_try(node.bmc):
        return "the verification was interrupted; farrier starts it again"
    return None


def _verified(node: Node, now: datetime, reading: BmcReading) -> Outcome:
    replaced, by = probing.replaced(node.bmc, reading), node.bmc.replacing
    return transition(
        node,
        with_fields(node, management=M.MANAGEABLE, bmc=probing.learnt(node.bmc, reading, now)),
        reason=f"{replaced}power and management interface respond; power is {reading.power}",
        cause=cause_of_intent(by) if replaced and by is not None else "step: verify",
    )


def _failed(node: Node, now: datetime, error: BmcError, *, tries: tuple[datetime, ...], cause: str) -> Change:
    """Return the transition back to `enroll`. The error stays until its cause is proven gone."""
    return transition(
        node,
        with_fields(node, management=M.ENROLL, bmc=probing.failed(node.bmc, error, now, tries=tries)),
        reason=f"{error.failure}: {error.detail}",
        cause=cause,
    )
