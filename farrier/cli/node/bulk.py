"""Selects the nodes for an action, and submits the intents for these nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import typer

from farrier.bulk import nodes as of_nodes
from farrier.cli.options import arguments, bulk
from farrier.cli.options.bulk import Orders
from farrier.cli.output import pages
from farrier.cli.output.pages import MissingNames
from farrier.cli.settings.connection import CommandSession
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest
from farrier.model.views.nodes import NodeFilter, NodeView


async def select(session: CommandSession, wanted: NodeFilter, names: Sequence[str]) -> tuple[NodeView, ...]:
    """Return the selected nodes in the order of their names. Raises a usage error if no name and no option selects
    nodes, and RefusedByModel for a name that no node has."""
    wanted = msgspec.structs.replace(wanted, names=arguments.names(names))
    if wanted == NodeFilter():
        raise typer.BadParameter("name the nodes, or select them with -l, --status, --site, …; '*' selects all nodes")
    missing = MissingNames(wanted)
    return await pages.every(pages.of_nodes(session, wanted, missing), missing)


async def submit(
    session: CommandSession,
    action: Action,
    nodes: Iterable[NodeView],
    params: Callable[[int], Mapping[str, Any]],
    how: Orders,
    *,
    called: str = "",
) -> None:
    """Submit the action for these nodes. `params` returns the parameters for the node with an ID. `called` is the name
    of the action in messages."""
    request = IntentRequest(resource="", action=action, key=how.key, requested_by=how.requested_by)
    operations = of_nodes.operations(session.requests, session.queries, request, params, how.following.until)
    targets = [of_nodes.target(action, node) for node in nodes]
    await bulk.run(called or action.replace("_", "-"), session.requests, targets, operations, how)
