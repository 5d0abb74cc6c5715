"""Prints lists in the format that the options -o, --json, --sort-by and --watch select.

Three decorators add these options to a command, and pass an `OutputFormat` to the command. `formed` adds all four
options. `formed_once` omits --watch, for a list that does not change. `formed_as_is` adds only -o and --json, for a
list with a fixed order.

A command passes a `Listing` and the `OutputFormat` to `show`. A command that reads pages in a fixed order passes them
to a `Printer`. With --sort-by, --watch or JSONPath, the whole list is in memory; otherwise only one page.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar

import anyio
import msgspec
import typer
from rich.text import Text

from farrier.cli.options import completion, signatures
from farrier.cli.output import printing
from farrier.cli.output.printing import Cell
from farrier.config.reading import nearest
from farrier.model.views.nodes import Page
from farrier.model.views.responses import MOST_ROWS

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
"""What the command works on: a session, or settings."""
T = TypeVar("T")

# --watch pauses between two readings of the list for at least this period, and for at least `_SHARE` times as long as
# the last reading took, so that a list of the whole fleet does not load the database.
_PERIOD = timedelta(seconds=2)
_SHARE = 10
_NUMBER = re.compile(r"(\d+)")


class Output(StrEnum):
    """The output formats that -o accepts."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    JSONPATH = "jsonpath"


_PLAIN = (Output.WIDE, Output.NAME, Output.JSON)


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The output format of a command that prints a list. `path` is the JSONPath of -o."""

    output: Output
    path: str = ""
    sort_by: str = ""
    watch: bool = False


def formed(command: Callable[Concatenate[S, OutputFormat, P], R]) -> Callable[Concatenate[S, P], R]:
    """Add all options to a command."""
    return signatures.with_options(command, signatures.parameters(_form), _form)


def formed_once(command: Callable[Concatenate[S, OutputFormat, P], R]) -> Callable[Concatenate[S, P], R]:
    """Add all options except --watch to a command."""
    return signatures.with_options(command, signatures.parameters(_form)[:3], _form)


def formed_as_is(command: Callable[Concatenate[S, OutputFormat, P], R]) -> Callable[Concatenate[S, P], R]:
    """Add only -o and --json to a command."""
    return signatures.with_options(command, signatures.parameters(_form)[:2], _form)


def _known_form(text: str) -> str:
    name, _, path = text.partition("=")
    if name == Output.JSONPATH and path:
        _compiled(path)
    elif text not in _PLAIN:
        raise typer.BadParameter(f"expected wide, name, json or jsonpath=EXPR, got {text!r}")
    return text


def _form(
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FORM",
            help="Format of the list: wide, name, json or jsonpath=EXPR. EXPR is a JSONPath (RFC 9535) "
            "for the JSON of the list.",
            parser=_known_form,
            autocompletion=completion.one_of(("wide", "name", "json", "jsonpath=")),
            rich_help_panel=printing.PANEL,
        ),
    ] = None,
    as_json: printing.AsJson = False,
    sort_by: Annotated[
        str,
        typer.Option(
            metavar="FIELD",
            help="Sort by this field of the JSON, such as status or labels.row. -FIELD sorts in descending order.",
            rich_help_panel=printing.PANEL,
        ),
    ] = "",
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Keep running, and print each change, until Ctrl-C.", rich_help_panel=printing.PANEL
        ),
    ] = False,
) -> OutputFormat:
    if as_json and form not in (None, Output.JSON):
        raise typer.BadParameter(
            f"--json means -o json, so it cannot be combined with -o {form}; give only one of them"
        )
    name, _, path = (Output.JSON if as_json else form or Output.TABLE).partition("=")
    return OutputFormat(output=Output(name), path=path, sort_by=sort_by, watch=watch)


def _compiled(path: str) -> Any:
    """Compile a JSONPath of RFC 9535. An invalid JSONPath is a usage error."""
    import jsonpath  # this import takes half of the time in which a listing is loaded

    try:
        return jsonpath.JSONPathEnvironment(strict=True).compile(path)
    except jsonpath.JSONPathError as error:
        reason = str(error).partition("\n")[0]
        raise typer.BadParameter(f"expected a JSONPath such as $[*].name, got {path!r}: {reason}") from None


class Column(msgspec.Struct, Generic[T], frozen=True):
    """A column of a table. If `wide` is true, only -o wide shows it. If `ages` is true, the text in the column changes
    as time passes, even if the resource does not change."""

    heading: str
    cell: Callable[[T, datetime], Cell]
    wide: bool = False
    ages: bool = False


class RowLayout(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """How rows are printed. If a terminal is narrow, the columns with the headings in `below` are moved below the rows
    first."""

    columns: Sequence[Column[T]]
    name: Callable[[T], str]
    as_object: Callable[[T, datetime], Any] = lambda row, _: row
    """Returns the object in the JSON list."""
    none: str
    """The text if there is no row; may be empty."""
    below: Sequence[str] = ()


class Listing(RowLayout[T], frozen=True, kw_only=True):
    """The list that a command prints. `pages` reads the list anew. `fields` are the fields of the JSON object of a row.
    `id` identifies a row; by default, its name does. If `newest` is set, the list has at most this number of rows, with
    the highest IDs; otherwise it has all rows."""

    pages: Callable[[], AsyncIterator[Page[T]]]
    fields: Sequence[str]
    id: Callable[[T], Hashable] | None = None
    newest: int | None = None


async def once(read: Callable[[], Awaitable[Page[T]]]) -> AsyncIterator[Page[T]]:
    """Yield a list as a single page, which `read` reads with one query."""
    yield await read()


async def show(listing: Listing[T], form: OutputFormat) -> None:
    """Print the list. With --watch, also print each later change."""
    _refuse_unknown(form.sort_by, listing.fields)
    printer = Printer(listing, form)
    if form.watch:
        async for change in changes(listing, _PERIOD):
            printer.print_more(change.now, _sorted(listing, change.rows, change.now, form.sort_by), gone=change.gone)
    elif form.sort_by:
        now, rows = await _gathered(listing.pages())
        await printer.print(_in_pages(now, _sorted(listing, rows, now, form.sort_by)))
    else:
        await printer.print(listing.pages())


async def _as_one(pages: AsyncIterator[Page[T]]) -> AsyncIterator[Page[T]]:
    now, rows = await _gathered(pages)
    yield Page(now, tuple(rows))


async def _gathered(pages: AsyncIterator[Page[T]]) -> tuple[datetime, Sequence[T]]:
    found = [page async for page in pages]
    return found[0].now, [row for page in found for row in page.rows]


async def _in_pages(now: datetime, rows: Sequence[T]) -> AsyncIterator[Page[T]]:
    for start in range(0, len(rows) or 1, MOST_ROWS):
        yield Page(now, tuple(rows[start : start + MOST_ROWS]))


class ListChange(msgspec.Struct, Generic[T], frozen=True):
    """The rows that are new or differ from the last reading, and the ID and name of each row that is no longer
    listed."""

    now: datetime
    rows: Sequence[T]
    gone: Mapping[Hashable, str]


async def changes(listing: Listing[T], period: timedelta) -> AsyncIterator[ListChange[T]]:
    """Read the list repeatedly. First yield every row, and then the rows that differ from the previous reading."""
    known: dict[Hashable, tuple[str, tuple[str, ...]]] | None = None
    while True:
        began = anyio.current_time()
        found: dict[Hashable, tuple[str, tuple[str, ...]]] = {}
        changed: list[T] = []
        async for page in listing.pages():
            for row in page.rows:
                id_ = (listing.id or listing.name)(row)
                found[id_] = listing.name(row), _state(listing, row, page.now)
                if known is None or known.get(id_) != found[id_]:
                    changed.append(row)
        left = _left_out(listing, found)
        gone = {id_: name for id_, (name, _) in (known or {}).items() if id_ not in found and not left(id_)}
        took = anyio.current_time() - began
        if changed or gone or known is None:
            yield ListChange(page.now, changed, gone)
        known = found
        await anyio.sleep(pause(period, took))


def pause(period: timedelta, took: float) -> float:
    """Return the seconds before the next reading: the period, or `_SHARE` times as long as the last one took."""
    return max(period.total_seconds(), took * _SHARE)


def _left_out(listing: Listing[Any], found: Mapping[Any, object]) -> Callable[[Any], bool]:
    """Return a function that tells whether a row may be missing only because the list is limited to the newest rows."""
    if listing.newest is None or len(found) < listing.newest:
        return lambda _: False
    oldest = min(found)
    return lambda id_: bool(id_ < oldest)


def _state(listing: Listing[T], row: T, now: datetime) -> tuple[str, ...]:
    """Return the texts of a row. For a text that changes with time, return only whether it is empty."""
    texts = ((column, printing.shown(column.cell(row, now)).plain) for column in listing.columns)
    return tuple(str(bool(text)) if column.ages else text for column, text in texts)


class Printer(Generic[T]):
    """Prints rows in one output format."""

    def __init__(self, rows: RowLayout[T], form: OutputFormat) -> None:
        self._rows = rows
        self._output = form.output
        self._find = _compiled(form.path).findall if form.path else None
        self._columns = [each for each in rows.columns if form.output is Output.WIDE or not each.wide]
        self._table = printing.TablePrinter([column.heading for column in self._columns], below=rows.below)

    async def print(self, pages: AsyncIterator[Page[T]]) -> None:
        """Print a whole list."""
        if self._output is Output.JSON:
            await printing.json_array([self._object(row, page.now) for row in page.rows] async for page in pages)
            return
        if self._find is not None:  # a JSONPath is applied to all rows together
            pages = _as_one(pages)
        there = False
        async for page in pages:
            there = there or bool(page.rows)
            self._print_rows(page.now, page.rows)
        if not there and self._rows.none:
            typer.echo(self._rows.none, err=True)

    def print_more(self, now: datetime, rows: Sequence[T], *, gone: Mapping[Hashable, str] | None = None) -> None:
        """Print the next rows of a list, and the names of the rows that are no longer in it."""
        gone = gone or {}
        if self._output is Output.JSON:
            absent = ({"id": id_, "name": name, "gone": True} for id_, name in gone.items())
            printing.json_lines([*(self._object(row, now) for row in rows), *absent])
        else:
            self._print_rows(now, rows, gone=tuple(gone.values()))

    def _print_rows(self, now: datetime, rows: Sequence[T], *, gone: Sequence[str] = ()) -> None:
        if self._output is Output.NAME:
            # One resource may have several rows.
            typer.echo("".join(f"{name}\n" for name in dict.fromkeys(map(self._rows.name, rows))), nl=False)
        elif self._find is not None:
            for value in self._find([self._object(row, now) for row in rows]):
                typer.echo(printing.text(value))
        else:
            cells = [[column.cell(row, now) for column in self._columns] for row in rows]
            blank = [None] * (len(self._columns) - 2)
            self._table.print([*cells, *([name, Text("gone", style="dim"), *blank] for name in gone)])

    def _object(self, row: T, now: datetime) -> Any:
        return printing.plain(self._rows.as_object(row, now))


def _sorted(listing: Listing[T], rows: Sequence[T], now: datetime, sort_by: str) -> list[T]:
    """Return the rows in the order of a field. Rows without a value come last."""
    if not sort_by:
        return list(rows)
    field = sort_by.removeprefix("-")
    keyed = [(_value(printing.plain(listing.as_object(row, now)), field), row) for row in rows]
    valued = [(_rank(value), row) for value, row in keyed if value is not None]
    valued.sort(key=lambda pair: pair[0], reverse=sort_by.startswith("-"))
    return [*(row for _, row in valued), *(row for value, row in keyed if value is None)]


def _value(held: Any, path: str) -> Any:
    """Return the value of a field, or of a field within a field, such as `labels.row`."""
    if not isinstance(held, dict):
        return None
    if path in held:
        return held[path]
    field, dot, rest = path.partition(".")
    return _value(held.get(field), rest) if dot else None


def _rank(value: Any) -> tuple[Any, ...]:
    match value:
        case bool() | int() | float():
            return 0, value
        case str():  # without its Z, a time without a fraction sorts before times with a fraction
            return 1, [int(part) if part.isdecimal() else part for part in _NUMBER.split(value.removesuffix("Z"))]
        case _:
            return 2, msgspec.json.encode(value)


def _refuse_unknown(sort_by: str, fields: Sequence[str]) -> None:
    field = sort_by.removeprefix("-").partition(".")[0]
    if sort_by and field not in fields:
        raise typer.BadParameter(f"--sort-by: no field is named {field!r}; {nearest(field, fields)}")
