"""`farrier node set`: changes details of one or many nodes, as in `farrier node set 'rack7-*' site=ams1
label=row=b`."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli.node import bulk as node_bulk
from farrier.cli.node import detail_options
from farrier.cli.options import arguments, bulk, completed_names
from farrier.cli.options.bulk import Orders
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.config.reading import nearest
from farrier.model.intents.actions import Action
from farrier.model.node import detail_changes
from farrier.model.node.edges import NODE
from farrier.model.plural import counted
from farrier.model.views.nodes import NodeFilter

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
@bulk.ordered
async def set_(session: CommandSession, how: Orders, wanted: NodeFilter, words: Words = None) -> None:
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


def _changes(texts: list[str]) -> detail_changes.DetailChanges:
    if not texts:
        raise typer.BadParameter("nothing to change; give for example site=ams1 or label=row=b")
    for text in texts:
        word = text.partition("=")[0]
        if word not in detail_changes.WORDS:
            raise typer.BadParameter(f"a node has no detail {word!r}; {nearest(word, detail_changes.WORDS)}")
    with arguments.usage_errors():
        return detail_changes.read(texts)
