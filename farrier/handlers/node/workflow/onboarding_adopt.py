"""Onboarding in mode `adopt`: begins the probe of an adoption, and checks whether the adoption has passed the stage
that requires the probe.

An adoption passes stage `resolve_power_credentials` only after a probe has found the recorded machine (`adopting`). So
no retry, rerun or new intent puts a machine into service without a probe. This module writes nothing to a BMC or to
MAAS.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from farrier.handlers.node.bmc.logins import counted
from farrier.handlers.node.changes import Change, at_stage, transition, with_fields, with_workflow
from farrier.model.loop.outcome import Wait
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node, Onboarding
from farrier.model.node.stages import PATHS, OnboardingStage
from farrier.model.node.writes import Write

GATE = OnboardingStage.RESOLVE_POWER_CREDENTIALS
_BEHIND_THE_GATE = PATHS[OnboardingMode.ADOPT][PATHS[OnboardingMode.ADOPT].index(GATE) + 1 :]


def adopts(node: Node) -> bool:
    """Return whether the node's live workflow is an adoption."""
    return isinstance(node.workflow, Onboarding) and node.workflow.mode is OnboardingMode.ADOPT


def is_at_the_gate(node: Node) -> bool:
    """Return whether the next action of the node's adoption has to be a read of the BMC."""
    return adopts(node) and node.live.stage is GATE


def is_proven(node: Node) -> bool:
    """Return whether the probe of the node's adoption has found the recorded machine."""
    return adopts(node) and node.live.stage in _BEHIND_THE_GATE


def back_to_the_gate(node: Node) -> Node:
    """Return the node after a change of its BMC: an adoption goes back to the stage that reads the BMC."""
    return at_stage(node, GATE) if is_proven(node) else node


def begin(node: Node, now: datetime, *, cause: str) -> Change | Wait[Write]:
    """Start `adopting` and count the try, or wait if the login cap is reached."""
    bmc = counted(replace(node.bmc, asked_at=None, pending_at=None), now)
    if isinstance(bmc, Wait):
        return bmc
    adopting = with_fields(node, management=M.ADOPTING, bmc=bmc)
    return transition(node, adopting, reason="farrier checks that the recorded machine responds", cause=cause)


def given_up(node: Node) -> Node:
    """Return the node with its live adoption cancelled; without an adoption, the node does not change."""
    if not adopts(node):
        return node
    return with_workflow(node, status=W.CANCELLED, next_attempt_at=None, after_undo=None)
