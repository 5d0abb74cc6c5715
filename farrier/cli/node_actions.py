"""Makes a command for each action of a node, such as `farrier node drain 'rack7-*' --reason cooling`. The parameters of
the action are the options of the command. The table of actions alone defines these commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from farrier.cli import added_options, bulk_options, completed_names, detail_options, node_bulk, param_options
from farrier.cli.bulk_options import Orders
from farrier.cli.connection import Session, with_database
from farrier.config.reading import nearest
from farrier.model import actions, param_faults
from farrier.model.actions import ACTIONS, Action
from farrier.model.status import NodeStatus
from farrier.model.views import Wanted

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME|GLOB",
        help="Nodes to act on: names, IDs, globs such as gpu-1*.",
        autocompletion=completed_names.node_names,
    ),
]


def add_to(group: typer.Typer) -> None:
    """Add a command for each action except `set`, which has a separate module."""
    for action in Action:
        if action is not Action.SET:
            group.command(action.replace("_", "-"), rich_help_panel="Actions")(with_database(_submits(action)))


def _submits(action: Action) -> Callable[..., Awaitable[None]]:
    fields = actions.rules(action).fields

    async def command(session: Session, how: Orders, wanted: Wanted, /, names: Names = None, **given: Any) -> None:
        params = param_options.values(fields, given)
        for field, fault in param_faults.faults(actions.rules(action), params):
            raise typer.BadParameter(f"--{field.replace('_', '-')} {fault}" if field else fault)
        until = how.following.until
        if until is not None and until not in set(NodeStatus):
            raise typer.BadParameter(f"--until: no status is named {until!r}; {nearest(until, NodeStatus)}")
        nodes = await node_bulk.select(session, wanted, names or ())
        if not nodes:
            typer.echo("no node matches", err=True)
            return
        await node_bulk.submit(session, action, nodes, lambda _: params, how)

    text = ACTIONS[action].description
    named = added_options.replace_given(command, param_options.options(fields), f"{text[0].upper()}{text[1:]}.")
    return detail_options.narrowed(bulk_options.ordered(named))
