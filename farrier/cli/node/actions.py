"""Makes a command for each action of a node, such as `farrier node drain 'rack7-*' --reason cooling`, and for each
verb, such as `farrier node reimage`. The parameters of the action are the options of the command. The tables of actions
and of verbs alone define these commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from farrier.cli.node import bulk as node_bulk
from farrier.cli.node import detail_options
from farrier.cli.options import bulk, completed_names, signatures
from farrier.cli.options import params as param_options
from farrier.cli.options.bulk import Orders
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.config.reading import nearest
from farrier.model.intents import param_faults
from farrier.model.intents.actions import ACTIONS, Action
from farrier.model.intents.verbs import VERBS, Verb
from farrier.model.node.edges import NODE
from farrier.model.node.status import NodeStatus
from farrier.model.views.nodes import NodeFilter

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME|GLOB",
        help="Nodes to act on: names, IDs, globs such as gpu-1*.",
        autocompletion=completed_names.node_names,
    ),
]


def add_to(group: typer.Typer) -> None:
    """Add a command for each action except `set`, which has a separate module, and a command for each verb."""
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
        for field, fault in param_faults.faults(schema, params):
            raise typer.BadParameter(f"--{field.replace('_', '-')} {fault}" if field else fault)
        until = how.following.until
        if until is not None and until not in set(NodeStatus):
            raise typer.BadParameter(f"--until: no status is named {until!r}; {nearest(until, NodeStatus)}")
        nodes = await node_bulk.select(session, wanted, names or ())
        how.require(nodes, NODE)
        await node_bulk.submit(session, verb.action, nodes, lambda _: {**verb.params, **params}, how, called=name)

    named = signatures.replace_given(command, param_options.options(schema.fields), text)
    return detail_options.narrowed(bulk.ordered(named))
