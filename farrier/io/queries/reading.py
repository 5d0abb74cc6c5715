"""Functions that all queries for display share: they read rows of one JSON object each, read the database's time, and
find resources by name.

The functions use a connection that the caller borrowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from farrier.errors import RefusedByModel
from farrier.io import codec, statements
from farrier.io.connections.pool import Connection
from farrier.model.intents import selection
from farrier.model.views.nodes import Page

T = TypeVar("T")

LOOKED = 5000
"""How many rows a filtered page of history or intents examines at most, which takes some 10 ms."""

_NOW = statements.load("queries/now")
_FIND_RESOURCE = statements.load("resources/find")


async def now(conn: Connection) -> datetime:
    """Return the database's time, from which ages are computed."""
    read: datetime = await conn.fetchval(_NOW)
    return read


async def fetch(conn: Connection, type_: type[T], sql: str, *arguments: Any) -> tuple[T, ...]:
    """Return rows of one column, each of which is a JSON object. Raises UndecodableState."""
    read = codec.reader(type_, "a requested row")
    return tuple(read(record[0]) for record in await conn.fetch(sql, *arguments))


async def page(conn: Connection, type_: type[T], sql: str, *arguments: Any) -> Page[T]:
    """Return the rows that `fetch` returns, with the database's time."""
    return Page(await now(conn), await fetch(conn, type_, sql, *arguments))


def texts(values: Iterable[int | timedelta]) -> list[str]:
    """Return the values as texts, which the statement casts. For an array of any other type, the driver first asks the
    server how to encode the type. In a new session, this request takes as long as most statements that a command
    sends."""
    return [f"{value.total_seconds()} s" if isinstance(value, timedelta) else str(value) for value in values]


def transposed(rows: Sequence[msgspec.Struct], type_: type[msgspec.Struct]) -> list[list[Any]]:
    """Return one array for each field of the rows."""
    return [[getattr(row, field) for row in rows] for field in type_.__struct_fields__]


async def find_resource(conn: Connection, kind: str, given: str) -> int:
    """Return the ID of a resource of any kind. Raises RefusedByModel if no resource ever had this name or ID."""
    id_: int | None = await conn.fetchval(_FIND_RESOURCE, kind, given)
    if id_ is None:
        raise RefusedByModel(
            f"no {kind.replace('_', ' ')} is named {given!r}",
            hint=selection.how_to_find(kind),
            sqlstate="FR404",
        )
    return id_
