"""Defines, for the history commands, the options that select changes, and reads and prints changes.

`narrowed` adds these options to those of a command, and passes a `HistoryFilter` as the command's second parameter,
after the session. With `--follow`, a command prints the newest changes, and then each new change when it is committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Annotated, Any, Concatenate, ParamSpec

import anyio
import msgspec
import typer

from farrier import clock
from farrier.cli.options import arguments, signatures
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, OutputFormat, RowLayout
from farrier.cli.settings.connection import CommandSession
from farrier.model import duration
from farrier.model.views.history import HistoryEntry, HistoryFilter, HistoryKey, HistoryPage, Order
from farrier.model.views.nodes import Page
from farrier.model.views.responses import MOST_ROWS

P = ParamSpec("P")

_PANEL = "Which changes"
# The shortest pause between two readings of the history.
_PERIOD = timedelta(seconds=1)
# A change has the time of its statement, but becomes visible with its COMMIT. The COMMIT follows within this time,
# unless a client that registers nodes leaves its transaction open.
_LATE = timedelta(minutes=1)

Follow = Annotated[
    bool,
    typer.Option(
        "--follow", "-f", help="Print the changes in the order of time, and then each new change, until Ctrl-C."
    ),
]


def as_object(change: HistoryEntry) -> dict[str, Any]:
    """Return a change in its JSON form, with its key."""
    plain: dict[str, Any] = printing.plain(change)
    return plain | {"key": change.key.text}


def _after(change: HistoryEntry) -> str | None:
    seconds = change.seconds_in_source
    return None if seconds is None else duration.human(timedelta(seconds=seconds))


def _cause(change: HistoryEntry) -> str:
    return change.cause if change.requested_by is None else f"{change.cause} by {change.requested_by}"


_ROWS: RowLayout[HistoryEntry] = RowLayout(
    columns=(
        Column("AT", lambda change, _: printing.moment(change.at)),
        Column("NAME", lambda change, _: change.name),
        Column("LAYER", lambda change, _: change.layer),
        Column("FROM", lambda change, _: printing.state(change.source_state or "")),
        Column("TO", lambda change, _: printing.state(change.target_state)),
        Column("AFTER", lambda change, _: _after(change)),
        Column("CAUSE", lambda change, _: _cause(change)),
        Column("REASON", lambda change, _: change.reason),
        Column("SOURCE", lambda change, _: change.source),
        Column("CONTROLLER", lambda change, _: change.controller, wide=True),
        Column("KEY", lambda change, _: change.key.text, wide=True),
    ),
    name=lambda change: change.name,
    as_object=lambda change, _: as_object(change),
    none="no history entry matches",
    below=("SOURCE", "REASON", "CAUSE", "AFTER"),
)


async def show(pages: AsyncIterator[HistoryPage], form: OutputFormat) -> HistoryKey | None:
    """Print changes page by page. Returns the key at which the next page would begin, or None after the last page."""
    following = None

    async def rows() -> AsyncIterator[Page[HistoryEntry]]:
        nonlocal following
        async for page in pages:
            yield Page(clock.wall(), page.changes)
            following = page.following

    await lists.Printer(_ROWS, form).print(rows())
    return following


async def everything(session: CommandSession, wanted: HistoryFilter) -> AsyncIterator[HistoryPage]:
    """Yield all changes, the oldest first. A query in this order omits the newest changes, so they are read separately
    and added to the last page."""
    reached: HistoryKey | None = None
    known: set[HistoryKey] = set()
    unprinted: tuple[HistoryEntry, ...] = ()
    async for page in walk(session, wanted, Order.OLDEST):
        # The newest changes are read from the time that was reached, so the changes of exactly this time are read
        # twice.
        reached = max(filter(None, (reached, page.reached)), key=lambda key: key.at, default=None)
        known |= {change.key for change in page.changes}
        known = {key for key in known if reached is not None and key.at >= reached.at}
        if page.following is None:
            unprinted = page.changes
        else:
            yield page
    newest = wanted if reached is None else msgspec.structs.replace(wanted, since=reached.at)
    async for page in last(session, newest):
        yield HistoryPage((*unprinted, *(change for change in page.changes if change.key not in known)), None)


async def last(session: CommandSession, wanted: HistoryFilter, most: int | None = None) -> AsyncIterator[HistoryPage]:
    """Yield one page with all changes, or with the newest `most` changes, the oldest first."""
    newest: list[HistoryEntry] = []
    async for page in walk(session, wanted, Order.NEWEST, most=most):
        newest += page.changes
    yield HistoryPage(tuple(newest[::-1]), None)


async def walk(
    session: CommandSession,
    wanted: HistoryFilter,
    order: Order,
    *,
    after: HistoryKey | None = None,
    most: int | None = None,
) -> AsyncIterator[HistoryPage]:
    """Yield all pages of the matching changes, or the pages with the first `most` changes."""
    printed = 0
    while most is None or printed < most:
        limit = MOST_ROWS if most is None else min(MOST_ROWS, most - printed)
        page = await session.queries.history(wanted, order=order, after=after, limit=limit)
        yield page
        printed += len(page.changes)
        after = page.following
        if after is None:
            return


def narrowed(
    command: Callable[Concatenate[CommandSession, HistoryFilter, P], Awaitable[None]],
) -> Callable[Concatenate[CommandSession, P], Awaitable[None]]:
    """Add to a command the options that select changes."""
    return signatures.with_options(command, signatures.parameters(_wanted), _wanted)


def _option(help_: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=_PANEL, **more)


def _wanted(  # noqa: PLR0913 - one parameter is one option
    *,
    since: Annotated[
        str | None,
        _option(
            "Show only changes since this time (2026-01-31T12:00:00Z), or younger than this age (2h).",
            "--since",
            "--last",
        ),
    ] = None,
    until: Annotated[str | None, _option("Show only changes before this time, or older than this age.")] = None,
    layer: Annotated[list[str] | None, _option("Show only changes of this layer. Repeatable.")] = None,
    source: Annotated[
        list[str] | None, _option("Show only transitions out of this state. Repeatable.", "--from")
    ] = None,
    target: Annotated[list[str] | None, _option("Show only transitions into this state. Repeatable.", "--to")] = None,
    cause: Annotated[
        list[str] | None,
        _option("Show only changes with this cause: intent, 'intent 7', timer, signal, stage … Repeatable."),
    ] = None,
    requested_by: Annotated[
        list[str] | None, _option("Show only changes that this client requested. Repeatable.", "--by")
    ] = None,
    reason: Annotated[str, _option("Show only changes with this text in the reason; case is ignored.")] = "",
    at_least: Annotated[
        str | None, _option("Show only changes whose previous state lasted at least this long, such as 30m.")
    ] = None,
) -> HistoryFilter:
    return HistoryFilter(
        since=None if since is None else arguments.age_or_moment("--since, --last", since),
        until=None if until is None else arguments.age_or_moment("--until", until),
        layers=tuple(layer or ()),
        sources=tuple(source or ()),
        targets=tuple(target or ()),
        causes=tuple(cause or ()),
        requested_by=tuple(requested_by or ()),
        reason=reason,
        at_least=None if at_least is None else arguments.patience("--at-least", at_least),
    )


async def show_followed(session: CommandSession, wanted: HistoryFilter, *, newest: int, form: OutputFormat) -> None:
    """Print the newest changes in the order of their times, and then each later change."""
    if wanted.until is not None:
        raise typer.BadParameter("--follow continues until Ctrl-C; omit --until")
    printer = lists.Printer(_ROWS, form)
    async for changes in follow(session, wanted, newest=newest, period=_PERIOD):
        printer.print_more(clock.wall(), changes)


async def follow(
    session: CommandSession, wanted: HistoryFilter, *, newest: int, period: timedelta
) -> AsyncIterator[Sequence[HistoryEntry]]:
    """Yield each change once, when it becomes visible: each reading covers the last minute again."""
    recent = msgspec.structs.replace(wanted, since=_LATE)
    known = {change.key for change in await _last(session, recent)}
    beginning = await _last(session, wanted, newest)
    known |= {change.key for change in beginning}
    if beginning:
        yield beginning
    while True:
        began = anyio.current_time()
        found = [change for change in await _last(session, recent) if change.key not in known]
        took = anyio.current_time() - began
        known = _still_recent(known | {change.key for change in found})
        if found:
            yield found
        await anyio.sleep(lists.pause(period, took))


async def _last(session: CommandSession, wanted: HistoryFilter, most: int | None = None) -> Sequence[HistoryEntry]:
    return [change async for page in last(session, wanted, most) for change in page.changes]


def _still_recent(known: set[HistoryKey]) -> set[HistoryKey]:
    """Return the keys that a later reading may return again."""
    latest = max((key.at for key in known), default=None)
    return {key for key in known if latest is None or key.at >= latest - _LATE}
