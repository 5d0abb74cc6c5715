"""The demo's output on a terminal and elsewhere."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime

import msgspec
from rich.console import Console

from farrier.cli.service.board import board
from farrier.model.node.layers import Management, NodeStatus, WorkflowStatus
from farrier.model.node.stages import DecommissionStage, OnboardingStage
from farrier.model.views.fleet import NodeGlance
from farrier.model.views.history import HistoryEntry

PLACES = (("nodes", "http://127.0.0.1:1/"), ("database", "psql 'postgresql:///farrier'"))
NODES = (
    NodeGlance(1, "gpu-1", NodeStatus.ACTIVE, Management.MANAGEABLE, ""),
    NodeGlance(2, "gpu-2", NodeStatus.ENROLLING, Management.UNMANAGED, ""),
)
MOVES = (
    HistoryEntry(
        kind="node",
        id=1,
        version=1,
        layer="status",
        name="gpu-1",
        source_state=None,
        target_state="active",
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        seconds_in_source=None,
        cause="agent: [healthy]",
        requested_by=None,
        reason="",
        source="",
        controller="",
    ),
)


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, height=40)
    with board(console, PLACES) as there:
        there.show(1, NODES, MOVES)
        there.show(2, NODES, MOVES)
    return plain(out.getvalue())


def plain(drawn: str) -> str:
    """The text that is drawn, without escape sequences for cursor and colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


def test_without_a_terminal_a_line_is_printed_only_when_a_count_has_changed() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines == [
        "nodes: http://127.0.0.1:1/",
        "database: psql 'postgresql:///farrier'",
        "   1.0 s  1 active, 1 enrolling · BMC: 1 manageable, 1 unmanaged",
    ]


def test_a_terminal_shows_the_states_of_nodes_the_newest_transitions_and_the_addresses() -> None:
    text = shown(terminal=True)
    there = (*(node.status for node in NODES), *(node.management for node in NODES))
    for said in ("http://127.0.0.1:1/", *there, "03:04:05", "· → active", "[healthy]", "█"):
        assert said in text
    for state in (*NodeStatus, *Management):
        assert (f" {state} " in text) == (state in there)


def test_a_small_terminal_shows_workflows_and_the_newest_transitions_of_a_busy_fleet() -> None:
    """In 80 columns and 24 lines, with nodes in each state and more of them at each stage than fit."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    statuses, managements, stages = list(NodeStatus), list(Management), [*OnboardingStage, *DecommissionStage]
    nodes = [
        NodeGlance(
            number,
            f"gpu-{number:04}",
            statuses[number % len(statuses)],
            managements[number % len(managements)],
            "a reason that is longer than any line of this terminal, " * 3,
            workflow_status=WorkflowStatus.FAILED_MANUAL_INTERVENTION if number % 7 == 0 else WorkflowStatus.RUNNING,
            stage=stages[number % len(stages)],
        )
        for number in range(100)
    ]
    moves = [
        msgspec.structs.replace(
            MOVES[0], name=f"moved-{number}", layer="onboarding_stage", target_state="wait_for_hardware_sync_healthy"
        )
        for number in range(12)
    ]
    with board(console, PLACES) as there:
        there.show(1, nodes, moves)
    drawn = plain(out.getvalue())
    assert "workflows" in drawn and stages[0] in drawn and "moved-0" in drawn and "moved-2" in drawn
    assert "more" in drawn
    assert not [line for line in drawn.splitlines() if line.strip() == "..."]
