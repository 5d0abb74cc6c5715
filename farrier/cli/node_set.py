"""`farrier node set`: changes details of one or many nodes, as in `farrier node set 'rack7-*' site=ams1
label=row=b`."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli import arguments, bulk_options, completed_names, detail_options, node_bulk
from farrier.cli.bulk_options import Orders
from farrier.cli.connection import Session, with_database
from farrier.config.reading import nearest
from farrier.model import detail_changes
from farrier.model.actions import Action
from farrier.model.counted import counted
from farrier.model.edges import NODE
from farrier.model.views import Wanted

_HELP = (
    "Names, IDs and globs of the nodes, and changes: "
    f"{', '.join(f'{word}=…' for word in detail_changes.WORDS)}; label=KEY=VALUE sets a label, label=KEY- removes it."
)
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME|GLOB|KEY=VALUE", help=_HELP, autocompletion=completed_names.node_names),
]


@with_database
@detail_options.narrowed
@bulk_options.ordered
async def set_(session: Session, how: Orders, wanted: Wanted, words: Words = None) -> None:
    """Change details of nodes. New labels are merged with the labels of a node. mac=… replaces all addresses. An empty
    value removes a detail."""
    if how.following.until is not None:
        raise typer.BadParameter(
            "--until cannot be used with farrier node set, because this command does not change the status of a node"
        )
    texts = [text for text in words or () if "=" in text]
    names = [text for text in words or () if "=" not in text]
    nodes, changes = await node_bulk.select(session, wanted, names), _changes(texts)
    how.require(nodes, NODE)
    params = {node.id: found for node in nodes if (found := detail_changes.params(changes, node))}
    same = len(nodes) - len(params)
    if same:
        typer.echo(f"{counted(same, NODE)} already had these values", err=True)
    if params:
        changed = [node for node in nodes if node.id in params]
        await node_bulk.submit(session, Action.SET, changed, params.__getitem__, how)


def _changes(texts: list[str]) -> detail_changes.Changes:
    if not texts:
        raise typer.BadParameter("nothing to change; give for example site=ams1 or label=row=b")
    for text in texts:
        word = text.partition("=")[0]
        if word not in detail_changes.WORDS:
            raise typer.BadParameter(f"a node has no detail {word!r}; {nearest(word, detail_changes.WORDS)}")
    with arguments.usage_errors():
        return detail_changes.read(texts)
