"""Lists resources in the form that -o, --sort-by and --watch select.

A command with a `Form` gets it from `formed`, which adds these options to its own, and gives it to `show` with a
`Listing`. All forms but sorted ones and JSONPath hold one page at a time.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar

import anyio
import msgspec
import typer
from rich.text import Text

from farrier.cli import completion, output
from farrier.cli.connection import Session
from farrier.cli.output import Cell
from farrier.config.reading import nearest
from farrier.model.views import Page

P = ParamSpec("P")
T = TypeVar("T")

# Rows that are laid out together.
PAGE = 1000

_PANEL = "Output"
# How often --watch reads the list, and how much longer it waits than the last reading took: a list of the whole fleet
# must not load the database.
_PERIOD = timedelta(seconds=2)
_SHARE = 10
_NUMBER = re.compile(r"(\d+)")


class Column(msgspec.Struct, Generic[T], frozen=True):
    """A column of a table. `wide`: only with -o wide. `ages`: the text changes as time passes, without any change of
    the resource."""

    heading: str
    cell: Callable[[T, datetime], Cell]
    wide: bool = False
    ages: bool = False


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What a command lists. `pages` reads it anew. `fields` are those of the JSON object of a row."""

    columns: Sequence[Column[T]]
    pages: Callable[[], AsyncIterator[Page[T]]]
    name: Callable[[T], str]
    id: Callable[[T], int]
    as_object: Callable[[T, datetime], Any]
    fields: Sequence[str]
    none: str
    """The text if there is no row."""


class Output(StrEnum):
    """The forms that -o names."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    JSONPATH = "jsonpath"


_NAMED = set(Output) - {Output.TABLE}


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The form in which a command lists. `path` is the JSONPath of -o."""

    output: Output
    path: str
    sort_by: str
    watch: bool


def formed(
    command: Callable[Concatenate[Session, Form, P], Awaitable[None]],
) -> Callable[Concatenate[Session, P], Awaitable[None]]:
    """A command with the options that select the form of its output."""
    session, _, *own = inspect.signature(command, eval_str=True).parameters.values()
    which = inspect.signature(_form, eval_str=True).parameters

    @wraps(command)
    async def asked(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> None:
        chosen: dict[str, Any] = {name: kwargs.pop(name) for name in which}
        await command(session, _form(**chosen), *args, **kwargs)

    # What typer makes the options from.
    vars(asked)["__signature__"] = inspect.Signature([session, *own, *which.values()])
    return asked


def _known_form(text: str) -> str:
    name, equals, path = text.partition("=")
    if name not in _NAMED or bool(equals) is not (name == Output.JSONPATH):
        raise typer.BadParameter(f"expected wide, name, json or jsonpath=EXPR, got {text!r}")
    if equals:
        _compiled(path)
    return text


def _form(
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FORM",
            help="wide, name, json or jsonpath=EXPR, a JSONPath of RFC 9535 into the JSON.",
            parser=_known_form,
            autocompletion=completion.one_of(("wide", "name", "json", "jsonpath=")),
            rich_help_panel=_PANEL,
        ),
    ] = None,
    as_json: output.AsJson = False,
    sort_by: Annotated[
        str,
        typer.Option(
            metavar="FIELD",
            help="Sort by this field of the JSON, such as status or labels.row. -FIELD: in descending order.",
            rich_help_panel=_PANEL,
        ),
    ] = "",
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Go on, and print what changes, until Ctrl-C.", rich_help_panel=_PANEL),
    ] = False,
) -> Form:
    if as_json and form not in (None, Output.JSON):
        raise typer.BadParameter(f"--json is -o json; give one of them, not also -o {form}")
    name, _, path = (Output.JSON if as_json else form or Output.TABLE).partition("=")
    return Form(output=Output(name), path=path, sort_by=sort_by, watch=watch)


def _compiled(path: str) -> Any:
    """Compile a JSONPath of RFC 9535."""
    import jsonpath  # half of the time that a listing takes to load

    try:
        return jsonpath.JSONPathEnvironment(strict=True).compile(path)
    except jsonpath.JSONPathError as error:
        reason = str(error).partition("\n")[0]
        raise typer.BadParameter(f"{path!r} is no JSONPath such as $[*].name: {reason}") from None


async def show(listing: Listing[T], form: Form) -> None:
    """Print the list, and with --watch what changes from then on."""
    _refuse_unknown(form.sort_by, listing.fields)
    printer = _Printer(listing, form)
    if form.watch:
        async for change in changes(listing, _PERIOD):
            printer.print_change(change, form.sort_by)
    elif form.sort_by or form.output is Output.JSONPATH:
        pages = [page async for page in listing.pages()]
        rows = _sorted(listing, [row for page in pages for row in page.rows], pages[0].now, form.sort_by)
        await printer.print(_in_pages(pages[0].now, rows, form))
    else:
        await printer.print(listing.pages())


async def _in_pages(now: datetime, rows: Sequence[T], form: Form) -> AsyncIterator[Page[T]]:
    """A JSONPath is applied to all rows together; a table is laid out in parts."""
    step = len(rows) or 1 if form.output is Output.JSONPATH else PAGE
    for start in range(0, len(rows) or 1, step):
        yield Page(now, tuple(rows[start : start + step]))


class Change(msgspec.Struct, Generic[T], frozen=True):
    """The rows that are new or differ from the last reading, and ID and name of those that are no longer listed."""

    now: datetime
    rows: Sequence[T]
    gone: Mapping[int, str]


async def changes(listing: Listing[T], period: timedelta) -> AsyncIterator[Change[T]]:
    """Read the list again and again, and yield what differs from the last time; at first every row."""
    known: dict[int, tuple[str, tuple[str, ...]]] | None = None
    while True:
        began = anyio.current_time()
        found: dict[int, tuple[str, tuple[str, ...]]] = {}
        changed: list[T] = []
        async for page in listing.pages():
            for row in page.rows:
                id_ = listing.id(row)
                found[id_] = listing.name(row), _state(listing, row, page.now)
                if known is None or known.get(id_) != found[id_]:
                    changed.append(row)
        gone = {id_: name for id_, (name, _) in (known or {}).items() if id_ not in found}
        took = anyio.current_time() - began
        if changed or gone or known is None:
            yield Change(page.now, changed, gone)
        known = found
        await anyio.sleep(max(period.total_seconds(), took * _SHARE))


def _state(listing: Listing[T], row: T, now: datetime) -> tuple[str, ...]:
    """The texts of a row, and of those that change with time only whether there are any."""
    texts = ((column, output.shown(column.cell(row, now)).plain) for column in listing.columns)
    return tuple(str(bool(text)) if column.ages else text for column, text in texts)


class _Printer(Generic[T]):
    """Prints rows in one form."""

    def __init__(self, listing: Listing[T], form: Form) -> None:
        self._listing = listing
        self._output = form.output
        self._find = _compiled(form.path).findall if form.path else None
        self._columns = [each for each in listing.columns if form.output is Output.WIDE or not each.wide]
        self._table = output.Table([column.heading for column in self._columns])

    async def print(self, pages: AsyncIterator[Page[T]]) -> None:
        if self._output is Output.JSON:
            await output.json_array([self._object(row, page.now) for row in page.rows] async for page in pages)
            return
        there = False
        async for page in pages:
            there = there or bool(page.rows)
            self._print_rows(page.now, page.rows)
        if not there:
            typer.echo(self._listing.none, err=True)

    def print_change(self, change: Change[T], sort_by: str) -> None:
        rows = _sorted(self._listing, change.rows, change.now, sort_by)
        if self._output is Output.JSON:
            gone = ({"id": id_, "name": name, "gone": True} for id_, name in change.gone.items())
            output.json_lines([*(self._object(row, change.now) for row in rows), *gone])
        else:
            self._print_rows(change.now, rows, gone=tuple(change.gone.values()))

    def _print_rows(self, now: datetime, rows: Sequence[T], *, gone: Sequence[str] = ()) -> None:
        if self._output is Output.NAME:
            typer.echo("".join(f"{self._listing.name(row)}\n" for row in rows), nl=False)
        elif self._find is not None:
            for value in self._find([self._object(row, now) for row in rows]):
                typer.echo(value if isinstance(value, str) else msgspec.json.encode(value).decode())
        else:
            cells = [[column.cell(row, now) for column in self._columns] for row in rows]
            blank = [None] * (len(self._columns) - 2)
            self._table.print([*cells, *([name, Text("gone", style="dim"), *blank] for name in gone)])

    def _object(self, row: T, now: datetime) -> Any:
        return output.plain(self._listing.as_object(row, now))


def _sorted(listing: Listing[T], rows: Sequence[T], now: datetime, sort_by: str) -> list[T]:
    """The rows in the order of a field, those without a value last; numbers in texts count as numbers."""
    if not sort_by:
        return list(rows)
    field = sort_by.removeprefix("-")
    keyed = [(_value(output.plain(listing.as_object(row, now)), field), row) for row in rows]
    valued = [(_rank(value), row) for value, row in keyed if value is not None]
    valued.sort(key=lambda pair: pair[0], reverse=sort_by.startswith("-"))
    return [*(row for _, row in valued), *(row for value, row in keyed if value is None)]


def _value(held: Any, path: str) -> Any:
    """The value of a field, or of a field within it: `labels.row`."""
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
        case str():  # a time has no fraction if it is zero: without its Z it is before those that have
            return 1, [int(part) if part.isdecimal() else part for part in _NUMBER.split(value.removesuffix("Z"))]
        case _:
            return 2, msgspec.json.encode(value)


def _refuse_unknown(sort_by: str, fields: Sequence[str]) -> None:
    field = sort_by.removeprefix("-").partition(".")[0]
    if sort_by and field not in fields:
        raise typer.BadParameter(f"--sort-by: no field is named {field!r}; {nearest(field, fields)}")
