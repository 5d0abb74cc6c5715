"""`protocols.FleetApi` on PostgreSQL: reads the nodes of a simulated fleet."""

from __future__ import annotations

import msgspec

from farrier.io import statements
from farrier.io.connections import refusals
from farrier.io.connections.pool import Pool
from farrier.model.views.fleet import NodeGlance

_GLANCE = statements.load("fleet/glance")


class PostgresFleet:
    """Implements `protocols.FleetApi`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        async with refusals.borrowed(self._pool) as conn:
            return tuple(msgspec.convert(dict(record), NodeGlance) for record in await conn.fetch(_GLANCE, after))
