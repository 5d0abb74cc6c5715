"""`protocols.AgentApi` on PostgreSQL: the SQL functions that agents call, for simulated agents.

One statement handles any number of agents, so a simulation of a thousand agents is cheap. If the database refuses an
operation, `RefusedByModel` is raised with the database's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec

from farrier.errors import RefusedByModel
from farrier.io import refusals, statements
from farrier.io.pool import Pool
from farrier.model.agent import AgentTask, Enrolled, Heartbeat
from farrier.model.node import TaskType

_ENROLL = statements.load("agents/enroll")
_HEARTBEAT = statements.load("agents/heartbeat")
_CLAIM = statements.load("agents/claim")
_RENEW = statements.load("agents/renew")
_FINISH = statements.load("agents/finish")


class PostgresAgents:
    """Implements `protocols.AgentApi`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def enroll(self, token: str, facts: Mapping[str, Any]) -> Enrolled:
        (record,) = await self._fetch(_ENROLL, token, _json(facts))
        if record["refused"] is not None:
            raise RefusedByModel(record["refused"])
        return Enrolled(record["node"], record["agent_key"])

    async def beat(self, beats: Sequence[Heartbeat]) -> frozenset[int]:
        rows = [{"node": b.agent.node, "key": b.agent.key, "health": b.health} for b in beats]
        return frozenset(record["node"] for record in await self._fetch(_HEARTBEAT, _json(rows)))

    async def claim(
        self, agents: Sequence[Enrolled], types: Sequence[TaskType], lease: timedelta
    ) -> tuple[AgentTask, ...]:
        rows = [{"node": agent.node, "key": agent.key} for agent in agents]
        records = await self._fetch(_CLAIM, _json(rows), [type_.value for type_ in types], lease)
        return tuple(
            AgentTask(
                id=record["task"],
                agent=Enrolled(record["node"], record["key"]),
                type=TaskType(record["type"]),
                lease_token=record["lease_token"],
            )
            for record in records
        )

    async def renew(self, task: AgentTask, lease: timedelta) -> None:
        await self._fetch(_RENEW, task.agent.node, task.id, task.lease_token, task.agent.key, lease)

    async def finish(self, task: AgentTask, *, succeeded: bool, result: Mapping[str, Any]) -> None:
        agent = task.agent
        await self._fetch(_FINISH, agent.node, task.id, task.lease_token, agent.key, succeeded, _json(result))

    async def _fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        async with refusals.borrowed(self._pool) as conn:
            return await conn.fetch(sql, *arguments)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
