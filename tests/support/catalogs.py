"""What a server's catalogs say of the schema `farrier`, in a form that two databases can be compared by."""

from __future__ import annotations

from pathlib import Path

from farrier.io.pool import Connection

_LINES = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
_PLACES = Path(__file__).with_name("places.sql").read_text(encoding="utf-8")


async def catalogs(conn: Connection) -> set[str]:
    """One line for each function, view, trigger, table, column, constraint, index, right and comment."""
    return {row[0] for row in await conn.fetch(_LINES)}


async def places(conn: Connection) -> dict[str, str]:
    """Where in the catalogs everything of the schema lies: what is written anew lies elsewhere."""
    return {row[0]: row[1] for row in await conn.fetch(_PLACES)}
