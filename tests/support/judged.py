"""The invariants of a node: at rest, and after each of its commits.

Used by the property tests on a real loop. Each row of the history has the version of its commit, so the values of all
layers after each commit can be reconstructed and checked.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice.explanation import explain
from farrier.model.intents.actions import ANSWERED_WHILE_PAUSED, Action
from farrier.model.loop.outcome import EndsBy
from farrier.model.node import edges, sla
from farrier.model.node.layers import LIVE, Layer, NodeStatus, WorkflowKind, WorkflowStatus
from farrier.model.node.limits import Limits
from tests.support.site import Machine

CARRIED = {NodeStatus.DRAINING, NodeStatus.REMOVING}


async def holds_now(machine: Machine) -> None:
    """Assert what must hold once the loop has nothing more to do."""
    site, row = machine.site, await machine.look()
    # On a busy machine the clock may jump past the lease of a run that a timer started: such a run is `lost`.
    assert site.ledger.errors == [] and {*site.ledger.verdicts} <= {"lost"}
    pending = await site.conn.fetch(
        "SELECT action FROM farrier.intents WHERE node_id = $1 AND status = 'pending'", machine.id
    )
    assert row["paused"] or not pending
    assert not ANSWERED_WHILE_PAUSED.intersection(Action(record["action"]) for record in pending)
    assert row["management"] not in ("verifying", "adopting")
    assert row["status"] != "active" or row["ever_onboarded"]
    if row["status"] == "active" and not row["paused"]:
        assert "quarantine" not in (await machine.conditions()).values(), "a condition keeps the node out of service"
    await has_a_next_step(machine, row)
    live = {task["type"] for task in await machine.tasks() if task["status"] in ("queued", "dispatched")}
    assert not live or row["live"] == "decommission"
    if row["status"] in CARRIED and row["stage"] in ("drain_node", "remove_gpuaas_node_record") and not row["paused"]:
        assert live, "the stage needs a live task"
    tries = msgspec.json.decode(row["bmc"]).get("tries", [])
    assert len(tries) <= 3, "more than three logins may have failed"
    has_a_limit_or_a_reason(row)


async def has_a_next_step(machine: Machine, row: Any) -> None:
    """Assert that a node which is not in service shows a reason, and who ends the wait: an intent or a person, or the
    node itself."""
    if row["status"] in ("active", "deleted"):
        return
    queries = PostgresQueries(machine.site.pool)
    page = await queries.node(machine.name)
    said = explain(page.rows[0], page.now, Limits())
    assert said.reason, row["status"]
    assert said.recommended or said.advice or said.ends_by is EndsBy.ITSELF, said


def has_a_limit_or_a_reason(row: Any) -> None:
    """Assert that `sla.limit` returns for every layer of the node."""
    facts = sla.SlaFacts(
        management=row["management"],
        onboarding=WorkflowStatus(row["workflow_status"]) if row["workflow"] == "onboarding" else None,
        has_mode=row["mode"] is not None,
        manage_asked="pending_at" in row["bmc"] or "asked_at" in row["bmc"],
    )
    for layer, value in ((Layer.STATUS, row["status"]), (Layer.MANAGEMENT, row["management"])):
        sla.limit(layer, value, facts=facts, overrides={})
    if row["live"] is not None:
        sla.limit(Layer(row["live"]), row["workflow_status"], stage=row["stage"], facts=facts, overrides={})


async def held_after_every_commit(machine: Machine) -> None:
    rows = await machine.site.conn.fetch(
        "SELECT version, layer, to_value FROM farrier.history WHERE kind = 'node' AND id = $1 ORDER BY version",
        machine.id,
    )
    commits: dict[int, dict[str, str]] = {}
    for row in rows:
        commits.setdefault(row["version"], {})[row["layer"]] = row["to_value"]
    standing: dict[str, str] = {}
    for version, moved in commits.items():
        standing |= moved
        status = NodeStatus(standing["status"])
        live = []
        for kind in WorkflowKind:
            if kind not in standing:
                continue
            workflow = WorkflowStatus(standing[kind])
            if workflow in LIVE or kind in moved:
                assert status in edges.FITTING[kind, workflow], (version, standing)
            if workflow in LIVE:
                live.append(kind)
        assert len(live) <= 1, (version, standing)
        assert status not in CARRIED or live == [WorkflowKind.DECOMMISSION], (version, standing)
