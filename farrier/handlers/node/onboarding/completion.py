"""The successful end of an onboarding."""

from __future__ import annotations

from msgspec.structs import replace

from farrier.handlers.node.changes import ended_with_the_workflow, with_fields, with_workflow
from farrier.handlers.node.workflow import cleaning_conditions, onboarding_adopt
from farrier.model.machine.bmc import PowerState
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Bmc, Node


def complete(node: Node, *, ending: W | None = None) -> Node:
    """Return the node after its onboarding. The node becomes active; after a reimage, it becomes offline, and its
    health decides the next status. An adoption installs nothing and finds the target state, so it ends as
    reconciled."""
    ending = ending or (W.RECONCILED if onboarding_adopt.adopts(node) else W.COMPLETED)
    done = with_workflow(node, status=ending, failure_class=None, failure_detail=None, next_attempt_at=None)
    ended = with_fields(done, bmc=_not_kept_off(node), ever_onboarded=True)
    if node.live.mode is OnboardingMode.DEPLOY:
        ended = cleaning_conditions.installed(ended)
    ended = ended_with_the_workflow(ended)
    if node.status is N.RETIRED:
        return with_fields(ended, status=N.OFFLINE)
    return with_fields(ended, status=N.ACTIVE, ever_active=True)


def _not_kept_off(node: Node) -> Bmc:
    """Return the BMC without the target power `off`, because farrier would otherwise switch off a node in service."""
    if node.bmc.desired_power is not PowerState.OFF:
        return node.bmc
    return replace(node.bmc, desired_power=None, enforced_at=None, enforce_error=None)
