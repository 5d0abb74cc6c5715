"""The graph of every layer: exactly the model's moves, nothing stuck; and the statuses that fit each other."""

from __future__ import annotations

import pytest

from farrier.model.node import edges, layers
from farrier.model.node.layers import Layer, NodeStatus

# States in which a node may stay for ever.
RESTING = {Layer.STATUS: {"active", "retired"}, Layer.MANAGEMENT: {"unmanaged", "manageable"}}
STATUS = """
bootstrap_issued enrolling
enrolling active
enrolling quarantined
active offline
offline active
active quarantined
offline quarantined
quarantined active
quarantined draining
active draining
offline draining
draining retired
draining offline
retired offline
retired removing
removing retired
removing deleted
"""
MANAGEMENT = """
unmanaged enroll
enroll verifying
verifying manageable
verifying enroll
manageable verifying
manageable adopting
adopt_failed adopting
adopting manageable
adopting adopt_failed
adopt_failed verifying
enroll error
verifying error
manageable error
adopting error
adopt_failed error
error enroll
"""
WORKFLOW = """
pending running
pending cancelled
running cancelled
failed_retryable cancelled
failed_manual_intervention cancelled
running completed
running failed_retryable
failed_retryable running
running failed_manual_intervention
failed_retryable failed_manual_intervention
failed_manual_intervention running
running compensating
failed_retryable compensating
failed_manual_intervention compensating
compensating cancelled
compensating pending
compensating failed_manual_intervention
running reconciled
failed_retryable reconciled
failed_manual_intervention reconciled
"""
# A deliberate copy: a change of the table has to be made twice.
SPELLED = {
    Layer.STATUS: STATUS,
    Layer.MANAGEMENT: MANAGEMENT,
    Layer.ONBOARDING: WORKFLOW,
    Layer.DECOMMISSION: WORKFLOW,
}
# The table of the model's page; all other pairs must be refused.
FITTING = {
    "onboarding": {
        "pending running failed_retryable compensating failed_manual_intervention cancelled": (
            "enrolling quarantined retired"
        ),
        "completed reconciled": "active offline",
    },
    "decommission": {
        "pending running compensating": "active offline quarantined draining retired removing",
        "failed_retryable": "active offline quarantined draining retired",
        "failed_manual_intervention": "retired quarantined",
        "completed reconciled": "deleted retired offline",
        "cancelled": "active offline quarantined retired",
    },
}


def spelled(layer: Layer) -> set[tuple[str, str]]:
    pairs = (line.split() for line in SPELLED[layer].strip().splitlines())
    return {(source, target) for source, target in pairs}


def reachable(layer: Layer, starts: set[str]) -> set[str]:
    seen: set[str] = set()
    queue = set(starts)
    while queue:
        seen |= queue
        queue = {target for source, target in edges.ALLOWED[layer] if source in seen} - seen
    return seen


@pytest.mark.parametrize("layer", Layer)
def test_a_layer_has_exactly_the_edges_of_the_model(layer: Layer) -> None:
    assert edges.ALLOWED[layer] == spelled(layer)


@pytest.mark.parametrize("layer", Layer)
def test_no_edge_is_listed_twice_and_each_has_an_owner_and_a_trigger(layer: Layer) -> None:
    rows = edges.EDGES[layer]
    assert len(rows) == len(edges.ALLOWED[layer])
    assert all(edge.trigger and edge.owner for edge in rows)


@pytest.mark.parametrize("layer", Layer)
def test_every_state_leads_to_a_terminal_or_a_resting_state(layer: Layer) -> None:
    goals = edges.TERMINAL[layer] | RESTING.get(layer, set())
    for state in layers.STATES[layer]:
        assert goals & reachable(layer, {state}), f"{layer}: {state} leads nowhere"


@pytest.mark.parametrize("layer", Layer)
def test_terminal_states_have_no_exit_and_all_others_have_one(layer: Layer) -> None:
    with_exit = {source for source, _ in edges.ALLOWED[layer]}
    assert set(layers.STATES[layer]) - with_exit == edges.TERMINAL[layer]


def test_the_layers_have_the_metric_kinds_of_the_contract() -> None:
    kinds = ["node", "management", "onboarding", "decommission"]
    assert [layers.LAYER_KIND[layer] for layer in Layer] == kinds


def test_a_node_has_exactly_the_statuses_that_fit_its_workflow() -> None:
    expected = {
        (kind, status): set(nodes.split())
        for kind, rows in FITTING.items()
        for statuses, nodes in rows.items()
        for status in statuses.split()
    }
    assert expected == edges.FITTING


def test_only_draining_and_removing_need_a_live_workflow() -> None:
    assert set(NodeStatus) - edges.WITHOUT_WORKFLOW == {NodeStatus.DRAINING, NodeStatus.REMOVING}
