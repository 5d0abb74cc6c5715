"""What all reads for people have in common: rows that are one JSON object each, the database's time, names.

Used by `queries` and `resource_queries`, on a connection that they borrowed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from farrier.errors import RefusedByModel, UndecodableState
from farrier.io import statements
from farrier.io.pool import Connection

T = TypeVar("T")

_NOW = statements.load("queries/now")
_FIND_RESOURCE = statements.load("resources/find")


async def now(conn: Connection) -> datetime:
    """The database's time, to which ages are counted."""
    read: datetime = await conn.fetchval(_NOW)
    return read


async def fetch(conn: Connection, type_: type[T], sql: str, *arguments: Any) -> tuple[T, ...]:
    """Rows of one column, each a JSON object. Raises UndecodableState."""
    decoder = msgspec.json.Decoder(type_)
    return tuple(decoded(record[0], decoder) for record in await conn.fetch(sql, *arguments))


def decoded(row: str, decoder: msgspec.json.Decoder[T]) -> T:
    """One JSON object. Raises UndecodableState."""
    try:
        return decoder.decode(row)
    except msgspec.ValidationError as error:
        raise UndecodableState("a row of what was asked for", str(error)) from error


async def find_resource(conn: Connection, kind: str, given: str) -> int:
    """The id of a resource of a registered kind. Raises RefusedByModel if none ever had this name or id."""
    id_: int | None = await conn.fetchval(_FIND_RESOURCE, kind, given)
    if id_ is None:
        hint = f"farrier resource list {kind} --ended shows all"
        raise RefusedByModel(f"no {kind.replace('_', ' ')} is named {given!r}", hint=hint, sqlstate="FR404")
    return id_
