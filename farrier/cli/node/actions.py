"""Makes a command for each action of a node, such as `farrier node drain 'rack7-*' --reason cooling`, and for each
verb, such as `farrier node reimage`. The parameters of the action are the options of the command. The tables of actions
and of verbs alone define these commands, except `farrier node set 'rack7-*' site=ams1 label=row=b`, whose arguments are
the changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from farrier.bulk import nodes as of_nodes
from farrier.cli.node import detail_options
from farrier.cli.options import arguments, bulk, completed_names, signatures
from farrier.cli.options import params as param_options
from farrier.cli.options.bulk import Orders
from farrier.cli.output import pages
from farrier.cli.output.pages import MissingNames
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.config.reading import nearest
from farrier.model.intents import param_values
from farrier.model.intents.actions import ACTIONS, Action
from farrier.model.intents.requests import IntentRequest
from farrier.model.intents.verbs import VERBS, Verb
from farrier.model.node import detail_changes
from farrier.model.node.layers import NODE, NodeStatus
from farrier.model.plural import counted
from farrier.model.views.nodes import NodeFilter, NodeView

# The number of names in a query, which the API has in its URL.
_AT_ONCE = 500


async def select(session: CommandSession, wanted: NodeFilter, names: Sequence[str]) -> tuple[NodeView, ...]:
    """Return the selected nodes in the order of their names. Raises a usage error if no name and no option selects
    nodes, and RefusedByModel for a name that no node has."""
    wanted = msgspec.structs.replace(wanted, names=arguments.names(names))
    if wanted == NodeFilter():
        raise typer.BadParameter("name the nodes, or select them with -l, --status, --site, …; '*' selects all nodes")
    missing = MissingNames(wanted)
    return await pages.every(pages.of_nodes(session, wanted, missing), missing)


async def registered(session: CommandSession, names: Sequence[str]) -> dict[str, NodeView]:
    """Return the nodes that have one of these names, by name."""
    found: dict[str, NodeView] = {}
    for start in range(0, len(names), _AT_ONCE):
        wanted = NodeFilter(names=tuple(names[start : start + _AT_ONCE]))
        found |= {node.name: node for node in (await session.queries.inventory(wanted, limit=_AT_ONCE)).rows}
    return found


async def submit(
    session: CommandSession,
    action: Action,
    nodes: Iterable[NodeView],
    params: Callable[[int], Mapping[str, Any]],
    how: Orders,
    *,
    called: str = "",
) -> None:
    """Submit an action, `called` so in messages, with the parameters that `params` returns for the ID of a node."""
    request = IntentRequest(resource="", action=action, key=how.key, requested_by=how.requested_by)
    operations = of_nodes.operations(session.requests, session.queries, request, params, how.following.until)
    targets = [of_nodes.target(action, node) for node in nodes]
    await bulk.run(called or action.replace("_", "-"), session.requests, targets, operations, how)


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME|GLOB",
        help="Nodes to act on: names, IDs, globs such as gpu-1*.",
        autocompletion=completed_names.node_names,
    ),
]


def add_to(group: typer.Typer) -> None:
    """Add a command for each action and for each verb."""
    group.command(Action.SET.value, rich_help_panel="Actions")(set_)
    for action in Action:
        if action is not Action.SET:
            verb = Verb(action=action, description=ACTIONS[action].description)
            _add(group, action.replace("_", "-"), verb, verb.description)
    for name, verb in VERBS.items():
        _add(group, name, verb, f"{verb.description} ({verb.behind})")


def _add(group: typer.Typer, name: str, verb: Verb, text: str) -> None:
    command = _submits(name, verb, f"{text[0].upper()}{text[1:]}.")
    group.command(name, rich_help_panel="Actions")(with_database(command))


def _submits(name: str, verb: Verb, text: str) -> Callable[..., Awaitable[None]]:
    schema = verb.schema

    async def command(
        session: CommandSession, how: Orders, wanted: NodeFilter, /, names: Names = None, **given: Any
    ) -> None:
        params = param_options.values(schema.fields, given)
        for field, fault in param_values.faults(schema, params):
            raise typer.BadParameter(f"--{field.replace('_', '-')} {fault}" if field else fault)
        until = how.following.until
        if until is not None and until not in set(NodeStatus):
            raise typer.BadParameter(f"--until: no status is named {until!r}; {nearest(until, NodeStatus)}")
        nodes = await select(session, wanted, names or ())
        how.require(nodes, NODE)
        await submit(session, verb.action, nodes, lambda _: {**verb.params, **params}, how, called=name)

    named = signatures.replace_given(command, param_options.options(schema.fields), text)
    return detail_options.narrowed(bulk.ordered(named))


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
    nodes, changes = await select(session, wanted, names), _changes(texts)
    how.require(nodes, NODE)
    params = {node.id: found for node in nodes if (found := detail_changes.params(changes, node))}
    same = len(nodes) - len(params)
    if same:
        typer.echo(f"{counted(same, NODE)} already had these values", err=True)
    if params:
        changed = [node for node in nodes if node.id in params]
        await submit(session, Action.SET, changed, params.__getitem__, how)


def _changes(texts: list[str]) -> detail_changes.DetailChanges:
    if not texts:
        raise typer.BadParameter("nothing to change; give for example site=ams1 or label=row=b")
    for text in texts:
        word = text.partition("=")[0]
        if word not in detail_changes.WORDS:
            raise typer.BadParameter(f"a node has no detail {word!r}; {nearest(word, detail_changes.WORDS)}")
    with arguments.usage_errors():
        return detail_changes.read(texts)
