"""Onboarding in mode `adopt`: the stages up to the agent's, and how an adoption begins (model §3, §4).

`resolve_power_credentials` is a gate: only a probe that finds the recorded machine leads past it (`adopting`), so no
retry, rerun or new request puts a machine into service that was not looked at. Nothing here writes to a BMC or to MAAS.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.logins import capped, counted, missing_detail
from farrier.handlers.node.moves import Change, become, change, job
from farrier.handlers.node.stage import Done, Failed, StageResult, Step, Waiting
from farrier.model.bmc import BmcFailure
from farrier.model.failures import FailureClass
from farrier.model.management import Management as M
from farrier.model.node import Node, Onboarding
from farrier.model.outcome import Wait
from farrier.model.stages import PATHS, OnboardingStage
from farrier.model.workflow import OnboardingMode
from farrier.model.workflow import WorkflowStatus as W
from farrier.model.writes import Write

GATE = OnboardingStage.RESOLVE_POWER_CREDENTIALS
_BEHIND_THE_GATE = PATHS[OnboardingMode.ADOPT][PATHS[OnboardingMode.ADOPT].index(GATE) + 1 :]


def adopts(node: Node) -> bool:
    """True while the node's live workflow is an adoption."""
    return isinstance(node.workflow, Onboarding) and node.workflow.mode is OnboardingMode.ADOPT


def is_at_the_gate(node: Node) -> bool:
    """True while the node's adoption has to look at the machine next."""
    return adopts(node) and node.workflow is not None and node.workflow.stage is GATE


def is_proven(node: Node) -> bool:
    """True once the probe of the node's adoption found the recorded machine."""
    return adopts(node) and node.workflow is not None and node.workflow.stage in _BEHIND_THE_GATE


def back_to_the_gate(node: Node) -> Node:
    """The node with another BMC than the one its adoption looked at: it has to look again."""
    if not is_proven(node):
        return node
    return change(node, workflow=job(node, stage=GATE, attempt=1))


def begin(node: Node, now: datetime, *, cause: str) -> Change | Wait[Write]:
    """Into `adopting`, counting the try; or a wait, if the login cap is reached."""
    bmc = counted(replace(node.bmc, asked_at=None), now)
    if bmc.trying is None:
        reason, look_again = capped(bmc, now)
        return Wait(reason=reason, look_again=look_again)
    adopting = change(node, management=M.ADOPTING, bmc=bmc)
    return become(node, adopting, reason="looks whether the recorded machine answers", cause=cause)


def load_site_config(node: Node, now: datetime, config: NodeConfig) -> StageResult:
    """Sites have no configuration of their own in this release; the label is all there is to find."""
    where = f"site {node.site}" if node.site is not None else "no site label"
    return Done(reason=f"{where}; sites have no configuration of their own, the general one applies")


def resolve_power_credentials(node: Node, now: datetime, config: NodeConfig) -> StageResult:
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


def create_or_find_in_maas(node: Node, now: datetime, config: NodeConfig) -> StageResult:
    """Only finds: an adoption creates nothing. A node without a MAAS id has nothing to be found by."""
    if node.maas_id is None:
        return Done(reason="the node is not in MAAS", skipped="the node has no MAAS id")
    return Failed(
        failure=FailureClass.INVALID_CONFIG,
        detail=f"site {node.site or '(none)'} has no MAAS configured, and the node has MAAS id {node.maas_id}",
    )


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


def given_up(node: Node) -> Node:
    """The node without its live adoption; as it is, if it has none."""
    if not adopts(node):
        return node
    return change(node, workflow=job(node, status=W.CANCELLED, next_attempt_at=None, after_undo=None))
