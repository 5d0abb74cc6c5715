"""Actions on many nodes: the answer of the table of actions, and how far each node has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from farrier.bulk.run import Asks, Operations, Reached, Target
from farrier.model.intents import preview
from farrier.model.intents.acceptance import Later, Refused
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest
from farrier.model.node.layers import NodeStatus, WorkflowStatus
from farrier.model.views.nodes import NodeFilter, NodeView
from farrier.protocols import Queries


def operations(
    requests: Asks,
    queries: Queries,
    request: IntentRequest,
    params: Callable[[int], Mapping[str, Any]],
    until: str | None,
) -> Operations:
    """Return the operations that submit the request for nodes. With `until`, nodes are followed to this status."""
    reached = partial(_reached, queries, until)
    return Operations(requests=requests, queries=queries, request=request, params=params, reached=reached)


def target(action: Action, node: NodeView) -> Target:
    """Return the node as a target, with the answer of the table of actions."""
    answer = preview.of_node(action, node)
    return Target(
        id=node.id,
        name=node.name,
        state=node.status,
        refusal=answer.reason if isinstance(answer, Refused) else "",
        delay=answer.reason if isinstance(answer, Later) else "",
    )


async def _reached(queries: Queries, until: str | None, ids: Sequence[int]) -> Mapping[int, Reached]:
    """Return the progress of these nodes. A node that is no longer listed counts as deleted."""
    page = await queries.inventory(NodeFilter(names=tuple(map(str, ids))), limit=len(ids))
    there = until == NodeStatus.DELETED
    deleted = Reached(NodeStatus.DELETED, there, "" if there else f"is deleted, so it cannot become {until}")
    return dict.fromkeys(ids, deleted) | {node.id: _progress(node, until) for node in page.rows}


def _progress(node: NodeView, until: str | None) -> Reached:
    workflow = node.workflow
    failed = workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION
    why = f"is {node.status} and waits for an operator: {workflow.failure_class}" if failed and workflow else ""
    return Reached(node.status, node.status == until, why)
