"""The generated diagram of a kind shows every part once, in syntax that Mermaid accepts."""

from __future__ import annotations

import re

import pytest

from farrier.model.kinds import diagram
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec

ARROW = re.compile(r"^    (\S+) --> (\S+)(?: : [^:;#`]+)?$")

every_kind = pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)


@every_kind
def test_a_diagram_shows_each_edge_once_with_beginning_and_end(spec: KindSpec) -> None:
    head, *lines = diagram.picture(spec.every_layer[0]).splitlines()
    named = dict(line.split(" : ") for line in lines if "-->" not in line)
    names = {key.strip(): state for key, state in named.items()}
    arrows = [match.groups() for line in lines if (match := ARROW.match(line))]
    shown = {(names.get(source, source), names.get(target, target)) for source, target in arrows}
    assert head == "stateDiagram-v2"
    assert len(arrows) + len(named) == len(lines)
    assert shown == spec.pairs | {("[*]", spec.initial)} | {(state, "[*]") for state in spec.terminal}


@every_kind
def test_tables_name_every_state_and_every_action_with_the_states_that_accept_it(spec: KindSpec) -> None:
    text = diagram.markdown(spec)
    assert not [state for state in spec.states if f"| `{state}` |" not in text]
    rows = {row.split(" | ")[0].strip("| "): row.split(" | ")[2] for row in text.splitlines() if row.count(" | ") == 3}
    assert rows == {"action": "accepted in", "---": "---"} | {
        action: ", ".join(f"`{state}`" for state in spec.states_accepting(action)) for action in spec.requests
    }
