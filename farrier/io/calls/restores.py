"""What only the owner of the schema may record: that the database was restored from a backup, or moved."""

from __future__ import annotations

from farrier.io import statements
from farrier.io.connections.pool import Connection

_RESTORED = statements.load("schema/hold_restored")
_MOVED = statements.load("schema/move_here")


async def restored(conn: Connection) -> int:
    """Hold every resource. Returns the number of resources."""
    held: int = await conn.fetchval(_RESTORED)
    return held


async def moved(conn: Connection) -> int:
    """Record that this database is the same installation in a new place. Returns the number of lifted holds."""
    lifted: int = await conn.fetchval(_MOVED)
    return lifted
