"""Stage `recover_for_datasource_retry`: makes the machine of a failed deployment ready for the next deployment.

The stage aborts a stuck deployment, releases a machine after a failed deployment, and erases nothing. The stage never
requests power, because a machine that MAAS powers on loses its user data. Each change is sent after a reading of the
machine; later observations show the effect of the change.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import (
    Policy,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    at_stage,
    attempt_began_at,
    with_note,
)
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.onboarding import deployment
from farrier.model.maas.changes import Abort, Release
from farrier.model.maas.reading import BEING_RELEASED, Machine
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import OnboardingStage
from farrier.protocols import MaasClient

_RELEASABLE = (S.FAILED_DEPLOYMENT, S.ALLOCATED, S.RELEASING_FAILED, S.FAILED_DISK_ERASING)
_ABORT = "abort"
_RELEASE = "release"


def recover_for_datasource_retry(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Begin the next deployment, or return to the last deployment if it succeeded. The result is never `Done`."""
    if _waits(node):
        return Waiting(reason="waits until MAAS has released the machine")

    async def decide(machine: Machine, client: MaasClient) -> Settled | Send:
        decided = _decided(node, now, machine)
        if isinstance(decided, Send) and not await _may_undo(client, node, machine):
            why = "by a deployment that this onboarding did not request"
            return deployment.disagrees(machine, why)
        return decided

    return region.with_machine(node, policy, decide, name="recover")


async def _may_undo(client: MaasClient, node: Node, machine: Machine) -> bool:
    """Return whether the deployment of the machine may be undone. Another client may have deployed the machine with
    farrier's key. So only two kinds of deployments may be undone: deployments of this workflow, and deployments that
    the workflow adopted at an operator's request."""
    known = node.live.memo
    return not known.has_deployed or await deployment.is_ours(client, node, machine.system_id)


def _waits(node: Node) -> bool:
    """Return whether readings since a request of this attempt show that the change is still in progress."""
    known = node.live.memo
    if known.asked_at is None or known.asked_at < attempt_began_at(node.live):
        return False
    seen = region.latest(node)
    # If a reading has the same time as the request, the reading may be older than the request.
    if seen is None or seen.read_at <= known.asked_at:
        return True
    # A machine stays `deploying` during an abort until its power is off.
    return seen.status in BEING_RELEASED or (seen.status == S.DEPLOYING and known.asked == _ABORT)


def _decided(node: Node, now: datetime, machine: Machine) -> Settled | Send:
    number = node.live.memo.deploys
    if machine.status == S.READY:
        return StageStep(to=at_stage(node, OnboardingStage.DEPLOY_VIA_MAAS), reason="the machine is ready again")
    if machine.status == S.NEW:
        to = at_stage(node, OnboardingStage.COMMISSION_NODE)
        return StageStep(to=to, reason="the machine must be commissioned again: its last commissioning did not pass")
    if machine.status == S.DEPLOYED:
        to = at_stage(node, OnboardingStage.WAIT_FOR_DEPLOYED)
        return StageStep(to=to, reason="the deployment succeeded after all")
    if machine.status in BEING_RELEASED:
        return _asked(node, now, _RELEASE)
    if machine.status == S.DEPLOYING:
        abort = Abort(comment=region.comment(node, f"abort deploy {number}"))
        return Send(change=abort, reason="abort the deployment", then=_asked(node, now, _ABORT))
    if machine.status in _RELEASABLE:
        release = Release(comment=region.comment(node, f"release after deploy {number}"))
        return Send(change=release, reason="release the machine", then=_asked(node, now, _RELEASE))
    return deployment.disagrees(machine, "while farrier released it")


def _asked(node: Node, now: datetime, what: str) -> StageStep:
    return StageStep(to=with_note(node, asked_at=now, asked=what), reason="the machine is being released")
