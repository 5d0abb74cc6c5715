"""Nodes in PostgreSQL: how a snapshot is read, and how what a run returned is written.

Implements `state.Rows`. One statement each for nodes, workflows and every type of write, however many runs a commit
holds; rows travel as one JSON parameter whose fields are the columns' names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from farrier.errors import UndecodableState
from farrier.io import session, statements
from farrier.io.pool import Connection
from farrier.model.node import Node, Workflow
from farrier.model.schedule import Finished
from farrier.model.status import NodeStatus
from farrier.model.workflow import LIVE, WorkflowKind
from farrier.model.writes import AnswerIntent, CreateTask, EndTask, ForgetAgent, RevokeBootstrap, Write

_INSERT = {kind: statements.load(f"node/insert_{kind}s") for kind in WorkflowKind}
_UPDATE = {kind: statements.load(f"node/update_{kind}s") for kind in WorkflowKind}
_UPDATE_NODES = statements.load("node/update_nodes")
_FREE_MACS = statements.load("node/free_macs")
_ANSWER_INTENTS = statements.load("node/answer_intents")
_CREATE_TASKS = statements.load("node/create_tasks")
_END_TASKS = statements.load("node/end_tasks")
_REVOKE_BOOTSTRAPS = statements.load("node/revoke_bootstraps")
_FORGET_AGENTS = statements.load("node/forget_agents")

_decode = msgspec.json.Decoder(Node).decode
_encode = msgspec.json.Encoder().encode

# The columns of `nodes` that a run owns, as they are named in the Node.
_OWNED = [
    "id",
    "version",
    "status",
    "management",
    "bmc_address",
    "bmc_credential",
    "bmc",
    "quarantine",
    "paused",
    "ever_onboarded",
    "ever_active",
    "not_scrubbed",
    "deleting",
]


class NodeRows:
    """`state.Rows` of kind `node`."""

    kind = "node"
    load = statements.load("node/load")
    lock = statements.load("node/lock")
    interrupted = statements.load("node/interrupted")

    def decode(self, snapshot: bytes | str) -> Node:
        try:
            return _decode(snapshot)
        except msgspec.DecodeError as error:
            raise UndecodableState("a node", str(error)) from error

    async def persist(self, conn: Connection, runs: Sequence[Finished[Node, Write]]) -> None:
        nodes = [run.to for run in runs if run.to is not None]
        versions = {run.id: run.version for run in runs}
        await self._persist_workflows(conn, [node for node in nodes if node.workflow is not None])
        rows = _encode([_node_row(node, versions[node.id]) for node in nodes]).decode()
        written = await conn.fetch(_UPDATE_NODES, rows)
        if len(written) != len(nodes):
            raise session.RacedError("a node's version moved between its lock and its update")
        gone = [node.id for node in nodes if node.status is NodeStatus.DELETED]
        if gone:
            await conn.execute(_FREE_MACS, gone)

    async def _persist_workflows(self, conn: Connection, nodes: Sequence[Node]) -> None:
        groups: dict[tuple[WorkflowKind, bool], list[dict[str, Any]]] = defaultdict(list)
        for node in nodes:
            assert node.workflow is not None, "the caller left out nodes without one"
            groups[node.workflow.kind, node.workflow.id == 0].append(_workflow_row(node.id, node.workflow))
        for (kind, new), rows in groups.items():
            await conn.execute((_INSERT if new else _UPDATE)[kind], _encode(rows).decode())

    async def apply(self, conn: Connection, writes: Sequence[tuple[int, Write]]) -> None:
        by_type: dict[type[Write], list[tuple[int, Any]]] = defaultdict(list)
        for id_, write in writes:
            by_type[type(write)].append((id_, write))
        # Tasks end before new ones of their type begin: only one may be live.
        for type_ in (EndTask, CreateTask, AnswerIntent, RevokeBootstrap, ForgetAgent):
            if group := by_type.get(type_):
                sql, columns = _STATEMENTS[type_]
                written = await conn.fetch(sql, *columns(group))
                if type_ is EndTask:
                    _all_ended(group, {record["id"] for record in written})


def _node_row(node: Node, version: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(node, name) for name in _OWNED}
    live = node.workflow is not None and node.workflow.status in LIVE
    row["version"] = version
    row["live_workflow_kind"] = node.workflow.kind if node.workflow is not None and live else None
    return row


def _workflow_row(node_id: int, workflow: Workflow) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.structs.asdict(workflow)
    del row["status_entered_at"], row["stage_entered_at"]
    return row | {"node_id": node_id}


def _answers(group: Sequence[tuple[int, AnswerIntent]]) -> tuple[list[Any], ...]:
    return [w.intent for _, w in group], [w.verdict.value for _, w in group], [w.reason for _, w in group]


def _tasks(group: Sequence[tuple[int, CreateTask]]) -> tuple[list[Any], ...]:
    return (
        [id_ for id_, _ in group],
        [w.type.value for _, w in group],
        [w.ended.value if w.ended else None for _, w in group],
        [_encode(w.params).decode() for _, w in group],
        [w.attempt for _, w in group],
        [w.failures for _, w in group],
        [w.result for _, w in group],
    )


def _ends(group: Sequence[tuple[int, EndTask]]) -> tuple[list[Any], ...]:
    return [w.task for _, w in group], [w.status.value for _, w in group], [w.result for _, w in group]


def _all_ended(group: Sequence[tuple[int, EndTask]], ended: Collection[int]) -> None:
    """Its agent was quicker with a task that is not among `ended`: the run knew nothing of the result."""
    overtaken = {id_ for id_, write in group if write.task not in ended}
    if overtaken:
        raise session.OvertakenError(overtaken)


def _nodes(group: Sequence[tuple[int, Any]]) -> tuple[list[Any], ...]:
    return ([id_ for id_, _ in group],)


_STATEMENTS: dict[type[Write], tuple[str, Callable[[Sequence[tuple[int, Any]]], tuple[list[Any], ...]]]] = {
    AnswerIntent: (_ANSWER_INTENTS, _answers),
    CreateTask: (_CREATE_TASKS, _tasks),
    EndTask: (_END_TASKS, _ends),
    RevokeBootstrap: (_REVOKE_BOOTSTRAPS, _nodes),
    ForgetAgent: (_FORGET_AGENTS, _nodes),
}
