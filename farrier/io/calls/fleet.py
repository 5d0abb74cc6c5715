"""`protocols.FleetApi` on PostgreSQL: registers and reads the nodes of a simulated fleet.

Simulations use this module. If the database refuses an operation, `RefusedByModel` is raised with the database's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec

from farrier.io import statements
from farrier.io.calls import requests
from farrier.io.connections import refusals
from farrier.io.connections.pool import Pool
from farrier.model.intents.requests import Registration
from farrier.model.views.fleet import NodeGlance

_GLANCE = statements.load("fleet/glance")
_NEWEST = statements.load("fleet/newest")


class PostgresFleet:
    """Implements `protocols.FleetApi`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def register(self, nodes: Sequence[Registration]) -> None:
        await self._fetch(requests.REGISTER, requests.registrations(nodes))

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        return tuple(msgspec.convert(dict(record), NodeGlance) for record in await self._fetch(_GLANCE, after))

    async def newest(self) -> int:
        (record,) = await self._fetch(_NEWEST)
        id_: int = record[0]
        return id_

    async def _fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        async with refusals.borrowed(self._pool) as conn:
            return await conn.fetch(sql, *arguments)
