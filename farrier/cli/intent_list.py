"""`farrier intent list`: intents of one resource or of a whole kind, newest first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

import typer

from farrier.cli import completed_names, intent_kind, output
from farrier.cli.connection import Session
from farrier.cli.output import Cell
from farrier.model.edges import NODE
from farrier.model.intent_views import IntentPage, IntentView, WantedIntents
from farrier.model.writes import Verdict

# Rows that are laid out together.
_PAGE = 1000

_COLUMNS = ("INTENT", "NAME", "ACTION", "STATUS", "AGE", "BY", "REASON")

_STATUSES = ("pending", *Verdict)


async def list_(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Only intents for this resource, by name or ID.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    kind: intent_kind.KindOption = NODE,
    status: Annotated[
        list[str] | None, typer.Option(help=f"Only this status: {', '.join(_STATUSES)}. Repeatable.")
    ] = None,
    action: Annotated[list[str] | None, typer.Option(help="Only this action. Repeatable.")] = None,
    requested_by: Annotated[list[str] | None, typer.Option(help="Only of this client. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of intents, the newest first.")] = 50,
    as_json: output.AsJson = False,
) -> None:
    """List intents, the newest first. Deleted resources are included."""
    for each in status or ():
        intent_kind.known(each, "status of intents", _STATUSES)
    actions = await intent_kind.actions(session, kind)
    for each in action or ():
        intent_kind.known(each, f"action of {output.words(kind)}s", actions)
    wanted = WantedIntents(
        resource=name,
        statuses=tuple(status or ()),
        actions=tuple(action or ()),
        requested_by=tuple(requested_by or ()),
    )
    pages = _pages(session, kind, wanted, limit)
    if as_json:
        await output.json_array(page.rows async for page in pages)
        return
    there = False
    async for page in pages:
        there = there or bool(page.rows)
        output.table(_COLUMNS, [_row(each, page.now) for each in page.rows])
    if not there:
        typer.echo("no intent matches", err=True)


async def _pages(session: Session, kind: str, wanted: WantedIntents, limit: int) -> AsyncIterator[IntentPage]:
    """Pages until there are `limit` intents or no more."""
    before: int | None = None
    while limit:
        page = await intent_kind.some(session, kind, wanted, before, min(limit, _PAGE))
        yield page
        limit -= len(page.rows)
        if page.following is None:
            return
        before = page.following


def _row(intent: IntentView, now: datetime) -> tuple[Cell, ...]:
    return (
        str(intent.id),
        intent.name,
        intent.action,
        output.verdict(intent.status),
        output.ago(intent.created_at, now),
        intent.requested_by,
        intent.reason,
    )
