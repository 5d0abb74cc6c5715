"""All states that a retired node can reach on a site that requires evidence of cleaning: nothing returns it without."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farrier.config import NodeConfig
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.node.evidence import Require
from farrier.model.node.status import NodeStatus as N
from farrier.model.node.workflow import CleaningBy
from tests.support import exploration
from tests.support.exploration import STIMULI, WALKED, Place, Stimulus, asks, explore
from tests.support.nodes import NOW, agent, node

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
