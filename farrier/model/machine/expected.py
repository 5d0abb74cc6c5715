"""The expected state of a node's machine in MAAS, by the node's status and by the stage of its workflow.

`EXPECTED` has the expected state for every status; docs/state-model.md shows this table. `handlers.node.drift` takes
nodes out of service according to this table. If a node is not in service, farrier only reports the difference, in `node
why` and `node show`. `GOES_ON_AT` and `GOALS` say from which state a workflow can continue, if an operator adopts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from farrier.model.maas.reading import MaasStatus as S
from farrier.model.maas.reading import Machine
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import Mode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O
from farrier.model.node.stages import path_of
from farrier.model.views.nodes import MaasView


class ExpectedStates(msgspec.Struct, frozen=True, kw_only=True):
    """The states of the machine that fit a status; None if every state fits. If `or_off` is set, a machine that is
    switched off also fits."""

    states: frozenset[S] | None
    or_off: bool = False
    note: str

    def fits(self, state: str) -> bool:
        """Return whether the state is in `states`. An unknown state contradicts nothing."""
        return self.states is None or state in self.states or state == S.UNKNOWN

    @property
    def text(self) -> str:
        """The expected states as a text."""
        if self.states is None:
            return "any"
        names = [str(state) for state in S if state in self.states]
        return ", ".join((*names, *(["switched off"] if self.or_off else [])))


IN_SERVICE = frozenset({S.DEPLOYED})
"""States in MAAS that fit a node in service. A condition of source `region` ends only in these states."""

EXPECTED: Mapping[N, ExpectedStates] = {
    N.BOOTSTRAP_ISSUED: ExpectedStates(states=None, note="farrier requires no state"),
    N.ENROLLING: ExpectedStates(
        states=frozenset({S.NEW, S.COMMISSIONING, S.READY, S.ALLOCATED, S.DEPLOYING, S.DEPLOYED}),
        note="the current stage fails if the state differs from the state that it expects",
    ),
    N.ACTIVE: ExpectedStates(states=IN_SERVICE, note="any other state is drift: farrier quarantines the node"),
    N.OFFLINE: ExpectedStates(states=IN_SERVICE, note="any other state is drift: farrier quarantines the node"),
    N.QUARANTINED: ExpectedStates(
        states=frozenset({S.READY, S.FAILED, S.BROKEN, S.DEPLOYED, S.ABSENT}), note="farrier reports any other state"
    ),
    N.DRAINING: ExpectedStates(states=frozenset({S.DEPLOYED, S.READY}), note="farrier reports any other state"),
    N.RETIRED: ExpectedStates(
        states=frozenset({S.DEPLOYED, S.READY}),
        or_off=True,
        note="farrier reports any other state, and refuses reactivate",
    ),
    N.REMOVING: ExpectedStates(
        states=frozenset({S.READY, S.ABSENT}), or_off=True, note="farrier reports any other state"
    ),
    N.DELETED: ExpectedStates(
        states=None, note="the machine is absent, unless the site's file keeps the machine's record"
    ),
}

DRIFTING = frozenset({N.ACTIVE, N.OFFLINE})
"""Statuses in which a confirmed difference from MAAS is drift, and quarantines the node."""

REPORTED = frozenset({N.QUARANTINED, N.DRAINING, N.RETIRED, N.REMOVING})
"""Statuses in which farrier reports a difference from MAAS, but does not move the node."""

LONGEST_OWNER = 64
LONGEST_NAME = 64


class Contradiction(msgspec.Struct, frozen=True):
    """A state in MAAS that takes nodes with these statuses out of service. If `lasts` is set, a condition of source
    `region` does not end while the machine is in this state."""

    state: S
    statuses: frozenset[N]
    lasts: bool


def contradictions() -> Iterator[Contradiction]:
    """Yield every state in MAAS that the machine of a node in service must not have, or in which a condition of source
    `region` cannot end."""
    for state in S:
        statuses = frozenset(status for status in DRIFTING if not EXPECTED[status].fits(state))
        lasts = state not in IN_SERVICE
        if statuses or lasts:
            yield Contradiction(state, statuses, lasts)


def not_known(seen: Machine | MaasObservation | MaasView) -> str | None:
    """Return what an operator needs to know about a status that this release of farrier does not know, or None."""
    if seen.state != S.UNKNOWN:
        return None
    name = f" ({seen.status_name[:LONGEST_NAME]})" if seen.status_name else ""
    return f"MAAS reports machine {seen.system_id} in a status that this release of farrier does not know{name}"


BY_RESCUE = (
    ": this user entered rescue mode, so MAAS made this user the owner, and does not restore the former owner; "
    "enter and leave rescue mode with farrier's key"
)
"""The end of a message that names another user as the owner of a machine, if that user became the owner because of
rescue mode."""


def disagreement(status: N, seen: MaasObservation | MaasView, *, foreign: bool) -> str | None:
    """Return the difference between MAAS and the node's status; None if they agree. If `foreign` is set, another user
    owns the machine."""
    if foreign:
        owner = (seen.owner or "")[:LONGEST_OWNER]
        explained = BY_RESCUE if seen.owner_by_rescue else ""
        return f"MAAS reports machine {seen.system_id} as owned by {owner!r}, not by farrier{explained}"
    expected = EXPECTED[status]
    if expected.fits(seen.state):
        return None
    if seen.state == S.ABSENT:
        return f"machine {seen.system_id} no longer exists in MAAS"
    if expected.or_off and seen.power_state == "off":
        return None
    said = f"{seen.state}" + (f" ({seen.status_name})" if seen.status_name else "")
    return f"MAAS reports machine {seen.system_id} as {said}"


GOES_ON_AT = {
    S.COMMISSIONING: O.WAIT_FOR_READY,
    S.READY: O.CONFIGURE_STORAGE,
    S.DEPLOYING: O.WAIT_FOR_DEPLOYED,
    S.DEPLOYED: O.WAIT_FOR_AGENT_ENROLLMENT,
}
"""The stage at which a deployment continues, if an operator adopts this state of its machine."""

GOALS = {
    D.RELEASE_MAAS_NODE: "ready, new, absent",
    D.POWER_OFF_MAAS_NODE: "switched off and either ready or new; or absent",
    D.REMOVE_MAAS_RECORD: "absent",
}
"""The stages of a decommission that change a machine in MAAS, with the readings that show that a stage has reached its
goal."""

_RELEASED = (S.READY, S.NEW)


def goals_left(
    mode: Mode, stage: str | None, leave_out: Collection[str], cleaned_by: str | None = None
) -> tuple[D, ...]:
    """Return the stages in MAAS that a decommission still has to complete, including the current stage."""
    path = path_of(mode, cleaned_by)
    rest = path[path.index(stage) :] if stage in path else path
    return tuple(goal for goal in GOALS if goal in rest and goal not in leave_out)


def shows_goal(state: str, power: str | None, stage: D) -> bool:
    """Return whether a reading with this state and power shows that the stage has reached its goal."""
    if state == S.ABSENT:
        return True
    is_released = state in _RELEASED
    if stage is D.POWER_OFF_MAAS_NODE:
        return is_released and power == "off"
    return stage is D.RELEASE_MAAS_NODE and is_released
