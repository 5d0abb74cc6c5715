"""`protocols.FleetApi` on PostgreSQL: the operations of an external service on nodes.

Simulations use this module. If the database refuses an operation, `RefusedByModel` is raised with the database's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import msgspec

from farrier.io import api, refusals, statements
from farrier.io.pool import Pool
from farrier.model.actions import API_MAX, Action
from farrier.model.fleet import NodeGlance, PastMove
from farrier.model.management import Management
from farrier.model.requests import Registration
from farrier.model.status import NodeStatus
from farrier.model.workflow import WorkflowStatus

_ASK = statements.load("fleet/ask")
_GLANCE = statements.load("fleet/glance")
_MOVES = statements.load("fleet/moves")
_NEWEST = statements.load("fleet/newest")


class PostgresFleet:
    """Implements `protocols.FleetApi`. `name` is the requester that intents name."""

    def __init__(self, connections: Pool, name: str) -> None:
        self._pool = connections
        self._name = name

    async def register(self, nodes: Sequence[Registration]) -> None:
        await self._fetch(api.REGISTER, api.registrations(nodes))

    async def ask(self, node: str, action: Action, params: Mapping[str, Any]) -> int:
        (record,) = await self._fetch(_ASK, node, action.value, _json(params), self._name, API_MAX)
        intent: int = record["id"]
        return intent

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        return tuple(_glance(record) for record in await self._fetch(_GLANCE, after))

    async def moves(self, newest: int) -> tuple[PastMove, ...]:
        return tuple(PastMove(*record) for record in await self._fetch(_MOVES, newest))

    async def newest(self) -> int:
        (record,) = await self._fetch(_NEWEST)
        id_: int = record[0]
        return id_

    async def _fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        async with refusals.borrowed(self._pool) as conn:
            return await conn.fetch(sql, *arguments)


def _glance(record: asyncpg.Record) -> NodeGlance:
    workflow = record["workflow_status"]
    return NodeGlance(
        id=record["id"],
        name=record["name"],
        status=NodeStatus(record["status"]),
        management=Management(record["management"]),
        reason=record["reason"],
        workflow_status=None if workflow is None else WorkflowStatus(workflow),
        stage=record["stage"],
        failure=record["failure_class"],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
