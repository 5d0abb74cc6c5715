"""Reads intents for display, page by page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from farrier.errors import RefusedByModel
from farrier.io import reading, statements
from farrier.io.pool import Connection
from farrier.model.edges import NODE
from farrier.model.intent_views import IntentPage, IntentView, WantedIntents
from farrier.model.selection import LARGEST_ID
from farrier.model.views import Page

_PAGE = statements.load("queries/intents")
_PAGE_OF_NODES = _PAGE.replace(
    "SELECT i.*, NULL::integer AS api_version FROM farrier.resource_intents i",
    "SELECT i.*, 'node' AS kind, i.node_id AS resource_id FROM farrier.intents i",
)


class _Walked(msgspec.Struct, frozen=True):
    """The matching intents, the number of examined intents, and the ID of the last examined intent."""

    now: datetime
    rows: tuple[IntentView, ...]
    looked: int
    last: int | None


async def find(conn: Connection, kind: str | None, intent: int) -> Page[IntentView]:
    """Return a page with one intent. Raises RefusedByModel if the intent does not exist."""
    walked = await _walk(conn, kind, "one", intent, None, 1, 1, [], [], [])
    if not walked.rows:
        raise RefusedByModel(f"no intent has the ID {intent}", hint="list the intents to find its ID", sqlstate="FR404")
    return Page(walked.now, walked.rows)


async def page(
    conn: Connection, kind: str | None, wanted: WantedIntents, *, resource: int | None, window: tuple[int | None, int]
) -> IntentPage:
    """Return a page of intents. `window` is (ID, number): the page examines intents below this ID, at most this number.
    `resource` is the ID of the resource to which the filter is limited."""
    before, limit = window
    walk = "of one" if resource is not None else "pending" if wanted.is_pending_only else "all"
    most = max(limit, reading.LOOKED)
    narrowed = list(wanted.statuses), list(wanted.actions), list(wanted.requested_by)
    below = LARGEST_ID if before is None else before
    walked = await _walk(conn, kind, walk, resource, below, most, limit, *narrowed)
    if len(walked.rows) == limit:
        return IntentPage(walked.now, walked.rows, walked.rows[-1].id)
    return IntentPage(walked.now, walked.rows, walked.last if walked.looked == most else None)


async def _walk(conn: Connection, kind: str | None, *arguments: Any) -> _Walked:
    sql = _PAGE_OF_NODES if kind == NODE else _PAGE
    (walked,) = await reading.fetch(conn, _Walked, sql, *arguments, kind)
    return walked
