"""`farrier node history`: who changed what, when, why, and how long it had been so.

Pages by key: the history of a whole fleet streams through without being held anywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Annotated

import typer

from farrier.cli import arguments, output
from farrier.cli.connection import Session, with_database
from farrier.cli.output import Cell
from farrier.model import duration
from farrier.model.views import Past, WantedPast

_PAGE = 1000


@with_database
async def history(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    node: Annotated[str | None, typer.Argument(help="Name or id. None, with --all: every node.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of it, not the newest alone.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many of the newest changes.")] = 50,
    layer: Annotated[list[str] | None, typer.Option(help="Only this layer; may be given again.")] = None,
    since: Annotated[str | None, typer.Option(help="Not older than 2h, or than 2026-01-31T12:00:00Z.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object on each line.")] = False,
) -> None:
    """Show the changes of a node, oldest first; with --all and no node, of every node."""
    if node is None and not everything:
        raise typer.BadParameter("give a NODE, or --all for every node")
    wanted = _wanted(layer or (), since)
    if node is None:
        pages = _of_all(session, wanted)
    else:
        pages = _of_one(session, node, wanted, limit=None if everything else limit)
    async for page in pages:
        if as_json:
            output.json_lines(page)
        else:
            output.table(_COLUMNS, map(_row, page))


_COLUMNS = ("AT", "NODE", "LAYER", "FROM", "TO", "AFTER", "CAUSE", "REASON", "SOURCE")


def _row(past: Past) -> tuple[Cell, ...]:
    return (
        output.moment(past.at),
        past.name,
        past.layer,
        output.state(past.source_state or ""),
        output.state(past.target_state),
        None if past.seconds_in_source is None else duration.human(timedelta(seconds=past.seconds_in_source)),
        past.cause,
        past.reason,
        past.source,
    )


async def _of_all(session: Session, wanted: WantedPast) -> AsyncIterator[Sequence[Past]]:
    after = None
    while page := await session.queries.history(wanted, after=after, limit=_PAGE):
        yield page
        after = page[-1].key


async def _of_one(
    session: Session, node: str, wanted: WantedPast, *, limit: int | None
) -> AsyncIterator[Sequence[Past]]:
    """The newest `limit` changes, or all, as they happened: read backwards, told forwards."""
    found: list[Past] = []
    before = None
    while limit is None or len(found) < limit:
        most = _PAGE if limit is None else min(_PAGE, limit - len(found))
        page = await session.queries.history_of(node, wanted, before=before, limit=most)
        found += page
        if len(page) < most:
            break
        before = page[-1].key
    yield found[::-1]


def _wanted(layers: Sequence[str], since: str | None) -> WantedPast:
    begin = None if since is None else arguments.age_or_moment(since)
    if isinstance(begin, timedelta):
        return WantedPast(layers=tuple(layers), within=begin)
    return WantedPast(layers=tuple(layers), since=begin)
