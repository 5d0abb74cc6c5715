"""How the demo looks on a terminal and off it."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console

from farrier.cli.board import Place, board
from farrier.model.fleet import NodeGlance, PastMove
from farrier.model.management import Management
from farrier.model.status import NodeStatus

PLACE = Place((("nodes", "http://127.0.0.1:1/"), ("database", "psql 'postgresql:///farrier'")))
NODES = (
    NodeGlance(1, "gpu-1", NodeStatus.ACTIVE, Management.MANAGEABLE, ""),
    NodeGlance(2, "gpu-2", NodeStatus.ENROLLING, Management.UNMANAGED, ""),
)
MOVES = (PastMove(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "gpu-1", "status", None, "active", "agent: [healthy]"),)


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120)
    with board(console, PLACE) as there:
        there.show(1, NODES, MOVES)
        there.show(2, NODES, MOVES)
    return out.getvalue()


def test_lines_come_where_nobody_watches_and_only_when_a_count_has_changed() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines == [
        "nodes: http://127.0.0.1:1/",
        "database: psql 'postgresql:///farrier'",
        "   1.0 s  1 active, 1 enrolling · BMC: 1 manageable, 1 unmanaged",
    ]


def test_a_terminal_gets_every_state_the_newest_moves_and_where_to_look() -> None:
    text = shown(terminal=True)
    for said in ("http://127.0.0.1:1/", *NodeStatus, *Management, "03:04:05", "· → active", "[healthy]", "█"):
        assert said in text
