"""Implements `--follow` of the history commands: prints the newest changes, and then each new change when it is
committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import anyio
import msgspec
import typer

from farrier import clock
from farrier.cli.history import options
from farrier.cli.output import lists
from farrier.cli.output.lists import OutputFormat
from farrier.cli.settings.connection import CommandSession
from farrier.model.views.history import HistoryEntry, HistoryFilter, HistoryKey

# The shortest pause between two readings of the history.
_PERIOD = timedelta(seconds=1)
# A change has the time of its statement, but becomes visible with its COMMIT. The COMMIT follows within this time,
# unless a client that registers nodes leaves its transaction open.
_LATE = timedelta(minutes=1)


async def show(session: CommandSession, wanted: HistoryFilter, *, newest: int, form: OutputFormat) -> None:
    """Print the newest changes in the order of their times, and then each later change."""
    if wanted.until is not None:
        raise typer.BadParameter("--follow continues until Ctrl-C; omit --until")
    printer = lists.Printer(options.ROWS, form)
    async for changes in follow(session, wanted, newest=newest, period=_PERIOD):
        printer.print_more(clock.wall(), changes)


async def follow(
    session: CommandSession, wanted: HistoryFilter, *, newest: int, period: timedelta
) -> AsyncIterator[Sequence[HistoryEntry]]:
    """Yield each change once, in the order in which changes become visible. Each reading covers the last minute again,
    and omits changes that were yielded before."""
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
    return [change async for page in options.last(session, wanted, most) for change in page.changes]


def _still_recent(known: set[HistoryKey]) -> set[HistoryKey]:
    """Return the keys that a later reading may return again."""
    latest = max((key.at for key in known), default=None)
    return {key for key in known if latest is None or key.at >= latest - _LATE}
