"""The generated tables and diagrams show the whole model, and every part once."""

from __future__ import annotations

import re

import pytest

from farrier.model.intents import actions
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node import conditions, edges, failures, layers, sla
from farrier.model.node.layers import Layer
from tools import model_reference

ARROW = re.compile(r"^    (\S+) --> (\S+)(?: : [^:;#`]+)?$")
every_kind = pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)


@pytest.mark.parametrize("layer", Layer)
def test_a_diagram_shows_each_edge_once_with_beginnings_and_ends(layer: Layer) -> None:
    head, *lines = model_reference.mermaid(layer).splitlines()
    assert head == "stateDiagram-v2"
    arrows = [match.groups() for line in lines if (match := ARROW.match(line))]
    assert len(arrows) == len(lines) == len(set(arrows))
    begin = {("[*]", state) for state in edges.INITIAL[layer]}
    end = {(state, "[*]") for state in edges.TERMINAL[layer]}
    assert set(arrows) == edges.ALLOWED[layer] | begin | end


def test_both_workflows_have_the_same_edges_and_the_same_diagram() -> None:
    assert edges.ALLOWED[Layer.ONBOARDING] == edges.ALLOWED[Layer.DECOMMISSION]
    assert model_reference.mermaid(Layer.ONBOARDING) == model_reference.mermaid(Layer.DECOMMISSION)


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in model_reference.sections()[section].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize(
    ("section", "layer"),
    [
        ("Status", Layer.STATUS),
        ("Management", Layer.MANAGEMENT),
        ("Workflow, onboarding and decommission alike", Layer.ONBOARDING),
    ],
)
def test_a_layer_s_table_lists_each_edge_once(section: str, layer: Layer) -> None:
    listed = [(source, target) for source, target, _, _ in rows(section)]
    assert len(listed) == len(set(listed))
    assert set(listed) == edges.ALLOWED[layer]


@pytest.mark.parametrize(
    ("section", "count"),
    [
        ("Onboarding stages", 16),
        ("Decommission stages", 13),
        ("Node status by workflow", 17),
        ("Limits", sum(len(states) for states in layers.STATES.values()) + len(sla.END_TO_END)),
        ("Limits of stages", 29),
        ("Intents", len(actions.Action)),
        ("Failure classes", len(failures.FailureClass)),
        ("Conditions by status", len(layers.STATES[Layer.STATUS])),
        ("Default effects", len(conditions.DEFAULT_EFFECTS)),
        ("Conditions", len(conditions.KNOWN)),
        ("BMC failures", len(BmcFailure)),
    ],
)
def test_a_table_has_a_row_for_each_entry_of_the_model_with_equally_many_cells(section: str, count: int) -> None:
    table = rows(section)
    assert len(table) == count
    assert len({len(row) for row in table}) == 1


def test_stage_marks_are_those_of_the_model() -> None:
    assert rows("Onboarding stages")[11] == ["classify_deploy_failure", "on failure", "", ""]
    assert rows("Decommission stages")[12] == ["remove_maas_record", "", "", "x", "by policy"]


@every_kind
def test_a_diagram_shows_each_edge_once_with_beginning_and_end(spec: KindSpec) -> None:
    head, *lines = model_reference.picture(spec.every_layer[0]).splitlines()
    named = dict(line.split(" : ") for line in lines if "-->" not in line)
    names = {key.strip(): state for key, state in named.items()}
    arrows = [match.groups() for line in lines if (match := ARROW.match(line))]
    shown = {(names.get(source, source), names.get(target, target)) for source, target in arrows}
    assert head == "stateDiagram-v2"
    assert len(arrows) + len(named) == len(lines)
    assert shown == spec.pairs | {("[*]", spec.initial)} | {(state, "[*]") for state in spec.terminal}


@every_kind
def test_tables_name_every_state_and_every_action_with_the_states_that_accept_it(spec: KindSpec) -> None:
    text = model_reference.of_kind(spec)
    assert not [state for state in spec.states if f"| `{state}` |" not in text]
    rows = {row.split(" | ")[0].strip("| "): row.split(" | ")[2] for row in text.splitlines() if row.count(" | ") == 3}
    assert rows == {"action": "accepted in", "---": "---"} | {
        action: ", ".join(f"`{state}`" for state in spec.states_accepting(action)) for action in spec.requests
    }
