"""Displays the progress of `farrier demo`, on a terminal as a table that is redrawn, and otherwise as plain lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from farrier.cli.output.printing import COLOURS
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.stages import DecommissionStage, OnboardingStage
from farrier.model.views.fleet import NodeGlance
from farrier.model.views.history import HistoryEntry

# Widths in columns: the longest bar, and everything beside the two bars.
_BAR_WIDTH = 40
_BESIDE_BARS = 64
# The number of lines that are reserved for transitions, for any number of workflows.
_FEWEST_MOVES = 3
_REFRESH_PER_SECOND = 4


Places = Sequence[tuple[str, str]]
"""The addresses of the demo, each with its description."""


class Board:
    """The display of the demo while the demo runs."""

    def show(self, seconds: float, nodes: Sequence[NodeGlance], moves: Sequence[HistoryEntry]) -> None:
        """Show the present state of the fleet. `seconds` is the time since the start."""


class _Lines(Board):
    """Prints a line whenever a count has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    @override
    def show(self, seconds: float, nodes: Sequence[NodeGlance], moves: Sequence[HistoryEntry]) -> None:
        statuses = _counts(node.status for node in nodes)
        line = f"{statuses} · BMC: {_counts(node.management for node in nodes)}"
        stages = _stages(nodes)
        line += f" · {', '.join(f'{count} {stage}' for stage, count in stages)}" if stages else ""
        if line != self._last:
            self._console.print(f"{seconds:6.1f} s  {line}", highlight=False, soft_wrap=True)
        self._last = line


class _Redrawn(Board):
    """Redraws bars and the newest transitions in place."""

    def __init__(self, live: Live, places: Places) -> None:
        self._live = live
        self._places = places

    @override
    def show(self, seconds: float, nodes: Sequence[NodeGlance], moves: Sequence[HistoryEntry]) -> None:
        head = Table.grid(padding=(0, 2))
        for what, where in (*self._places, ("running", f"{seconds:.0f} s · Ctrl-C ends the demo")):
            head.add_row(Text(what, style="dim"), Text(where, overflow="fold"))
        console = self._live.console
        width = max(1, min(_BAR_WIDTH, (console.width - _BESIDE_BARS) // 2))
        bars = Table.grid(padding=(0, 2))
        bars.add_row(
            _bars("status", [node.status for node in nodes], NodeStatus, width),
            _bars("management", [node.management for node in nodes], Management, width),
        )
        top = Group(head, bars)
        # If a display is too long, the terminal cuts off its end, where the newest transitions are. One line is for the
        # cursor.
        left = console.height - 1 - len(console.render_lines(top))
        self._live.update(Group(top, *_news(nodes, moves, left)))


@contextmanager
def board(console: Console, places: Places) -> Iterator[Board]:
    """Return the board that fits the console."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=_REFRESH_PER_SECOND) as live:
            yield _Redrawn(live, places)
        return
    for what, where in places:
        console.print(f"{what}: {where}", highlight=False, soft_wrap=True)
    yield _Lines(console)


def _counts(values: Iterator[StrEnum]) -> str:
    return ", ".join(f"{count} {value}" for value, count in sorted(Counter(values).items())) or "nothing yet"


def _bars(title: str, values: Sequence[StrEnum], states: type[StrEnum], width: int) -> Table:
    counts = Counter(values)
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1))
    table.add_column(min_width=18)
    table.add_column(justify="right", min_width=6)
    table.add_column(min_width=width)
    for state in states:
        count = counts[state]
        if not count:
            continue
        bar = "█" * -(-count * width // len(values))
        style = COLOURS.get(state, "white")
        table.add_row(Text(state, style=style), Text(str(count), style=style), Text(bar, style=style))
    return table


def _stages(nodes: Sequence[NodeGlance]) -> list[tuple[str, int]]:
    """Return the number of workflows in each stage, in their order, and of those that wait for an operator."""
    order = [str(stage) for stage in (*OnboardingStage, *DecommissionStage)]
    counts = Counter(node.stage for node in nodes if node.stage is not None and node.workflow_status is W.RUNNING)
    waiting = Counter(node.workflow_status for node in nodes)
    ended = [(str(status), waiting[status]) for status in (W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION)]
    running = sorted(((stage, count) for stage, count in counts.items()), key=lambda one: order.index(one[0]))
    return [*running, *((status, count) for status, count in ended if count)]


def _news(nodes: Sequence[NodeGlance], moves: Sequence[HistoryEntry], lines: int) -> tuple[Table, Table]:
    """Return tables of workflows and of the newest transitions, with this number of lines in total."""
    workflows = _workflow_rows(nodes)
    room = max(lines - 2, 0)
    shown = min(len(moves), max(_FEWEST_MOVES, room - len(workflows)), room)
    return _workflows(workflows, room - shown), _newest(moves[:shown])


def _workflow_rows(nodes: Sequence[NodeGlance]) -> list[tuple[Text, Text, Text]]:
    """Return the lines of workflows, and then the lines of nodes that wait for an operator."""
    rows = []
    for stage, count in _stages(nodes):
        style = "red" if stage == W.FAILED_MANUAL_INTERVENTION else "yellow" if stage == W.FAILED_RETRYABLE else "cyan"
        rows.append((Text(stage, style=style), Text(str(count), style=style), Text("")))
    waiting = (node for node in nodes if node.workflow_status is W.FAILED_MANUAL_INTERVENTION)
    rows += ((Text(f"  {node.name}", style="red"), Text(""), Text(node.reason, style="dim")) for node in waiting)
    return rows


def _workflows(rows: Sequence[tuple[Text, Text, Text]], most: int) -> Table:
    table = Table(title="workflows", title_justify="left", box=None, show_header=False, padding=(0, 1))
    table.add_column(min_width=30)
    table.add_column(justify="right", min_width=4)
    table.add_column(no_wrap=True, overflow="ellipsis")
    fit = rows if len(rows) <= most else rows[: max(most - 1, 0)]
    for row in fit:
        table.add_row(*row)
    if len(fit) < len(rows) and most > 0:
        table.add_row(Text("more", style="dim"), Text(str(len(rows) - len(fit)), style="dim"), "")
    return table


def _newest(moves: Sequence[HistoryEntry]) -> Table:
    table = Table(title="newest moves", title_justify="left", box=None, show_header=False, padding=(0, 1))
    for least in (8, 10, 0, 0, 0):  # the time and the name are complete even on a narrow terminal
        table.add_column(no_wrap=True, overflow="ellipsis", min_width=least)
    for move in moves:
        table.add_row(
            Text(f"{move.at:%H:%M:%S}", style="dim"),
            move.name,
            move.layer,
            f"{move.source_state or '·'} → {move.target_state}",
            Text(move.cause, style="dim"),
        )
    return table
