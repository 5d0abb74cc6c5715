"""All states that a retired node can reach on a site that requires evidence of cleaning: nothing returns it without.

Where the region cleans, a walk follows what is on the machine's disks: data of its users, nothing, or nothing that a
test has found. The node returns only in the last case, and from each of its states some intents lead there.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.config.sites import CleaningSite, ReleaseSite
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.node.evidence import Require
from farrier.model.node.layers import CleaningBy
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import TaskStatus
from tests.support import exploration, walks_in_maas
from tests.support.exploration import (
    STIMULI,
    WALKED,
    Place,
    Stimulus,
    asks,
    beats,
    ends,
    explore,
    kind_of,
    reach,
    waits,
)
from tests.support.nodes import MINUTE, NOW, agent, node
from tests.support.played_region import Disks
from tests.unit.handlers.test_exploration_of_families import (
    OF_THE_REGION,
    an_hour_passes,
    enrols_well,
    is_ending,
    on_its_system,
    starts,
)

# Everything with which an operator, an agent or the time could bring the node back. Tasks succeed without evidence.
NAMES = (
    *("reactivate", "decommission", "onboard", "adopt", "cancel", "retry_stage", "release", "drain", "quarantine"),
    *("mark_manual", "enrols", "is well", "is unwell", "tasks succeed", "tasks fail", "an hour"),
)
HAPPENS: dict[str, Stimulus] = {
    **{name: each for name, each in STIMULI.items() if name.startswith(NAMES)},
    "storage_cleanup": asks(Action.DECOMMISSION, {"mode": "storage_cleanup"}),
    "forced": asks(Action.DECOMMISSION, {"mode": "storage_cleanup", "force": True, "reason": "dead"}),
}


def walked(monkeypatch: pytest.MonkeyPatch, require: Require, happens: dict[str, Stimulus]) -> list[Place]:
    """One place of each kind that a retired node reaches on a site that requires this."""
    site = replace(WALKED, cleaning=replace(WALKED.cleaning, by=CleaningBy.AGENT, require=require))
    monkeypatch.setattr(exploration, "HANDLER", NodeHandler(NodeConfig(), sites={site.name: site}))
    places: list[Place] = []
    explore([Place(node(N.RETIRED, site=site.name, agent=agent(heard=NOW)), NOW)], happens, found_in=places)
    return places


@pytest.mark.timeout(600)  # takes some 20 s of a processor, which other tests may use, too
@pytest.mark.parametrize("require", [Require.EVIDENCE, Require.OUTSIDE])
def test_without_evidence_nothing_returns_a_retired_node(monkeypatch: pytest.MonkeyPatch, require: Require) -> None:
    places = walked(monkeypatch, require, HAPPENS)

    assert len(places) > 100, "the walk has not gone far"
    assert not [each.node for each in places if each.node.status is N.ACTIVE]


def test_where_no_evidence_is_required_a_retired_node_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    places = walked(monkeypatch, Require.NONE, {"reactivate": STIMULI["reactivate"]})

    assert any(each.node.status is N.ACTIVE for each in places)


MODES = ("reimage", "full_decommission")
ASKED = (Action.REACTIVATE, Action.CANCEL, Action.RETRY_STAGE, Action.DELETE, Action.REMOVE)
IN_MAAS: dict[str, Stimulus] = {
    **{mode: asks(Action.DECOMMISSION, {"mode": mode}) for mode in MODES},
    **{str(action): asks(action, {}) for action in ASKED},
    "onboard": asks(Action.ONBOARD, {"mode": "deploy"}),
    **{
        f"release {key}": asks(Action.RELEASE, {"key": key, "reason": "cleaned by hand"})
        for key in ("cleaning/not_scrubbed", "cleaning/validation_failed", *OF_THE_REGION)
    },
    "enrols": on_its_system(enrols_well),
    "is well": on_its_system(beats()),
    "tasks succeed": ends(TaskStatus.SUCCEEDED),
    "a minute passes": waits(MINUTE),
    "an hour passes": an_hour_passes,
    **walks_in_maas.PROGRESS,
}
MISHAPS: dict[str, Stimulus] = {"is not erased": walks_in_maas.is_not_erased}


@pytest.mark.timeout(900)  # takes some 60 s of a processor, which other tests may use, too
def test_a_node_returns_only_on_disks_that_the_region_has_erased_and_found_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = replace(WALKED, cleaning=CleaningSite(require=Require.OUTSIDE), release=ReleaseSite())
    monkeypatch.setattr(exploration, "HANDLER", NodeHandler(NodeConfig(), sites={site.name: site}))
    (_, served) = starts("agent", in_maas=True)
    assert served.machine is not None
    served = replace(served, machine=replace(served.machine, disks=Disks.CHECKED))
    places: list[Place] = []
    found = explore([served], IN_MAAS, mishaps=MISHAPS, found_in=places)
    disks = {each.machine.disks for each in places if each.node.status is N.ACTIVE and each.machine is not None}
    assert disks == {Disks.CHECKED}
    retired = {each.machine.disks for each in places if each.node.status is N.RETIRED and each.machine is not None}
    assert retired == set(Disks), "the walk has gone through the cleaning"
    by_kind = {kind_of(each): each for each in places}
    for goal in (N.ACTIVE, N.DELETED):
        back = reach(found, {kind for kind, each in by_kind.items() if each.node.status is goal})
        dead = [each for kind, each in by_kind.items() if kind not in back]
        dead = [each for each in dead if goal is N.DELETED or not is_ending(each)]
        assert not dead, f"no way leads to {goal} from {len(dead)} of {len(places)} places, such as {dead[0]}"
