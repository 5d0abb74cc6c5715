"""Reads intents for display, page by page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from farrier.io import statements
from farrier.io.connections.pool import Connection
from farrier.io.queries import reading
from farrier.model.node.layers import NODE
from farrier.model.views.intents import IntentView

_PAGE = statements.load("queries/intents")
_PAGE_OF_NODES = _PAGE.replace(
    "SELECT i.*, NULL::integer AS api_version FROM farrier.resource_intents i",
    "SELECT i.*, 'node' AS kind, i.node_id AS resource_id FROM farrier.intents i",
)


class Walked(msgspec.Struct, frozen=True):
    """The matching intents, the number of examined intents, and the ID of the last examined intent."""

    now: datetime
    rows: tuple[IntentView, ...]
    looked: int
    last: int | None


async def walk(conn: Connection, kind: str | None, *arguments: Any) -> Walked:
    """Return one page. `arguments` are those of the statement, without the kind."""
    sql = _PAGE_OF_NODES if kind == NODE else _PAGE
    (walked,) = await reading.fetch(conn, Walked, sql, *arguments, kind)
    return walked
