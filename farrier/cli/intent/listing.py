"""`farrier intent list`: lists intents of one resource or of a whole kind, newest first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import typer

from farrier.cli.intent import numbering
from farrier.cli.options import arguments, completed_names
from farrier.cli.output import lists, printing
from farrier.cli.output.form import OutputFormat, formed
from farrier.cli.output.lists import Column, Listing
from farrier.cli.settings.connection import CommandSession
from farrier.model.intents.requests import IntentStatus
from farrier.model.node.edges import NODE
from farrier.model.views.intents import IntentView, WantedIntents
from farrier.model.views.nodes import Page
from farrier.model.views.responses import MOST_ROWS

_STATUSES = tuple(IntentStatus)


@formed
async def list_(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    form: OutputFormat,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Only intents for this resource, by name or ID.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    kind: numbering.KindOption = NODE,
    status: Annotated[
        list[str] | None, typer.Option(help=f"Only this status: {', '.join(_STATUSES)}. Repeatable.")
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option(help="Only this action. Repeatable.", autocompletion=completed_names.actions)
    ] = None,
    requested_by: Annotated[list[str] | None, typer.Option(help="Only intents of this client. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of intents. The newest intents are first.")] = 50,
) -> None:
    """List intents, the newest first, including those of deleted resources."""
    for each in status or ():
        arguments.known(each, "status of intents", _STATUSES)
    wanted = WantedIntents(
        resource=name,
        statuses=tuple(status or ()),
        actions=tuple(action or ()),
        requested_by=tuple(requested_by or ()),
    )
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: _pages(session, kind, wanted, limit),
        name=lambda each: str(each.id),
        id=lambda each: each.id,
        fields=IntentView.__struct_fields__,
        none="no intent matches",
        newest=limit,
    )
    await lists.show(listed, form)


async def _pages(
    session: CommandSession, kind: str, wanted: WantedIntents, limit: int
) -> AsyncIterator[Page[IntentView]]:
    """Yield pages until they have `limit` intents in total, or until there are no more intents."""
    before: int | None = None
    while limit:
        page = await session.queries.intents(kind, wanted, before=before, limit=min(limit, MOST_ROWS))
        yield Page(page.now, page.rows)
        limit -= len(page.rows)
        if page.following is None:
            return
        before = page.following


_COLUMNS: tuple[Column[IntentView], ...] = (
    Column("INTENT", lambda each, _: str(each.id)),
    Column("NAME", lambda each, _: each.name),
    Column("ACTION", lambda each, _: each.action),
    Column("STATUS", lambda each, _: printing.state(each.status)),
    Column("AGE", lambda each, now: printing.ago(each.created_at, now), ages=True),
    Column("BY", lambda each, _: each.requested_by),
    Column("REASON", lambda each, _: each.reason),
    Column(
        "PARAMETERS", lambda each, _: " ".join(f"{k}={printing.text(v)}" for k, v in each.params.items()), wide=True
    ),
    Column("ANSWERED", lambda each, _: printing.moment(each.answered_at), wide=True),
    Column("KEY", lambda each, _: each.idempotency_key, wide=True),
)
