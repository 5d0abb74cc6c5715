"""Which stages of a decommission have reached their goal according to MAAS, after intent `adopt_observed_state`.

Used by the other modules of this package and by the response to `adopt_observed_state`. Only stages that act in MAAS
have a goal that MAAS shows; drain, cleaning, validation and secrets always run. A stale reading proves nothing, and
neither does a reading of a machine that another user owns. The stage then reads the machine.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node import region
from farrier.handlers.node.decommission.own import own
from farrier.handlers.node.moves import Policy
from farrier.model.maas import MaasStatus as M
from farrier.model.node import Decommission, Node
from farrier.model.observation import MaasObservation
from farrier.model.stages import PATHS
from farrier.model.stages import DecommissionStage as D

_RELEASED = (M.READY, M.NEW)
# The stages that change a machine in MAAS, with the readings that show their goal.
GOALS = {
    D.RELEASE_MAAS_NODE: "ready, new, absent",
    D.POWER_OFF_MAAS_NODE: "switched off and either ready or new; or absent",
    D.REMOVE_MAAS_RECORD: "absent",
}


def left(workflow: Decommission) -> tuple[D, ...]:
    """The stages in MAAS that the workflow has not passed, including the current stage."""
    path = PATHS[workflow.mode]
    rest = path if workflow.stage is None else path[path.index(workflow.stage) :]
    return tuple(stage for stage in GOALS if stage in rest and stage not in workflow.options.leave_out)


def shows(seen: MaasObservation, stage: D) -> bool:
    """Whether this reading shows the goal of the stage."""
    if seen.state is M.ABSENT:
        return True
    is_released = seen.state in _RELEASED
    if stage is D.POWER_OFF_MAAS_NODE:
        return is_released and seen.power_state == "off"
    return stage is D.RELEASE_MAAS_NODE and is_released


def goal_shown(node: Node, now: datetime, policy: Policy, *stages: D) -> str | None:
    """Why these stages have nothing to do: an operator adopted the observed state, and MAAS still shows their goals.
    None if the stages must run."""
    seen = node.maas
    if not own(node).upstream.adopted or seen is None or not seen.fresh(now, policy.observation_ttl):
        return None
    if region.is_foreign(seen) or not all(shows(seen, stage) for stage in stages):
        return None
    return f"MAAS reports {seen.state}, and an operator adopted this state"


def is_given_back(seen: MaasObservation | None) -> bool:
    """Whether MAAS has removed the node's system and its agent. This is unproven for a machine that is new and running,
    because MAAS may never have installed it."""
    return seen is not None and (seen.state is M.READY or (seen.state is M.NEW and seen.power_state != "on"))
