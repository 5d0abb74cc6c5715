"""The node's `Kind` for the loop: its layers, and the refusal of moves that the model lacks."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from farrier.config import ControllerConfig
from farrier.controller.outcome_validator import OutcomeValidator
from farrier.errors import IllegalEdge
from farrier.handlers.node.kind import NODE_KIND
from farrier.model.loop.outcome import Transition
from farrier.model.loop.runs import Move, Turn
from farrier.model.node import edges, layers
from farrier.model.node.layers import Layer, Management, NodeStatus, WorkflowStatus
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import DecommissionStage
from farrier.model.node.writes import Write
from tests.support.nodes import LONG_AGO, decommission, node, onboarding

TURN = Turn(id=1)
ASSESSOR: OutcomeValidator[Node, Node, Write] = OutcomeValidator(NODE_KIND, ControllerConfig())


def standing(layer: Layer, value: str) -> Node:
    """A node whose layer has this value."""
    match layer:
        case Layer.STATUS:
            return node(NodeStatus(value))
        case Layer.MANAGEMENT:
            return node(management=Management(value))
        case Layer.ONBOARDING:
            return node(workflow=onboarding(WorkflowStatus(value)))
        case Layer.DECOMMISSION:
            return node(workflow=decommission(DecommissionStage.DRAIN_NODE, WorkflowStatus(value)))


def moves(before: Node, after: Node) -> tuple[Move, ...]:
    after = msgspec.structs.replace(after, id=before.id)
    outcome: Transition[Node, Write] = Transition(to=after, reason="r", cause="c")
    return ASSESSOR.finish(TURN, before, outcome).moves


@pytest.mark.parametrize("layer", Layer)
def test_the_loop_accepts_exactly_the_edges_of_the_model(layer: Layer) -> None:
    for source, target in permutations(layers.STATES[layer], 2):
        before, after = standing(layer, source), standing(layer, target)
        if (source, target) in edges.ALLOWED[layer]:
            assert [(m.source, m.target) for m in moves(before, after)] == [(source, target)]
        else:
            with pytest.raises(IllegalEdge):
                moves(before, after)


def test_a_move_contains_the_time_at_which_the_node_entered_the_former_state() -> None:
    (move,) = moves(node(NodeStatus.ACTIVE), node(NodeStatus.OFFLINE))
    assert move.since == LONG_AGO


def test_a_new_workflow_and_its_first_stage_have_no_source_state() -> None:
    begun = node(NodeStatus.ACTIVE, workflow=decommission(DecommissionStage.DISABLE_NODE))
    assert moves(node(NodeStatus.ACTIVE), begun) == (
        Move("decommission", None, "running", None),
        Move("decommission_stage", None, "disable_node", None),
    )


def test_stages_may_follow_in_any_order_because_operators_rerun_them() -> None:
    late = node(NodeStatus.RETIRED, workflow=decommission(DecommissionStage.CLEANUP_SECRETS))
    early = node(NodeStatus.RETIRED, workflow=decommission(DecommissionStage.DISABLE_NODE))
    assert [(m.source, m.target) for m in moves(late, early)] == [("cleanup_secrets", "disable_node")]
