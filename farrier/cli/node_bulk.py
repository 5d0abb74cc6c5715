"""Selects the nodes for an action, and submits the intents for these nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import typer

from farrier.cli import arguments, bulk_options, pages
from farrier.cli.bulk import Operations, Reached, Target
from farrier.cli.bulk_options import Orders
from farrier.cli.connection import Session
from farrier.cli.missing import Missing
from farrier.model import foreseen
from farrier.model.acceptance import Later, Refused
from farrier.model.actions import Action
from farrier.model.edges import NODE
from farrier.model.requests import Request
from farrier.model.status import NodeStatus
from farrier.model.views import NodeView, Wanted
from farrier.model.workflow import WorkflowStatus


async def select(session: Session, wanted: Wanted, names: Sequence[str]) -> tuple[NodeView, ...]:
    """Return the selected nodes in the order of their names. Raises a usage error if no name and no option selects
    nodes, and RefusedByModel for a name that no node has."""
    wanted = msgspec.structs.replace(wanted, names=arguments.names(names))
    if wanted == Wanted():
        raise typer.BadParameter("name the nodes, or select them with -l, --status, --site, …; '*' selects all nodes")
    missing = Missing(wanted)
    return await pages.every(pages.of_nodes(session, wanted, missing), missing)


async def submit(
    session: Session, action: Action, nodes: Iterable[NodeView], params: Callable[[int], Mapping[str, Any]], how: Orders
) -> None:
    """Submit the action for these nodes. `params` returns the parameters for the node with an ID."""
    request = Request(resource="", action=action, key=how.key, requested_by=how.requested_by)
    reached = partial(_reached, session, how.following.until)
    operations = Operations(session=session, request=request, params=params, reached=reached)
    await bulk_options.run(action.replace("_", "-"), NODE, [_target(action, node) for node in nodes], operations, how)


def _target(action: Action, node: NodeView) -> Target:
    """Return the node as a target, with the answer that an intent would get now."""
    answer = foreseen.of_node(action, node)
    return Target(
        id=node.id,
        name=node.name,
        state=node.status,
        refusal=answer.reason if isinstance(answer, Refused) else "",
        delay=answer.reason if isinstance(answer, Later) else "",
    )


async def _reached(session: Session, until: str | None, ids: Sequence[int]) -> Mapping[int, Reached]:
    """Return the progress of these nodes. A node that is no longer listed counts as deleted."""
    page = await session.queries.inventory(Wanted(names=tuple(map(str, ids))), limit=len(ids))
    there = until == NodeStatus.DELETED
    deleted = Reached(NodeStatus.DELETED, there, "" if there else f"is deleted, so it cannot become {until}")
    return dict.fromkeys(ids, deleted) | {node.id: _progress(node, until) for node in page.rows}


def _progress(node: NodeView, until: str | None) -> Reached:
    workflow = node.workflow
    failed = workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION
    why = f"is {node.status} and waits for an operator: {workflow.failure_class}" if failed and workflow else ""
    return Reached(node.status, node.status == until, why)
