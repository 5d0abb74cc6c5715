"""Prints the output of commands, as tables for people or as JSON for programs.

Tables fit the terminal; in a pipe they are as wide as their content. Nothing is truncated. In JSON, durations are
numbers of seconds, and times are in ISO 8601. Texts of BMCs and other services are printed without control characters,
because these could manipulate a terminal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from farrier.cli.output import layout
from farrier.model import duration
from farrier.model.intents.requests import IntentStatus
from farrier.model.node.clocks import StateClock
from farrier.model.node.layers import Management, NodeStatus, WorkflowStatus

PANEL = "Output"
"""The group of the options that select the output format, in the help of a command."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=PANEL)]

COLOURS: Mapping[str, str] = {
    NodeStatus.BOOTSTRAP_ISSUED: "blue",
    NodeStatus.ENROLLING: "cyan",
    NodeStatus.ACTIVE: "green",
    NodeStatus.OFFLINE: "yellow",
    NodeStatus.QUARANTINED: "red",
    NodeStatus.DRAINING: "magenta",
    NodeStatus.REMOVING: "magenta",
    Management.ENROLL: "blue",
    Management.VERIFYING: "cyan",
    Management.MANAGEABLE: "green",
    Management.ADOPTING: "cyan",
    Management.ADOPT_FAILED: "red",
    Management.ERROR: "red",
    WorkflowStatus.RUNNING: "cyan",
    WorkflowStatus.COMPLETED: "green",
    WorkflowStatus.FAILED_RETRYABLE: "yellow",
    WorkflowStatus.FAILED_MANUAL_INTERVENTION: "red",
    IntentStatus.ACCEPTED: "green",
    IntentStatus.REJECTED: "red",
    IntentStatus.SUPERSEDED: "yellow",
}
"""The colours of states and of the answers to intents. Any other state has no colour."""

Cell = str | Text | None


def words(kind: str) -> str:
    """Return the name of a kind for use in a sentence, as the database defines it."""
    return kind.replace("_", " ")


class TablePrinter:
    """Prints rows under headings, any number of times. `layout.Table` explains `below`."""

    def __init__(self, headings: Sequence[str], *, below: Sequence[str] = ()) -> None:
        self._layout = layout.Table(headings, below=below)

    def print(self, rows: Iterable[Sequence[Cell]]) -> None:
        """Print rows. The headings are printed before the first rows. If there are no rows, nothing is printed."""
        found = [[shown(cell) for cell in row] for row in rows]
        if found:
            _print(lambda width: self._layout.lines(found, width))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print rows under headings. If there are no rows, print nothing."""
    TablePrinter(columns).print(rows)


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Print each known fact on a separate line. Skip facts without a value."""
    found = [(name, shown(value)) for name, value in pairs if value is not None and len(value)]
    if found:
        _print(lambda width: layout.facts(found, width))


def _print(laid_out: Callable[[int | None], Iterable[Text]]) -> None:
    out = Console(highlight=False)
    if out.is_terminal:
        out.print(Text("\n").join(laid_out(out.width)), soft_wrap=True)
    else:
        typer.echo("\n".join(line.plain for line in laid_out(None)))


def shown(cell: Cell) -> Text:
    """Return a cell without control characters, which could manipulate a terminal."""
    if isinstance(cell, Text):
        return cell
    return Text("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell or ""))


def state(value: str) -> Text:
    """Return the name of a state, or the status of an intent, in its colour."""
    return Text(shown(value).plain, style=COLOURS.get(value, ""))


def excess(clock: StateClock | None) -> Text | None:
    """Return a text that names the clock that is above its limit, and the excess."""
    if clock is None or clock.above is None:
        return None
    return Text(f"{duration.human(clock.above)} ({clock.layer}: {clock.state})", style="bold red")


def ago(then: datetime | None, now: datetime) -> str | None:
    """Return the time since then."""
    return None if then is None else duration.human(now - then)


def moment(at: datetime | None) -> str | None:
    """Return a time to the second, in UTC."""
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def text(value: object) -> str:
    """Return a value of JSON on one line. A text has no quotes; any other value is JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def json(value: object) -> None:
    """Print one value."""
    typer.echo(msgspec.json.format(msgspec.json.encode(plain(value)), indent=2))


def json_lines(values: Iterable[object]) -> None:
    """Print each value on a separate line."""
    typer.echo(b"".join(msgspec.json.encode(plain(value)) + b"\n" for value in values), nl=False)


async def json_array(pages: AsyncIterator[Iterable[object]]) -> None:
    """Print one array with an element on each line, page by page."""
    before = b"["
    async for page in pages:
        if elements := b",\n".join(msgspec.json.encode(plain(value)) for value in page):
            typer.echo(before + elements, nl=False)
            before = b",\n"
    typer.echo("[]" if before == b"[" else "]")


def plain(value: object) -> Any:
    """Return the value in its JSON form."""
    return _seconds(msgspec.to_builtins(value, builtin_types=(timedelta,)))


def _seconds(value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case dict():
            return {key: _seconds(held) for key, held in value.items()}
        case list() | tuple():
            return [_seconds(held) for held in value]
        case _:
            return value
