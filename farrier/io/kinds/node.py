"""Nodes in PostgreSQL: reads a snapshot, and prepares the result of a run for the commit.

Implements `rows.Rows`, which the StateIO calls. `farrier.write_nodes_and_networks` takes the result of `written`. The
module uses no connection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeGuard, assert_never

import msgspec

from farrier.io import codec, statements
from farrier.io.kinds.rows import placed
from farrier.model.loop.runs import Finished
from farrier.model.node.layers import LIVE, NODE, NodeStatus, WorkflowKind
from farrier.model.node.snapshot import Node, Workflow
from farrier.model.node.writes import (
    AnswerIntent,
    CreateTask,
    EndTask,
    ForgetAgent,
    IssueBootstrap,
    LeaveService,
    LiftHold,
    RevokeBootstrap,
    SectionWrite,
    SetDetails,
    UseNetworks,
    Write,
)

# The columns of `nodes` that a run owns in addition to the state. The fields of Node have the same names.
_FACTS = (
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
)
_facts = attrgetter(*_FACTS)

# The sections of writes that have no fields.
_WITHOUT_FIELDS: Mapping[type[Write], str] = {
    RevokeBootstrap: "revoked",
    ForgetAgent: "forgotten",
    LiftHold: "lifted",
}

SECTIONS = (
    *("ends", "logins", "touched", "nodes", "networks", "details", "tasks", "answers", "tokens"),
    *("new_onboardings", "new_decommissions", "onboardings", "decommissions", "conditions", "ended_conditions"),
    *_WITHOUT_FIELDS.values(),
)
"""All sections of `_sections`."""


class NodeRows:
    """Implements `rows.Rows` for kind `node`."""

    kind = NODE
    write = statements.load("node/write")
    decode = staticmethod(codec.reader(Node, "a node"))
    load = statements.load("node/load")
    interrupted = statements.load("node/interrupted")

    def written(self, runs: Sequence[Finished[Node, Write]]) -> Sequence[Any]:
        """Return the sections of the runs, and the columns of `nodes` that they write. The order is that of the
        parameters of `write_nodes_and_networks`."""
        states = [run.to if run.to is not None and _changes_only_state(run.was, run.to) else None for run in runs]
        places, written = placed(map(_columns, runs, states), width=5)
        return (
            codec.encode(_sections(runs, states)),
            [run.id for run in runs],
            [run.version for run in runs],
            places,
            *written,
        )

    def rehearsed(self) -> Sequence[Any]:
        return codec.encode(dict.fromkeys(SECTIONS, ())), *self.written(())[1:]


def _sections(
    runs: Sequence[Finished[Node, Write]], states: Sequence[Node | None]
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return everything that the runs write, by section. Each element names its run. `states` has the nodes of the runs
    that change only the state; the sections do not contain these states."""
    sections: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run, state in zip(runs, states, strict=True):
        if run.to is None:
            if run.writes:
                sections["touched"].append({"run": run.id, "commit_id": run.commit_id})
        else:
            if state is None:
                sections["nodes"].append(_node_row(run, run.to))
            if run.to.bmc.trying is not None:
                sections["logins"].append(_login_row(run.id, run.to))
            if run.to.workflow is not None:
                section = f"{'new_' * (run.to.workflow.id == 0)}{run.to.workflow.kind}s"
                sections[section].append(_workflow_row(run.id, run.to.workflow))
            if isinstance(run.was, Node) and run.to.conditions is not run.was.conditions:
                _add_conditions(sections, run.id, run.was, run.to)
            if run.to.status is NodeStatus.DELETED:
                sections["networks"].append({"run": run.id, **msgspec.structs.asdict(UseNetworks())})
        for write in filter(_has_section, run.writes):
            section, row = _write_row(write)
            sections[section].append({"run": run.id, **row})
    return sections


def _changes_only_state(was: object, to: Node) -> bool:
    """Return whether the database has the present values of all columns except the state. It lacks the time of the last
    read of power if this time was only confirmed."""
    return isinstance(was, Node) and was.stored_power_at is None and _facts(was) == _facts(to)


def _columns(run: Finished[Node, Write], state: Node | None) -> tuple[object, ...]:
    """Return what the run writes into columns that the commit has for each run."""
    cause = (
        next((write.source for write in run.writes if isinstance(write, LeaveService)), None) if run.writes else None
    )
    if state is None:
        return run.commit_id, None, None, None, cause
    return run.commit_id, state.status, state.management, _live_kind(state), cause


def _live_kind(node: Node) -> WorkflowKind | None:
    return node.workflow.kind if node.workflow is not None and node.workflow.status in LIVE else None


def _node_row(run: Finished[Node, Write], node: Node) -> dict[str, Any]:
    """Return the columns of `nodes` that the run owns."""
    row: dict[str, Any] = {name: getattr(node, name) for name in ("id", "status", "management", *_FACTS)}
    if node.bmc.others:
        row["bmc"] = msgspec.structs.replace(node.bmc, others=())
    return row | {"run": run.id, "live_workflow_kind": _live_kind(node), "commit_id": run.commit_id}


def _add_conditions(sections: dict[str, list[dict[str, Any]]], run: int, was: Node, to: Node) -> None:
    """Add the conditions that the run begins, changes and ends."""
    before = {each.key: each for each in was.conditions}
    after = {each.key: each for each in to.conditions}
    for key, each in after.items():
        if before.get(key) != each:
            sections["conditions"].append({"run": run, **msgspec.structs.asdict(each)})
    for source, id_, target in before.keys() - after.keys():
        sections["ended_conditions"].append({"run": run, "source": source, "id": id_, "target": target})


def _login_row(run: int, node: Node) -> dict[str, Any]:
    """Return the columns with which the database checks the login cap. The run permits a login to the node's BMC."""
    return {"run": run, "address": node.bmc_address, "trying": node.bmc.trying, "tries": node.bmc.tries}


def _workflow_row(run: int, workflow: Workflow) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.structs.asdict(workflow)
    del row["status_entered_at"], row["stage_entered_at"]
    return row | {"run": run, "node_id": run}


def _has_section(write: Write) -> TypeGuard[SectionWrite]:
    return not isinstance(write, LeaveService)  # its cause is one of the `_columns`


def _write_row(write: SectionWrite) -> tuple[str, dict[str, Any]]:
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
        case RevokeBootstrap() | ForgetAgent() | LiftHold():
            return _WITHOUT_FIELDS[type(write)], {}
        case UseNetworks():
            return "networks", msgspec.structs.asdict(write)
        case _ as never:
            assert_never(never)
