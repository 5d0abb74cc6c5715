"""Implements `protocols.Identities` on PostgreSQL: finds the node to which a machine belongs, and the machines that
several nodes have recorded.

Steps that have just read a BMC use this module on the loop's connections; `farrier db check` also uses it. The rules
are SQL functions, because the database enforces them for every writer.
"""

from __future__ import annotations

import msgspec
from typing_extensions import override

from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Connection, Pool
from farrier.model.machine.identity import Holder, Identity
from farrier.protocols import Identities

_HOLDER = statements.load("node/holder")
_DUPLICATES = statements.load("schema/duplicates")


class Duplicate(msgspec.Struct, frozen=True):
    """Nodes with the same machine, and the kind of identity that these nodes share."""

    kind: str
    nodes: tuple[str, ...]


class PostgresIdentities(Identities):
    """Implements `protocols.Identities`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    @override
    async def holder(self, node: int, machine: Identity) -> Holder | None:
        async with session.borrowed(self._pool) as conn:
            record = await conn.fetchrow(
                _HOLDER, node, machine.serial, machine.uuid, machine.manufacturer, list(machine.macs)
            )
        return None if record is None else Holder(record["name"], record["kind"])


async def duplicates(conn: Connection) -> tuple[Duplicate, ...]:
    """Return every machine that several nodes have recorded."""
    return tuple(Duplicate(record["kind"], tuple(record["nodes"])) for record in await conn.fetch(_DUPLICATES))
