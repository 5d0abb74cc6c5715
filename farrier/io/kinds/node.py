"""Nodes in PostgreSQL: reads a snapshot, and prepares the result of a run for the commit.

Implements `rows.Rows`, which the StateIO calls. `farrier.write_nodes_and_networks` takes the result of `changes`; the
fields of this result have the names of columns. The module uses no connection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from farrier.io import decoding, statements
from farrier.io.kinds.rows import Changes
from farrier.model.loop.runs import Finished
from farrier.model.node.edges import NODE
from farrier.model.node.snapshot import Node, Workflow
from farrier.model.node.status import NodeStatus
from farrier.model.node.workflow import LIVE
from farrier.model.node.writes import (
    AnswerIntent,
    CreateTask,
    EndTask,
    ForgetAgent,
    IssueBootstrap,
    LeaveService,
    LiftHold,
    RevokeBootstrap,
    SetDetails,
    UseNetworks,
    Write,
)

# The columns of `nodes` that a run owns. The fields of Node have the same names.
_OWNED = [
    "id",
    "status",
    "management",
    "bmc_address",
    "bmc_credential",
    "bmc",
    "maas_id",
    "maas_created",
    "paused",
    "ever_onboarded",
    "ever_active",
    "deleting",
    "redeploying",
    "cleaned",
]


# The sections of writes that have no fields.
_WITHOUT_FIELDS: Mapping[type[Write], str] = {
    RevokeBootstrap: "revoked",
    ForgetAgent: "forgotten",
    LiftHold: "lifted",
}


class NodeRows:
    """Implements `rows.Rows` for kind `node`."""

    kind = NODE
    writer = "farrier.write_nodes_and_networks"
    decode = staticmethod(decoding.reader(Node, "a node"))
    load = statements.load("node/load")
    interrupted = statements.load("node/interrupted")

    def changes(self, runs: Sequence[Finished[Node, Write]]) -> Changes:
        """Return the rows that the runs write. The keys are the sections of the argument of
        `write_nodes_and_networks`."""
        changes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for run in runs:
            if run.to is not None:
                changes["nodes"].append({**_node_row(run.id, run.to), "commit_id": run.commit_id})
                if run.to.bmc.trying is not None:
                    changes["logins"].append(_login_row(run.id, run.to))
                if run.to.workflow is not None:
                    section = f"{'new_' * (run.to.workflow.id == 0)}{run.to.workflow.kind}s"
                    changes[section].append(_workflow_row(run.id, run.to.workflow))
                if isinstance(run.was, Node) and run.to.conditions is not run.was.conditions:
                    _add_conditions(changes, run.id, run.was, run.to)
                if run.to.status is NodeStatus.DELETED:
                    changes["networks"].append({"run": run.id, **msgspec.structs.asdict(UseNetworks())})
            for write in run.writes:
                section, row = _write_row(write)
                changes[section].append({"run": run.id, **row})
        return changes


def _node_row(run: int, node: Node) -> dict[str, Any]:
    """Return the columns of `nodes` that the run writes."""
    row: dict[str, Any] = {name: getattr(node, name) for name in _OWNED}
    live = node.workflow is not None and node.workflow.status in LIVE
    if node.bmc.others:
        row["bmc"] = msgspec.structs.replace(node.bmc, others=())
    row["run"] = run
    row["live_workflow_kind"] = node.workflow.kind if node.workflow is not None and live else None
    return row


def _add_conditions(changes: dict[str, list[dict[str, Any]]], run: int, was: Node, to: Node) -> None:
    """Add the conditions that the run begins, changes and ends."""
    before = {each.key: each for each in was.conditions}
    after = {each.key: each for each in to.conditions}
    for key, each in after.items():
        if before.get(key) != each:
            changes["conditions"].append({"run": run, **msgspec.structs.asdict(each)})
    for source, id_, target in before.keys() - after.keys():
        changes["ended_conditions"].append({"run": run, "source": source, "id": id_, "target": target})


def _login_row(run: int, node: Node) -> dict[str, Any]:
    """Return the columns with which the database checks the login cap. The run permits a login to the node's BMC."""
    return {"run": run, "address": node.bmc_address, "trying": node.bmc.trying, "tries": node.bmc.tries}


def _workflow_row(run: int, workflow: Workflow) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.structs.asdict(workflow)
    del row["status_entered_at"], row["stage_entered_at"]
    return row | {"run": run, "node_id": run}


def _write_row(write: Write) -> tuple[str, dict[str, Any]]:
    """Return the section for one write of a run, and the row for this section."""
    match write:
        case AnswerIntent():
            return "answers", {"intent": write.intent, "status": write.status, "reason": write.reason}
        case CreateTask():
            return "tasks", msgspec.structs.asdict(write)
        case EndTask():
            return "ends", msgspec.structs.asdict(write)
        case IssueBootstrap():
            return "tokens", {"digest": write.digest, "seconds": write.ttl.total_seconds()}
        case SetDetails():
            return "details", msgspec.structs.asdict(write)
        case LeaveService():
            return "leaving", {"source": write.source}
        case RevokeBootstrap() | ForgetAgent() | LiftHold():
            return _WITHOUT_FIELDS[type(write)], {}
        case UseNetworks():
            return "networks", msgspec.structs.asdict(write)
        case _ as never:
            assert_never(never)
