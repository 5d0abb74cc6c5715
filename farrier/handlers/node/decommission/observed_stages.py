"""Decides which stages of a decommission have reached their goal according to MAAS, after intent
`adopt_observed_state`.

The other modules of this package and the response to `adopt_observed_state` use this module. Only stages that act in
MAAS have a goal that MAAS shows; drain, cleaning, validation and secrets always run. A reading proves nothing if it is
stale or another user owns the machine. In this case, the stage itself reads the machine.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Done, Policy, own
from farrier.handlers.node.maas import region
from farrier.model.maas.reading import MaasStatus as M
from farrier.model.machine.expected import goals_left, shows_goal
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.snapshot import Decommission, Node
from farrier.model.node.stages import DecommissionStage as D


def left(workflow: Decommission) -> tuple[D, ...]:
    """Return the stages in MAAS that the workflow still has to complete, including the current stage."""
    options = workflow.options
    return goals_left(workflow.mode, workflow.stage, options.leave_out, options.cleaned_by)


def goal_shown(node: Node, now: datetime, policy: Policy, *stages: D) -> Done | None:
    """Return a finished stage if these stages have nothing to do; None if they must run. The stages have nothing to do
    if an operator adopted the observed state, and MAAS still shows the goal of each stage."""
    seen = node.maas
    if not own(node).memo.adopted or seen is None or not seen.fresh(now, policy.observation_ttl):
        return None
    if region.is_foreign(seen) or not all(shows_goal(seen.state, seen.power_state, stage) for stage in stages):
        return None
    why = f"MAAS reports {seen.state}, and an operator adopted this state"
    return Done(reason=why, skipped=why)


def is_given_back(seen: MaasObservation | None) -> bool:
    """Return whether MAAS has removed the node's system and its agent. If the machine is new and running, this is
    unproven, because MAAS may never have installed the machine."""
    return seen is not None and (seen.state is M.READY or (seen.state is M.NEW and seen.power_state != "on"))
