"""Selects the nodes for an action, and submits the intents for these nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import typer

from farrier.cli import arguments, pages
from farrier.cli.bulk import Reached, Target
from farrier.cli.connection import Session
from farrier.cli.missing import Missing
from farrier.model import foreseen
from farrier.model.acceptance import Later, Refused
from farrier.model.actions import Action
from farrier.model.edges import NODE
from farrier.model.intent_views import IntentView
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
    missing = Missing(NODE, wanted.names if wanted == Wanted(names=wanted.names) else ())
    found: list[NodeView] = []
    async for page in pages.of_nodes(session, wanted):
        missing.seen(page.rows)
        found += page.rows
    missing.refuse()
    return tuple(found)


def target(action: Action, node: NodeView) -> Target:
    """Return the node as a target, with the answer that an intent would get now."""
    answer = foreseen.of_node(action, node)
    return Target(
        id=node.id,
        name=node.name,
        state=node.status,
        refusal=answer.reason if isinstance(answer, Refused) else "",
        delay=answer.reason if isinstance(answer, Later) else "",
    )


class NodeDoor(msgspec.Struct, frozen=True, kw_only=True):
    """The `Door` of nodes. `params` returns the parameters of the action for a node with this ID."""

    session: Session
    action: Action
    params: Callable[[int], Mapping[str, Any]]
    until: str | None
    key: str
    requested_by: str | None

    async def ask(self, target: Target) -> int:
        """Submit the intent by the node's ID, because another node may get its name in the meantime."""
        request = Request(
            resource=str(target.id),
            action=self.action,
            params=self.params(target.id),
            key=self.key,
            requested_by=self.requested_by,
        )
        return await self.session.requests.ask(request)

    async def intent(self, intent: int) -> IntentView:
        """Return the intent with its answer."""
        return (await self.session.resources.intent(NODE, intent)).rows[0]

    async def reached(self, ids: Sequence[int]) -> Mapping[int, Reached]:
        """Return the progress of these nodes. A node that is no longer listed counts as deleted."""
        page = await self.session.queries.inventory(Wanted(names=tuple(map(str, ids))), limit=len(ids))
        listed = {node.id: self._seen(node) for node in page.rows}
        return {id_: listed.get(id_, self._deleted()) for id_ in ids}

    def _seen(self, node: NodeView) -> Reached:
        workflow = node.workflow
        failed = workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION
        why = f"is {node.status} and waits for an operator: {workflow.failure_class}" if failed and workflow else ""
        return Reached(node.status, node.status == self.until, why)

    def _deleted(self) -> Reached:
        there = self.until == NodeStatus.DELETED
        return Reached(NodeStatus.DELETED, there, "" if there else f"is deleted, so it cannot become {self.until}")
