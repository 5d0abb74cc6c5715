"""From which state of its machine in MAAS a workflow can continue, if an operator adopts this state.

The response to `adopt_observed_state`, the stages of a decommission and the advice use these tables. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from farrier.model.maas.reading import MaasStatus as M
from farrier.model.node.layers import Mode
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.stages import path_of

GOES_ON_AT = {
    M.COMMISSIONING: O.WAIT_FOR_READY,
    M.READY: O.CONFIGURE_STORAGE,
    M.DEPLOYING: O.WAIT_FOR_DEPLOYED,
    M.DEPLOYED: O.WAIT_FOR_AGENT_ENROLLMENT,
}
"""The stage at which a deployment continues."""

GOALS = {
    D.RELEASE_MAAS_NODE: "ready, new, absent",
    D.POWER_OFF_MAAS_NODE: "switched off and either ready or new; or absent",
    D.REMOVE_MAAS_RECORD: "absent",
}
"""The stages of a decommission that change a machine in MAAS, with the readings that show that a stage has reached its
goal."""

_RELEASED = (M.READY, M.NEW)


def goals_left(
    mode: Mode, stage: str | None, leave_out: Collection[str], cleaned_by: str | None = None
) -> tuple[D, ...]:
    """Return the stages in MAAS that a decommission still has to complete, including the current stage."""
    path = path_of(mode, cleaned_by)
    rest = path[path.index(stage) :] if stage in path else path
    return tuple(goal for goal in GOALS if goal in rest and goal not in leave_out)


def shows_goal(state: str, power: str | None, stage: D) -> bool:
    """Return whether a reading with this state and power shows that the stage has reached its goal."""
    if state == M.ABSENT:
        return True
    is_released = state in _RELEASED
    if stage is D.POWER_OFF_MAAS_NODE:
        return is_released and power == "off"
    return stage is D.RELEASE_MAAS_NODE and is_released
