"""The system catalogs' description of the schema `farrier`, as lines by which tests compare two databases."""

from __future__ import annotations

from pathlib import Path

from farrier.io.connections.pool import Connection

_LINES = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
_PLACES = Path(__file__).with_name("places.sql").read_text(encoding="utf-8")


async def catalogs(conn: Connection) -> set[str]:
    """One line for each function, view, trigger, table, column, constraint, index, right and comment."""
    return {row[0] for row in await conn.fetch(_LINES)}


async def places(conn: Connection) -> dict[str, str]:
    """The position (ctid) of each of the schema's rows in the catalogs; a row that is rewritten gets another one."""
    return {row[0]: row[1] for row in await conn.fetch(_PLACES)}
