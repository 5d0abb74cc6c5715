"""The management layer while farrier adopts a running machine. An adoption only reads.

The BMC is read only one time, and at least one recorded value of the machine must match the reading. The adoption ends
when the read has a result, when its deadline passes, or when an intent arrives that must not wait. After a crash, the
next run counts another login try and reads again. After a match, the same commit continues the onboarding, and
completes it if no stage is left.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.bmc import probing
from farrier.handlers.node.bmc.logins import counted, has_try, tries_after, tries_before
from farrier.handlers.node.changes import (
    Change,
    Decision,
    Done,
    NodeServices,
    Outcome,
    Policy,
    attended,
    transition,
    with_fields,
)
from farrier.handlers.node.rules.conditions import with_conditions
from farrier.handlers.node.workflow import onboarding_adopt
from farrier.handlers.node.workflow.failure import adoption_cut_short, adoption_stopped
from farrier.handlers.node.workflow.stages import advanced, run_stage
from farrier.model.loop.outcome import Step, Wait
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, raised
from farrier.model.node.failures import UNSAFE_OF_BMC, FailureClass
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node


def adopt(node: Node, now: datetime, config: Policy) -> Decision:
    """Read the BMC one time, or end the adoption."""
    left = config.transient_deadline - attended(node, node.management_entered_at, now)
    if left.total_seconds() < 0:
        error = BmcError(BmcFailure.TIMEOUT, "the adoption took longer than its deadline")
        # The result of the login is unknown, so the login counts.
        return _failed(node, now, error, tries=node.bmc.tries, cause="timer: deadline of adopting")
    why = _gives_way(node)
    if why is not None:
        return transition(node, adoption_cut_short(node, why), reason=why, cause="rule: adopt")
    if not has_try(node.bmc):
        bmc = counted(node.bmc, now)
        if isinstance(bmc, Wait):
            return replace(bmc, requeue_after=min(bmc.requeue_after or left, left))
        return transition(
            node,
            with_fields(node, bmc=bmc),
            reason=("the read was cancelled; farrier reads the BMC again"),
            cause="rule: adopt",
        )

    async def look(services: NodeServices) -> Outcome:
        try:
            reading = await probing.verified(node, services, must_prove=True)
        except BmcError as error:
            return _failed(node, now, error, tries=tries_after(node.bmc, error), cause="step: adopt")
        return _adopted(node, now, reading, config)

    return Step(
        name="adopt",
        act=look,
        deadline=config.transient_deadline,
        reads_only=True,
        if_interrupted=probing.unfinished(node),
        if_failed=_failed(node, now, raised(), tries=tries_before(node.bmc), cause="step: adopt"),
    )


def _gives_way(node: Node) -> str | None:
    """Return why the adoption has to end; None if it may continue."""
    if node.paused is not None:
        return f"interrupted by a pause: {node.paused.reason}"
    request = probing.interrupting(node)
    return None if request is None else f"interrupted by intent {request.id} ({request.action})"


def _adopted(node: Node, now: datetime, reading: BmcReading, config: Policy) -> Outcome:
    proven = with_fields(node, management=M.MANAGEABLE, bmc=probing.learnt(node.bmc, reading, now))
    proven = with_conditions(proven, now, config)  # the reading may end the condition of another machine
    return transition(
        node,
        _goes_on(proven, now, config),
        reason=f"{probing.replaced(node.bmc, reading)}the recorded machine responds; power is {reading.power}",
        cause="step: adopt",
    )


def _goes_on(node: Node, now: datetime, config: Policy) -> Node:
    """Return the node with its onboarding advanced past the probe. If every further stage is already done, the
    onboarding is complete; otherwise it is at the next stage, and each later run records one stage."""
    waits = node.workflow is not None and node.workflow.status is W.RUNNING
    if not waits or not onboarding_adopt.is_at_the_gate(node):
        return node
    passed = further = advanced(node, Done(reason="the recorded machine responds"), config)
    while further.workflow is not None and further.workflow.status is W.RUNNING:
        result = run_stage(further, now, config)
        if not isinstance(result, Done) or result.writes:
            return passed
        further = advanced(further, result, config)
    return further


def _failed(node: Node, now: datetime, error: BmcError, *, tries: tuple[datetime, ...], cause: str) -> Change:
    """Return the transition to `adopt_failed`. The error stays until its cause is proven gone."""
    bmc = probing.failed(node.bmc, error, now, tries=tries)
    failure = UNSAFE_OF_BMC.get(error.failure, FailureClass.ADOPT_FAILED)
    reason = f"{error.failure}: {error.detail}"
    failed = with_fields(node, management=M.ADOPT_FAILED, bmc=replace(bmc, next_try_at=None))
    return transition(node, adoption_stopped(failed, failure, reason), reason=reason, cause=cause)
