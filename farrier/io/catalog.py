"""Copies the model into the tables that triggers and functions read: edges, initial states, mapping, actions, kinds.

Every migration calls this module at the migration's end, under its lock. Rows that are not in the code's model are
deleted, so the database refuses exactly the same things as the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from farrier.config import NodeConfig
from farrier.io import statements
from farrier.io.census import node_columns
from farrier.io.pool import Connection
from farrier.model import (
    actions,
    bmc,
    edges,
    expected,
    failures,
    health,
    identity,
    mapping,
    node_spec,
    observation,
    params,
    sla,
    stages,
    workflow,
)
from farrier.model.built_in import BUILT_IN
from farrier.model.kinds import KindSpec
from farrier.model.limits import Limits
from farrier.model.node import TaskType
from farrier.model.status import NodeStatus

_EDGES = statements.load("catalog/edges")
_MAPPING = statements.load("catalog/mapping")
_WORKFLOW_MODES = statements.load("catalog/workflow_modes")
_WORKFLOW_STATUSES = statements.load("catalog/workflow_statuses")
_ENDED_WORKFLOWS = statements.load("catalog/ended_workflows")
_ACTIONS = statements.load("catalog/actions")
_CLOCK_STOPS = statements.load("catalog/clock_stops")
_CONTRADICTIONS = statements.load("catalog/contradictions")
_ADVICE = statements.load("catalog/advice")
_TASK_TYPES = statements.load("catalog/task_types")
_OWN_TABLES = statements.load("catalog/own_tables")
_MAKE_KIND = statements.load("schema/make_kind")
_MAKE_SHARDS = statements.load("schema/make_shards")
_KIND_LAYERS = statements.load("catalog/kind_layers")
_KIND_STATES = statements.load("catalog/kind_states")
_KIND_ACTIONS = statements.load("catalog/kind_actions")
_KIND_FINGERPRINT = statements.load("catalog/kind_fingerprint")
_CONSTANTS = statements.load("catalog/constants")
_DERIVE_IDENTITIES = statements.load("catalog/derive_identities")
_SETTINGS = statements.load("catalog/settings")
_DEFAULT_SETTINGS = statements.load("catalog/default_settings")
_LIMITS = statements.load("catalog/limits")
_DEFAULT_LIMITS = statements.load("catalog/default_limits")


async def sync(conn: Connection) -> None:
    """Make the tables equal to the model. This may be called any number of times."""
    async with conn.transaction():
        await conn.execute(_MAPPING, *_columns(_mapping(), width=3))
        await conn.execute(_CLOCK_STOPS, *_columns(_clock_stops(), width=4))
        await conn.execute(_CONTRADICTIONS, *_columns(_contradictions(), width=3))
        await conn.execute(_WORKFLOW_MODES, *_columns(_workflow_modes(), width=2))
        await conn.execute(_WORKFLOW_STATUSES, *_columns(_workflow_statuses(), width=5))
        await conn.execute(_ENDED_WORKFLOWS)
        await _sync_actions(conn)
        await conn.execute(_OWN_TABLES, *_columns(_own_tables(), width=4))
        await conn.execute(_MAKE_SHARDS, node_spec.SPEC.name)
        await sync_kinds(conn, (node_spec.SPEC, *BUILT_IN))
        await conn.execute(_TASK_TYPES, list(TaskType))
        advice = _advice()
        await conn.execute(_ADVICE, list(advice), list(advice.values()))
        if await conn.fetchval(_CONSTANTS, *_constants()):
            await conn.execute(_DERIVE_IDENTITIES)
        await conn.execute(_DEFAULT_SETTINGS, *_settings(NodeConfig()))
        await conn.execute(_DEFAULT_LIMITS, *node_columns(Limits()))


async def sync_kinds(conn: Connection, specs: Sequence[KindSpec]) -> None:
    """Make the rows of these kinds in the tables of the model equal to the specs. Rows of other kinds do not change.
    May be repeated."""
    if not specs:
        return
    layers = [row for spec in specs for row in _layers_of(spec)]
    edges_ = [row for spec in specs for row in _edges_of(spec)]
    states = [row for spec in specs for row in _states_of(spec)]
    asked = [row for spec in specs for row in _actions_of(spec)]
    async with conn.transaction():
        await conn.execute(_EDGES, *_columns(edges_, width=4))
        await conn.execute(_KIND_LAYERS, *_columns(layers, width=4))
        await conn.execute(_KIND_STATES, *_columns(states, width=7))
        await conn.execute(_KIND_ACTIONS, *_columns(asked, width=7))
        for spec in specs:
            if spec.from_template:
                await conn.execute(_MAKE_KIND, spec.name, spec.relation)
            await conn.execute(_KIND_FINGERPRINT, spec.name, fingerprint(spec))


def fingerprint(spec: KindSpec) -> str:
    """Return a hash of the spec. If the tables were written from an equal spec, the recorded hash is the same."""
    rows = (_layers_of(spec), sorted(_edges_of(spec)), _states_of(spec), _actions_of(spec))
    return sha256(msgspec.json.encode(rows)).hexdigest()


def _edges_of(spec: KindSpec) -> list[tuple[str, ...]]:
    """Return rows (kind, layer, from, to)."""
    layers = spec.every_layer
    return [(spec.name, layer.name, *pair) for layer in layers for pair in sorted(layer.pairs)]


def _layers_of(spec: KindSpec) -> list[tuple[str, ...]]:
    """Return rows (kind, layer, label, table). The table is set only if the layer is not in the kind's table."""
    return [(spec.name, layer.name, layer.label, layer.relation) for layer in spec.every_layer]


def _states_of(spec: KindSpec) -> list[tuple[Any, ...]]:
    """Return rows (kind, layer, state, initial, terminal, limit, reason for having no limit)."""
    return [
        (spec.name, layer.name, name, name in layer.first, name in layer.terminal, state.limit, state.why_none)
        for layer in spec.every_layer
        for name, state in layer.states.items()
    ]


def _actions_of(spec: KindSpec) -> list[tuple[Any, ...]]:
    """Return rows (kind, action, description, rules of its parameters, states that accept it, alternative, interrupts),
    with `create` first. Blanks separate the states."""
    return [
        (
            spec.name,
            name,
            action.description,
            _rules(action.params),
            " ".join(spec.states_accepting(name)),
            action.instead,
            action.interrupts,
        )
        for name, action in spec.requests.items()
    ]


def _rules(of: type[params.Params]) -> str:
    return msgspec.json.encode(params.describe(of)).decode()


def _own_tables() -> list[tuple[str, ...]]:
    """Return rows (kind, table, SQL condition for a row that has not ended, column of names)."""
    return [(node_spec.SPEC.name, node_spec.SPEC.relation, f"status <> '{NodeStatus.DELETED}'", "name")]


def _mapping() -> list[tuple[str, ...]]:
    """Return rows (kind, workflow status, node status). Kind and workflow status are `none` if no workflow is live."""
    pairs = ((row.kind, row.workflow_status, row.node_status) for row in mapping.ROWS)
    return [*pairs, *(("none", "none", status) for status in sorted(mapping.WITHOUT_WORKFLOW))]


def _contradictions() -> list[tuple[str, ...]]:
    """Return rows (state, statuses, causes). Blanks separate several statuses or causes."""
    found = expected.contradictions()
    return [(each.state, " ".join(sorted(each.statuses)), " ".join(sorted(each.causes))) for each in found]


def _workflow_modes() -> list[tuple[Any, ...]]:
    """Return rows (mode, uses MAAS)."""
    return [(mode, mode not in stages.OUTSIDE_MAAS) for mode in stages.PATHS]


def _workflow_statuses() -> list[tuple[Any, ...]]:
    """Return rows (status, ended, succeeded, failed, at work)."""
    sets = (workflow.TERMINAL, workflow.SUCCEEDED, workflow.FAILED, workflow.AT_WORK)
    return [(status, *(status in of for of in sets)) for status in workflow.WorkflowStatus]


def _clock_stops() -> list[tuple[str, ...]]:
    """Return rows (kind, state, fact, value)."""
    return [(edges.LAYER_KIND[stop.layer], stop.state, stop.fact, value) for stop in sla.STOPS for value in stop.values]


def _columns(rows: Sequence[tuple[Any, ...]], *, width: int) -> list[list[Any]]:
    """Return the rows as one array for each column, which SQL's `unnest` takes."""
    return [[row[column] for row in rows] for column in range(width)]


def _constants() -> tuple[Any, ...]:
    """Return the columns of `farrier.constants` as arguments of its statement."""
    return (
        actions.API_MIN,
        actions.API_MAX,
        observation.CONFIRMED_AFTER,
        bmc.LOGIN_CAP,
        bmc.LOGIN_WINDOW,
        health.SSH_SEED_LIMIT,
        list(identity.PLACEHOLDERS),
        health.BRAKE_RETRY,
    )


def _settings(node: NodeConfig) -> tuple[Any, ...]:
    """Return the columns of `farrier.settings` as arguments of its statements."""
    return node.offline_after, node.brake_share, node.brake_at_least, node.brake_window


async def set_settings(conn: Connection, node: NodeConfig) -> None:
    """Make the table `farrier.settings` equal to these settings. SQL functions read this table."""
    await conn.execute(_SETTINGS, *_settings(node))


async def set_limits(conn: Connection, held: Limits) -> None:
    """Make the table `farrier.limits` equal to these limits. Views compute from it which clocks are above their
    limits."""
    await conn.execute(_LIMITS, *node_columns(held))


async def _sync_actions(conn: Connection) -> None:
    specs = list(actions.ACTIONS.items())
    await conn.execute(
        _ACTIONS,
        [action for action, _ in specs],
        [spec.since for _, spec in specs],
        [action in actions.ANSWERED_WHILE_PAUSED for action, _ in specs],
    )


def _advice() -> dict[str, str]:
    """Return the recommended action for each failure. The keys of quarantine causes and of BMC failures have a
    prefix."""
    table = {str(failure): advice.action for failure, advice in failures.FAILURES.items()}
    table |= {f"quarantine:{cause}": text for cause, text in failures.QUARANTINE_ADVICE.items()}
    return table | {f"bmc:{failure}": text for failure, text in failures.BMC_ADVICE.items()}
