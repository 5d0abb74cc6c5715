"""Stage `wait_for_ready`: waits until the commissioning has passed, and then runs the site's burn-in.

The stage waits by observations. It sends requests only to abort a commissioning for which MAAS never switched the
machine on, and to run the tests of `validation.scripts`, one after the other, before the node's first deployment. If
the commissioning fails, the attempt fails, and the next
attempt goes back to `commission_node`. Going back resets the stage's count of attempts, so the number of the
commissioning is the number of the attempt, for the back-off and for the limit of attempts.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from farrier.handlers.node.changes import (
    Done,
    Failed,
    Policy,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    at_stage,
    with_note,
)
from farrier.handlers.node.maas import lost_power, ready_test, region
from farrier.handlers.node.maas.ready_test import Ran, Test
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.onboarding.preparation import PASSED, failed_testing, quoted
from farrier.model.maas.changes import Abort
from farrier.model.maas.reading import MaasStatus, Machine, StatusNumber
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node, StopRequest, Workflow
from farrier.model.node.stages import OnboardingStage
from farrier.protocols import MaasClient

_ABORT = "abort"
_NEVER_ON = "MAAS commissioned machine {}, but did not switch it on; farrier aborted the commissioning"


def wait_for_ready(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Wait for the commissioning. The stage is done when the machine is ready and its commissioning passed."""
    workflow = node.live
    seen = region.observed(node)
    if not isinstance(seen, MaasObservation):
        return seen
    if (script := _untested(node, policy, seen)) is not None:
        test = Test(script=script, judge=partial(_burnt_in, node), timed=False)
        return ready_test.tested(node, now, policy, test)
    stands = (seen.status_name or str(seen.state))[:64]
    if seen.state in {MaasStatus.DEPLOYING, MaasStatus.DEPLOYED} and workflow.memo.has_deployed and seen.owner:
        return Done(reason=f"this onboarding already deploys the machine: {stands}")
    if seen.state is MaasStatus.COMMISSIONING:
        if region.was_asked(node, _ABORT) or lost_power.is_lost(node, now, policy, seen):
            return _aborted(node, now, policy)
        return Waiting(reason=f"waits for MAAS to commission the machine: {stands}")
    if seen.state is MaasStatus.READY and seen.commissioning_status_name == PASSED:
        return Done(reason="the machine is commissioned and ready")
    if seen.status == StatusNumber.FAILED_TESTING:
        return failed_testing(seen.system_id, seen.error_description or seen.status_message)
    if seen.state is MaasStatus.BROKEN:
        back = at_stage(node, OnboardingStage.COMMISSION_NODE)
        return StageStep(to=back, reason=f"machine {seen.system_id} was marked broken in MAAS")
    why = _NEVER_ON.format(seen.system_id) if region.was_asked(node, _ABORT) else _failure(seen)
    if why is None:
        detail = f"machine {seen.system_id} is {stands} in MAAS, which this onboarding did not request"
        return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)
    return _again(node, workflow, why)


def _untested(node: Node, policy: Policy, seen: MaasObservation) -> str | None:
    """Return the next script of the burn-in; None if the machine has passed all, or is not yet commissioned. A test
    that has begun continues, and after a failed test an operator's retry repeats it."""
    memo = node.live.memo
    passed = {run.script for run in memo.burn_in}
    left = [script for script in region.site_of(node, policy).validation.scripts if script not in passed]
    if not left or node.ever_active or memo.has_deployed:
        return None
    is_ready = seen.state is MaasStatus.READY and seen.commissioning_status_name == PASSED
    is_begun = memo.test is not None and seen.status in (StatusNumber.TESTING, StatusNumber.FAILED_TESTING)
    return left[0] if is_ready or is_begun else None


def _burnt_in(node: Node, ran: Ran) -> Settled:
    run = ran.run
    shown = f"test {run.script} (revision {run.revision})"
    if not ran.passed:
        detail = f"machine {ran.machine.system_id} failed {shown} of its burn-in; read its output in MAAS"
        return Failed(failure=FailureClass.COMMISSIONING_FAILED, detail=detail, stop=StopRequest.FAILED)
    return StageStep(to=with_note(node, burn_in=(*node.live.memo.burn_in, run)), reason=f"the machine passed {shown}")


def _failure(seen: MaasObservation) -> str | None:
    """Return why the commissioning ended without success; None for a state in which no commissioning ends."""
    said = quoted(seen.error_description or seen.status_message)
    if seen.status == StatusNumber.FAILED_COMMISSIONING:
        return f"machine {seen.system_id} failed its commissioning{said}"
    if seen.state is MaasStatus.NEW:
        return f"the commissioning of machine {seen.system_id} was aborted in MAAS"
    if seen.state is MaasStatus.READY:
        passed = seen.commissioning_status_name or "unknown"
        return f"machine {seen.system_id} is ready, but no commissioning passed: {passed[:64]}"
    return None


def _aborted(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Abort a commissioning that never began, one time in each attempt. Afterwards, the attempt fails."""

    async def decide(machine: Machine, _client: MaasClient) -> Settled | Send:
        if machine.state is not MaasStatus.COMMISSIONING or not lost_power.shows_off(machine):
            return Waiting(reason="waits until farrier has read the machine in MAAS")
        if region.was_asked(node, _ABORT):
            return Waiting(reason="waits for MAAS to abort a commissioning that never began")
        abort = Abort(comment=region.comment(node, _ABORT))
        return region.asking(node, now, abort, "abort a commissioning that never began", record=_ABORT)

    return region.with_machine(node, policy, decide, name="abort_commissioning")


def _again(node: Node, workflow: Workflow, why: str) -> StageResult:
    """Fail the first attempt, so that a back-off follows; the next attempt goes back to `commission_node`."""
    if workflow.status_entered_at <= workflow.stage_entered_at:
        number = max(workflow.memo.commissions, 1)
        return Failed(failure=FailureClass.COMMISSIONING_FAILED, detail=why, attempt=number)
    return StageStep(
        to=at_stage(node, OnboardingStage.COMMISSION_NODE), reason=(f"farrier commissions the machine again: {why}")
    )
