"""Stage `wait_for_deployed`: waits until MAAS reports the machine as deployed.

The stage uses only observations since it began, and sends no request. The next stage classifies a deployment that
failed or takes too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from farrier.handlers.node.changes import Done, Policy, StageResult, StageStep, Waiting, with_note
from farrier.handlers.node.maas import lost_power, region
from farrier.handlers.node.onboarding import deployment
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.snapshot import Node

# The status messages of MAAS during a deployment, latest first, reduced to a few phases, because a wait is stored
# whenever its text changes.
_PHASES = (
    ("Rebooting", "booting the installed system"),
    ("Configuring OS", "installing"),
    ("Installing OS", "installing"),
    ("Configuring storage", "installing"),
    ("Loading ephemeral", "booting the installer"),
    ("Performing PXE boot", "booting the installer"),
)

_ENDED: Mapping[int | None, str] = {
    S.FAILED_DEPLOYMENT: "the deployment failed",
    S.ALLOCATED: "the deployment was aborted in MAAS",
}


def wait_for_deployed(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Wait for the deployment, with a deadline of its own, because nothing else would end it."""
    seen = region.observed(node)
    if not isinstance(seen, MaasObservation):
        return seen
    if seen.status == S.DEPLOYED:
        return Done(reason="MAAS reports deployed", to=_noted(node, seen))
    if seen.status == S.DEPLOYING:
        if deployment.is_overdue(node, now, policy):
            return StageStep(to=deployment.to_classification(node), reason="the deployment takes too long")
        if lost_power.is_lost(node, now, policy, seen):
            return StageStep(
                to=deployment.to_classification(node), reason="MAAS deploys the machine, but did not switch it on"
            )
        return Waiting(reason=f"waits for MAAS to deploy the machine: {_phase(seen)}", timed=False)
    reason = _ENDED.get(seen.status)
    if reason is not None:
        return StageStep(to=deployment.to_classification(node), reason=reason)
    return deployment.disagrees(seen, "while farrier deployed it")


def _noted(node: Node, seen: MaasObservation) -> Node:
    """Record when MAAS first reported this deployment as complete. Also record the time of the last hardware sync in
    the same reading, so that a later stage recognises a newer sync."""
    known = node.live.memo
    if known.deployed_at is not None:
        return node
    is_of_this = known.asked_at is not None and seen.since >= known.asked_at
    return with_note(node, deployed_at=seen.since if is_of_this else seen.read_at, synced_at=seen.last_sync)


def _phase(seen: MaasObservation) -> str:
    message = seen.status_message or ""
    phase = next((phase for start, phase in _PHASES if message.startswith(start)), None)
    return phase or ("booting the installed system" if seen.netboot is False else "starting the machine")
