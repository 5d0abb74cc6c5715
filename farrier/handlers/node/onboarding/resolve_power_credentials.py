"""Stage `resolve_power_credentials`: checks that the BMC is manageable and that its credential resolves.

An adoption reads the BMC with a separate probe, and the result of the probe continues the onboarding. For a deployment,
MAAS needs the credential. This stage only checks that the credential resolves; the next stage resolves and sends it.
The credential is not stored.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.bmc.logins import missing_detail
from farrier.handlers.node.changes import (
    Done,
    Failed,
    NodeServices,
    Policy,
    ServiceCall,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    is_late,
    with_fields,
)
from farrier.handlers.node.onboarding.preparation import power_credential
from farrier.handlers.node.workflow.onboarding_adopt import GATE, adopts, begin
from farrier.model.credential import Credential
from farrier.model.loop.outcome import Wait
from farrier.model.node.failures import UNSAFE_OF_BMC, FailureClass
from farrier.model.node.layers import Management as M
from farrier.model.node.snapshot import Node


def resolve_power_credentials(node: Node, now: datetime, config: Policy) -> StageResult:
    """Check that the BMC is manageable; for an adoption, start the probe that continues the onboarding."""
    match node.management:
        case M.MANAGEABLE if not adopts(node):
            return _resolved(node)
        case M.MANAGEABLE | M.ADOPT_FAILED:
            return _look(node, now)
        case M.ADOPTING:
            return Waiting(reason="waits for the probe of the adoption", timed=False)  # the probe has its own deadline
        case M.VERIFYING:
            return _waiting(node, now, config, "waits for the verification of the BMC")
        case M.ENROLL:
            return _enrolled(node, now, config)
        case M.UNMANAGED | M.ERROR:
            return Failed(failure=FailureClass.NO_CREDENTIALS, detail="the node has no BMC details")
        case _ as never:
            assert_never(never)


def _resolved(node: Node) -> StageResult:
    async def resolve(services: NodeServices) -> Settled:
        found = await power_credential(node, services)
        return Done(reason="the BMC is manageable") if isinstance(found, Credential) else found

    return ServiceCall(name="resolve_power_credentials", act=resolve, reads_only=True)


def _look(node: Node, now: datetime) -> StageResult:
    """Start the probe of an adoption. After a failed one, this stage runs only if the onboarding is asked for again."""
    begun = begin(node, now, cause=f"stage: {GATE}")
    if isinstance(begun, Wait):
        return Waiting(reason=begun.reason, requeue_after=begun.requeue_after)
    return StageStep(to=begun.to, reason=begun.reason)


def _enrolled(node: Node, now: datetime, config: Policy) -> StageResult:
    missing = missing_detail(node)
    if missing is not None:
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=missing)
    bmc = node.bmc
    if bmc.failures > 0 and bmc.failure is not None and bmc.failure in UNSAFE_OF_BMC:
        return Failed(failure=UNSAFE_OF_BMC[bmc.failure], detail=bmc.last_error or "another machine responds")
    if bmc.asked_at is None:
        return StageStep(
            to=with_fields(node, bmc=replace(bmc, asked_at=now)),
            reason=("farrier requests the verification of the BMC"),
        )
    last = f": {bmc.failure}: {bmc.last_error}" if bmc.failure is not None else ""
    return _waiting(node, now, config, f"waits for the BMC to be manageable{last}")


def _waiting(node: Node, now: datetime, config: Policy, reason: str) -> Waiting | Failed:
    """Wait for the BMC. After the deadline, fail with `not_manageable`, whose advice concerns the BMC."""
    if is_late(node, now, config):
        return Failed(failure=FailureClass.NOT_MANAGEABLE, detail=reason)
    return Waiting(reason=reason)
