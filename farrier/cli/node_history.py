"""`farrier node history`: who changed what of a node, when, why, and how long it had been so.

Pages by key: the history of a whole fleet streams through without being held anywhere.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from farrier.cli import history_options
from farrier.cli.connection import Session, with_database
from farrier.model.edges import NODE
from farrier.model.history import HistoryEntry, HistoryFilter, Order


@with_database
@history_options.narrowed
async def history(
    session: Session,
    wanted: HistoryFilter,
    node: Annotated[str | None, typer.Argument(help="Name or id. None, with --all: every node.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of it, not the newest alone.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many of the newest changes.")] = 50,
    as_json: history_options.AsJsonLines = False,
) -> None:
    """Show the changes of a node, oldest first; with --all and no node, of every node."""
    if node is None and not everything:
        raise typer.BadParameter("give a NODE, or --all for every node")
    wanted = msgspec.structs.replace(wanted, resource=None if node is None else (NODE, node))
    if everything:
        order = Order.NODES if node is None else Order.OLDEST
        await history_options.show_pages(history_options.walk(session, wanted, order), as_json=as_json)
        return
    newest: list[HistoryEntry] = []
    async for page in history_options.walk(session, wanted, Order.NEWEST, most=limit):
        newest += page.changes
    history_options.show(newest[::-1], as_json=as_json)
