"""Stage `recover_for_datasource_retry`: the machine of a failed deployment is ready for the next one.

A deployment that is stuck is aborted, one that failed is released, and nothing is erased. Power is never asked for: a
machine that MAAS powers on loses its user data. Each change is sent after a reading; what comes of it is waited for on
what the region's observer wrote down.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import region
from farrier.handlers.node.moves import Policy, attempt_began_at, noted
from farrier.handlers.node.onboarding import detour
from farrier.handlers.node.region import Send
from farrier.handlers.node.stage import Settled, StageResult, Step, Waiting
from farrier.model.maas import Machine
from farrier.model.maas import StatusNumber as S
from farrier.model.maas_changes import Abort, Release
from farrier.model.node import Node
from farrier.model.stages import OnboardingStage

_RELEASABLE = (S.FAILED_DEPLOYMENT, S.ALLOCATED, S.RELEASING_FAILED, S.FAILED_DISK_ERASING)
_ON_ITS_WAY = (S.RELEASING, S.DISK_ERASING)


def recover_for_datasource_retry(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Never done: it leads to the next deployment, or back to the one that came to an end after all."""
    if _waits(node):
        return Waiting(reason="waits until MAAS has given the machine back")

    def decide(machine: Machine) -> Settled | Send:
        return _decided(node, now, machine)

    return region.with_machine(node, policy, decide, name="recover")


def _waits(node: Node) -> bool:
    """Whether something was asked for in this attempt, and nothing that was read since says that it is over."""
    assert node.workflow is not None, "a stage runs in a workflow"
    asked_at = detour.upstream(node).asked_at
    if asked_at is None or asked_at < attempt_began_at(node.workflow):
        return False
    seen = region.latest(node)
    return seen is None or not seen.tells_of(asked_at) or seen.status in _ON_ITS_WAY


def _decided(node: Node, now: datetime, machine: Machine) -> Settled | Send:
    number = detour.upstream(node).deploys
    asked = Step(to=noted(node, asked_at=now), reason="the machine is on its way back")
    if machine.status == S.READY:
        return Step(to=detour.at(node, OnboardingStage.DEPLOY_VIA_MAAS), reason="the machine is ready again")
    if machine.status == S.NEW:
        to = detour.at(node, OnboardingStage.COMMISSION_NODE)
        return Step(to=to, reason="the machine has to be commissioned again: its last commissioning did not pass")
    if machine.status == S.DEPLOYED:
        to = detour.at(node, OnboardingStage.WAIT_FOR_DEPLOYED)
        return Step(to=to, reason="the deployment came to an end after all")
    if machine.status in _ON_ITS_WAY:
        return asked
    if machine.status == S.DEPLOYING:
        abort = Abort(comment=region.comment(node, f"abort deploy {number}"))
        return Send(change=abort, reason="abort the deployment", then=asked)
    if machine.status in _RELEASABLE:
        release = Release(comment=region.comment(node, f"release after deploy {number}"))
        return Send(change=release, reason="release the machine", then=asked)
    return detour.disagrees(machine.system_id, machine.status_name, "while it was to be given back")
