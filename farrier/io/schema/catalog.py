"""Copies the model into the tables that triggers and functions read: edges, initial states, mapping, actions, kinds.

Every migration calls this module at the migration's end, under its lock. Rows that are not in the code's model are
deleted, so the database refuses exactly the same things as the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from farrier.config import NodeConfig
from farrier.io import codec, statements
from farrier.io.connections.pool import Connection
from farrier.io.queries.census import node_columns
from farrier.model.intents import actions, params
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindSpec
from farrier.model.loop import doors
from farrier.model.machine import bmc, expected, health, identity, observation
from farrier.model.node import conditions, edges, evidence, layers, sla, stages
from farrier.model.node import spec as node_spec
from farrier.model.node.layers import NodeStatus
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import TaskType

_REPLACE_ROWS = statements.load("catalog/replace_rows")
_OWN_TABLE = statements.load("catalog/own_table")
_MAKE_KIND = statements.load("schema/make_kind")
_MAKE_SHARDS = statements.load("schema/make_shards")
_KIND_FINGERPRINT = statements.load("catalog/kind_fingerprint")
_CONSTANTS = statements.load("catalog/constants")
_DERIVE_IDENTITIES = statements.load("catalog/derive_identities")
_SETTINGS = statements.load("catalog/settings")
_DEFAULT_SETTINGS = statements.load("catalog/default_settings")
_LIMITS = statements.load("catalog/limits")
_DEFAULT_LIMITS = statements.load("catalog/default_limits")

# The rows of a table, as objects with the table's columns.
Rows: TypeAlias = list[dict[str, Any]]


async def sync(conn: Connection) -> None:
    """Make the tables equal to the model. This may be called any number of times."""
    async with conn.transaction():
        for table, rows in _model().items():
            await _replace(conn, table, rows)
        of_nodes = node_spec.SPEC
        await conn.execute(_OWN_TABLE, of_nodes.name, of_nodes.relation, f"status <> '{NodeStatus.DELETED}'", "name")
        await conn.execute(_MAKE_SHARDS, of_nodes.name)
        await sync_kinds(conn, (of_nodes, *BUILT_IN))
        if await conn.fetchval(_CONSTANTS, *_constants()):
            await conn.execute(_DERIVE_IDENTITIES)
        await conn.execute(_DEFAULT_SETTINGS, *_settings(NodeConfig()))
        await conn.execute(_DEFAULT_LIMITS, *node_columns(Limits()))


async def sync_kinds(conn: Connection, specs: Sequence[KindSpec]) -> None:
    """Make the rows of these kinds in the tables of the model equal to the specs. Rows of other kinds do not change.
    May be repeated."""
    kinds = [spec.name for spec in specs]
    async with conn.transaction():
        for table, rows_of in _OF_KIND.items():
            await _replace(conn, table, [row for spec in specs for row in rows_of(spec)], kinds)
        for spec in specs:
            if spec.from_template:
                await conn.execute(_MAKE_KIND, spec.name, spec.relation)
            await conn.execute(_KIND_FINGERPRINT, spec.name, fingerprint(spec))


async def _replace(conn: Connection, table: str, rows: Rows, of_kinds: Sequence[str] | None = None) -> None:
    await conn.execute(_REPLACE_ROWS, f"farrier.{table}", codec.encode(rows), of_kinds)


def fingerprint(spec: KindSpec) -> str:
    """Return a hash of the spec. If the tables were written from an equal spec, the recorded hash is the same."""
    return sha256(msgspec.json.encode([rows_of(spec) for rows_of in _OF_KIND.values()])).hexdigest()


def _edges_of(spec: KindSpec) -> Rows:
    return [
        {"kind": spec.name, "layer": layer.name, "from_value": source, "to_value": target}
        for layer in spec.every_layer
        for source, target in sorted(layer.pairs)
    ]


def _layers_of(spec: KindSpec) -> Rows:
    return [
        {"kind": spec.name, "layer": layer.name, "label": layer.label, "relation": layer.relation or None}
        for layer in spec.every_layer
    ]


def _states_of(spec: KindSpec) -> Rows:
    return [
        {
            "kind": spec.name,
            "layer": layer.name,
            "state": name,
            "initial": name in layer.first,
            "terminal": name in layer.terminal,
            "sla": state.limit,
            "why_none": state.why_none,
        }
        for layer in spec.every_layer
        for name, state in layer.states.items()
    ]


def _actions_of(spec: KindSpec) -> Rows:
    return [
        {
            "kind": spec.name,
            "action": name,
            "description": action.description,
            "params": params.describe(action.params),
            "states": spec.states_accepting(name),
            "instead": action.instead,
            "interrupts": action.interrupts,
        }
        for name, action in spec.requests.items()
    ]


_OF_KIND: Mapping[str, Callable[[KindSpec], Rows]] = {
    "edges": _edges_of,
    "kind_layers": _layers_of,
    "kind_states": _states_of,
    "kind_actions": _actions_of,
}


def _model() -> dict[str, Rows]:
    """Return the tables that depend on no kind, with their rows."""
    return {
        "workflow_mapping": _mapping(),
        "clock_stops": [
            {"kind": layers.LAYER_KIND[stop.layer], "state": stop.state, "fact": stop.fact, "value": value}
            for stop in sla.STOPS
            for value in stop.values
        ],
        "contradictions": [
            {"state": each.state, "statuses": sorted(each.statuses), "lasts": each.lasts}
            for each in expected.contradictions()
        ],
        "workflow_modes": [
            {"mode": mode, "uses_maas": mode not in stages.OUTSIDE_MAAS, "own_system": mode in stages.IN_ITS_OWN_SYSTEM}
            for mode in stages.PATHS
        ],
        "workflow_statuses": [
            {
                "status": status,
                "ended": status in layers.TERMINAL,
                "succeeded": status in layers.SUCCEEDED,
                "failed": status in layers.FAILED,
                "at_work": status in layers.AT_WORK,
            }
            for status in layers.WorkflowStatus
        ],
        "actions": [
            {
                "action": action,
                "since": spec.since,
                "while_paused": action in actions.ANSWERED_WHILE_PAUSED,
                "overtakes": spec.overtakes,
                "destructive": None if spec.destructive is None else spec.destructive.text,
            }
            for action, spec in actions.ACTIONS.items()
        ],
        "task_types": [{"type": type_} for type_ in TaskType],
    }


def _mapping() -> Rows:
    """Return the rows of workflow_mapping. Kind and workflow status are `none` if no workflow is live."""
    mapped: Rows = [
        {"kind": kind, "workflow_status": status, "node_status": node_status}
        for (kind, status), node_statuses in edges.FITTING.items()
        for node_status in sorted(node_statuses)
    ]
    free: Rows = [
        {"kind": "none", "workflow_status": "none", "node_status": status} for status in edges.WITHOUT_WORKFLOW
    ]
    return mapped + free


def _constants() -> tuple[Any, ...]:
    """Return the arguments of the statement that writes the columns of `farrier.constants`."""
    return (
        actions.API_MIN,
        actions.API_MAX,
        observation.CONFIRMED_AFTER,
        bmc.LOGIN_CAP,
        bmc.LOGIN_WINDOW,
        health.SSH_SEED_LIMIT,
        list(identity.PLACEHOLDERS),
        health.BRAKE_RETRY,
        doors.PULSE_LOST,
        doors.REACH_LOST,
        doors.REACH_EXPECTED,
        codec.encode(evidence.SCHEMA),
        conditions.MOST_OF_SOURCE,
    )


def _settings(node: NodeConfig) -> tuple[Any, ...]:
    """Return the arguments of the statements that write the columns of `farrier.settings`."""
    return node.offline_after, node.brake_share, node.brake_at_least, node.brake_window


async def set_settings(conn: Connection, node: NodeConfig) -> None:
    """Make the table `farrier.settings` equal to these settings. SQL functions read this table."""
    await conn.execute(_SETTINGS, *_settings(node))


async def set_limits(conn: Connection, held: Limits) -> None:
    """Make the table `farrier.limits` equal to these limits. Views compute from it which clocks are above their
    limits."""
    await conn.execute(_LIMITS, *node_columns(held))
