"""Reads one kind and its intents. Intents of nodes are numbered separately; intents of all other kinds
share one numbering."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli.options import arguments, completed_names
from farrier.cli.settings.connection import CommandSession
from farrier.errors import RefusedByModel
from farrier.model.intents.selection import LARGEST_ID
from farrier.model.views.intents import IntentView
from farrier.model.views.nodes import Page
from farrier.model.views.resources import KindView

KindOption = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Kind of the resource. farrier kind list lists all kinds.",
        autocompletion=completed_names.kinds,
    ),
]
IntentArgument = Annotated[
    int,
    typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="ID of the intent, as farrier intent list shows it."),
]


async def one(session: CommandSession, kind: str, intent: int) -> Page[IntentView]:
    """Return a page with one intent. Raises RefusedByModel if the kind has no such intent."""
    await installed(session, kind)
    page = await session.queries.intent(kind, intent)
    if page.rows[0].kind != kind:
        raise RefusedByModel(
            f"intent {intent} is for a resource of kind {page.rows[0].kind}, not of kind {kind}",
            hint=f"use --kind {page.rows[0].kind}",
        )
    return page


async def installed(session: CommandSession, kind: str) -> KindView:
    """Return the description of a kind. Raises a usage error for a kind that is not installed."""
    kinds = {each.kind: each for each in await session.queries.kinds(counted=False)}
    arguments.known(kind, "kind", kinds)
    return kinds[kind]
