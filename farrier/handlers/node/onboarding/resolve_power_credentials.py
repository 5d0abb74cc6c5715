"""Stage `resolve_power_credentials`: the BMC is proven; an adoption proves it itself, afresh."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from farrier.handlers.node.logins import missing_detail
from farrier.handlers.node.moves import Policy, change
from farrier.handlers.node.onboarding_adopt import GATE, adopts, begin
from farrier.handlers.node.stage import Done, Failed, StageResult, Step, Waiting
from farrier.model.bmc import BmcFailure
from farrier.model.failures import FailureClass
from farrier.model.management import Management as M
from farrier.model.node import Node
from farrier.model.outcome import Wait


def resolve_power_credentials(node: Node, now: datetime, config: Policy) -> StageResult:
    """Through once the BMC is proven; an adoption proves it itself, afresh, and is led on by the probe's result."""
    match node.management:
        case M.MANAGEABLE if not adopts(node):
            return Done(reason="the BMC is manageable")
        case M.MANAGEABLE | M.ADOPT_FAILED:
            return _look(node, now)
        case M.ADOPTING:
            return Waiting(reason="waits for the probe of the adoption", timed=False)  # which has its own deadline
        case M.VERIFYING:
            return Waiting(reason="waits for the BMC to be verified")
        case M.ENROLL:
            return _enrolled(node, now)
        case M.UNMANAGED | M.ERROR:
            return Failed(failure=FailureClass.NO_CREDENTIALS, detail="the node has no BMC details; give them: set_bmc")
        case _ as never:
            assert_never(never)


def _look(node: Node, now: datetime) -> StageResult:
    """A failed adoption stops its onboarding, so one that runs here was asked for again."""
    begun = begin(node, now, cause=f"stage: {GATE}")
    if isinstance(begun, Wait):
        return Waiting(reason=begun.reason, look_again=begun.look_again)
    return Step(to=begun.to, reason=begun.reason)


def _enrolled(node: Node, now: datetime) -> StageResult:
    missing = missing_detail(node)
    if missing is not None:
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=missing)
    bmc = node.bmc
    if bmc.failures > 0 and bmc.failure is BmcFailure.IDENTITY_MISMATCH:
        return Failed(failure=FailureClass.IDENTITY_MISMATCH, detail=bmc.last_error or "another machine answers")
    if bmc.asked_at is None:
        return Step(to=change(node, bmc=replace(bmc, asked_at=now)), reason="asks for the BMC to be verified")
    told = f": {bmc.failure}: {bmc.last_error}" if bmc.failure is not None else ""
    return Waiting(reason=f"waits for the BMC to be manageable{told}")
