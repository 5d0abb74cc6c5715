"""How `farrier demo` shows its fleet: a board that redraws itself on a terminal, plain lines anywhere
else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from farrier.model.fleet import NodeGlance, PastMove
from farrier.model.management import Management
from farrier.model.stages import DecommissionStage, OnboardingStage
from farrier.model.status import NodeStatus
from farrier.model.workflow import WorkflowStatus as W

_BAR_WIDTH = 40
_REFRESH_PER_SECOND = 4

_COLOURS: dict[StrEnum, str] = {
    NodeStatus.BOOTSTRAP_ISSUED: "blue",
    NodeStatus.ENROLLING: "cyan",
    NodeStatus.ACTIVE: "green",
    NodeStatus.OFFLINE: "yellow",
    NodeStatus.QUARANTINED: "red",
    NodeStatus.DRAINING: "magenta",
    Management.ENROLL: "blue",
    Management.VERIFYING: "cyan",
    Management.MANAGEABLE: "green",
    Management.ADOPT_FAILED: "red",
    Management.ERROR: "red",
}


class Place(msgspec.Struct, frozen=True):
    """Where the demo can be looked at, as pairs of what and where."""

    rows: tuple[tuple[str, str], ...]


class Board:
    """What the demo says while it runs."""

    def show(self, seconds: float, nodes: Sequence[NodeGlance], moves: Sequence[PastMove]) -> None:
        """The fleet as it is now, `seconds` after the start."""


class _Lines(Board):
    """One line whenever a count has changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    @override
    def show(self, seconds: float, nodes: Sequence[NodeGlance], moves: Sequence[PastMove]) -> None:
        statuses = _counts(node.status for node in nodes)
        line = f"{statuses} · BMC: {_counts(node.management for node in nodes)}"
        stages = _stages(nodes)
        line += f" · {', '.join(f'{count} {stage}' for stage, count in stages)}" if stages else ""
        if line != self._last:
            self._console.print(f"{seconds:6.1f} s  {line}", highlight=False, soft_wrap=True)
        self._last = line


class _Redrawn(Board):
    """Bars and the newest moves, in place."""

    def __init__(self, live: Live, place: Place) -> None:
        self._live = live
        self._place = place

    @override
    def show(self, seconds: float, nodes: Sequence[NodeGlance], moves: Sequence[PastMove]) -> None:
        head = Table.grid(padding=(0, 2))
        for what, where in (*self._place.rows, ("running", f"{seconds:.0f} s · Ctrl-C stops it")):
            head.add_row(Text(what, style="dim"), Text(where, overflow="fold"))
        self._live.update(
            Group(
                head,
                _bars("status", [node.status for node in nodes], NodeStatus),
                _bars("management", [node.management for node in nodes], Management),
                _workflows(nodes),
                _newest(moves),
            )
        )


@contextmanager
def board(console: Console, place: Place) -> Iterator[Board]:
    """The board that fits the console."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=_REFRESH_PER_SECOND) as live:
            yield _Redrawn(live, place)
        return
    for what, where in place.rows:
        console.print(f"{what}: {where}", highlight=False, soft_wrap=True)
    yield _Lines(console)


def _counts(values: Iterator[StrEnum]) -> str:
    return ", ".join(f"{count} {value}" for value, count in sorted(Counter(values).items())) or "nothing yet"


def _bars(title: str, values: Sequence[StrEnum], states: type[StrEnum]) -> Table:
    counts = Counter(values)
    table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 1))
    table.add_column(min_width=18)
    table.add_column(justify="right", min_width=6)
    table.add_column(min_width=_BAR_WIDTH)
    for state in states:
        count = counts[state]
        bar = "█" * -(-count * _BAR_WIDTH // max(len(values), 1))
        style = _COLOURS.get(state, "white") if count else "dim"
        table.add_row(Text(state, style=style), Text(str(count), style=style), Text(bar, style=style))
    return table


def _stages(nodes: Sequence[NodeGlance]) -> list[tuple[str, int]]:
    """How many workflows run at each stage, in the order of the stages; and how many wait for a person."""
    order = [str(stage) for stage in (*OnboardingStage, *DecommissionStage)]
    counts = Counter(node.stage for node in nodes if node.stage is not None and node.workflow_status is W.RUNNING)
    waiting = Counter(node.workflow_status for node in nodes)
    ended = [(str(status), waiting[status]) for status in (W.FAILED_RETRYABLE, W.FAILED_MANUAL_INTERVENTION)]
    running = sorted(((stage, count) for stage, count in counts.items()), key=lambda one: order.index(one[0]))
    return [*running, *((status, count) for status, count in ended if count)]


def _workflows(nodes: Sequence[NodeGlance]) -> Table:
    table = Table(title="workflows", title_justify="left", box=None, show_header=False, padding=(0, 1))
    table.add_column(min_width=30)
    table.add_column(justify="right", min_width=4)
    for stage, count in _stages(nodes):
        style = "red" if stage == W.FAILED_MANUAL_INTERVENTION else "yellow" if stage == W.FAILED_RETRYABLE else "cyan"
        table.add_row(Text(stage, style=style), Text(str(count), style=style))
    for node in nodes:
        if node.workflow_status is W.FAILED_MANUAL_INTERVENTION:
            table.add_row(Text(f"  {node.name}", style="red"), "", Text(node.reason, style="dim", overflow="ellipsis"))
    return table


def _newest(moves: Sequence[PastMove]) -> Table:
    table = Table(title="newest moves", title_justify="left", box=None, show_header=False, padding=(0, 1))
    for move in moves:
        table.add_row(
            Text(f"{move.at:%H:%M:%S}", style="dim"),
            move.name,
            move.layer,
            f"{move.source or '·'} → {move.target}",
            Text(move.cause, style="dim", overflow="ellipsis", no_wrap=True),
        )
    return table
