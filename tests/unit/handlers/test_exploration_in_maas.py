"""All states that a node in MAAS can reach on its way out of service: the changes sent in them, and the ends.

The fake region fails the test if a change is sent to a machine of another user, or if a machine that is in use is
deleted or switched off. Machines may change at any time, by themselves or by an administrator of MAAS.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node, Onboarding, TaskStatus
from tests.support import walks_in_maas
from tests.support.exploration import HOUR, Place, Stimulus, asks, ends, explore, reach, waits
from tests.support.nodes import NOW, agent, node, onboarding
from tests.support.played_region import DEPLOYED, SYSTEM_ID, Shown
from tests.support.stages import SITE

MODES = ("reimage", "full_decommission", "storage_cleanup")
OPERATORS = (Action.CANCEL, Action.RETRY_STAGE, Action.RESTART_CLEAN, Action.REACTIVATE)
STIMULI: dict[str, Stimulus] = {
    **{mode: asks(Action.DECOMMISSION, {"mode": mode}) for mode in MODES},
    "remove": asks(Action.REMOVE, {}),
    "remove with its record": asks(Action.REMOVE, {"remove_maas": True}),
    **{str(action): asks(action, {}) for action in OPERATORS},
    "tasks succeed": ends(TaskStatus.SUCCEEDED),
    "an hour passes": waits(HOUR),
    **walks_in_maas.PROGRESS,
    **walks_in_maas.OFTEN,
    **walks_in_maas.SELDOM,
}
# Without these stimuli the walk finds half of the places.
SELDOM = ("restart_clean", "reactivate", *walks_in_maas.SELDOM)
# The stimuli for a node that is deleted; other removals may leave the machine in MAAS.
OF_A_DELETION = {name: s for name, s in STIMULI.items() if name not in (*MODES, "remove", "remove with its record")} | {
    "delete": asks(Action.DELETE, {}),
    "pause": asks(Action.PAUSE, {"reason": "fire drill"}),
    "region is silent": walks_in_maas.region_answers(False),
    "region answers": walks_in_maas.region_answers(True),
}


UNSPOILT = Shown(status=S.READY, power="off")


def in_service() -> Place:
    active = node(N.ACTIVE, site=SITE.name, maas_id=SYSTEM_ID, agent=agent())
    return Place(active, NOW, machine=replace(DEPLOYED, locked=True))


def never_was(**fields: object) -> Place:
    idle = onboarding(W.PENDING, mode=None, stage=None, mode_given_at=None)
    fresh: Node = node(N.ENROLLING, site=SITE.name, maas_id=SYSTEM_ID, workflow=idle, **fields)
    return Place(fresh, NOW, machine=UNSPOILT)


def find(start: Place, stimuli: dict[str, Stimulus]) -> tuple[dict[object, set[object]], list[Place]]:
    """The places with the places that each leads to, and one place of each kind."""
    places: list[Place] = []
    return explore([start], stimuli, found_in=places), places


@pytest.mark.parametrize("seldom", [SELDOM, pytest.param((), marks=pytest.mark.full)], ids=["often", "all"])
def test_a_node_can_be_deleted_from_every_state_that_a_decommission_reaches(seldom: tuple[str, ...]) -> None:
    found, places = find(in_service(), {name: s for name, s in STIMULI.items() if name not in seldom})
    assert len(found) > 1000, "the walk has not gone far"
    gone = {key for key in found if f"'{N.DELETED}'" in repr(key)}
    assert gone and reach(found, gone) == found.keys()
    ways = {(place.node.status, place.machine is None) for place in places}
    assert {(N.DELETED, True), (N.DELETED, False)} <= ways, "deleted with and without the machine in MAAS"
    assert any(place.node.maas_id is None for place in places), "a storage cleanup removes the record"
    anew = [place.node for place in places if isinstance(place.node.workflow, Onboarding)]
    assert {it.workflow.mode for it in anew if it.workflow} == {OnboardingMode.DEPLOY}, "a reimage installs anew"
    released = [p.node for p in places if p.node.workflow is not None and p.node.workflow.memo.released]
    assert released and not any(it.agent for it in (*released, *anew)), "a released machine has no agent"


def test_a_deletion_removes_a_machine_that_farrier_made_and_no_other_machine() -> None:
    """Tested also with outages of the region and with pauses of the node."""
    for made_here in (True, False):
        found, places = find(never_was(maas_created=made_here), OF_A_DELETION)
        assert len(found) > 20
        kept = {place.machine == UNSPOILT for place in places if place.node.status is N.DELETED}
        assert kept == ({False} if made_here else {True, False}), "another user may take or delete the machine, too"
