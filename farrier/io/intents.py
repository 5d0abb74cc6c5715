"""Reads intents for display, page by page. Shared by `queries` (nodes) and `resource_queries` (all other kinds)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from farrier.errors import RefusedByModel
from farrier.io import reading
from farrier.io.pool import Connection
from farrier.model.intent_views import IntentPage, IntentView, WantedIntents
from farrier.model.views import Page

# How many intents a filtered page examines at most, which takes some 10 ms.
_LOOKED = 5000
_LARGEST = (1 << 63) - 1  # the largest bigint


class _Walked(msgspec.Struct, frozen=True):
    """The matching intents, how many intents were examined, and the ID of the last examined intent."""

    now: datetime
    rows: tuple[IntentView, ...]
    looked: int
    last: int | None


async def find(conn: Connection, sql: str, intent: int, *more: Any) -> Page[IntentView]:
    """A page with one intent. Raises RefusedByModel if it does not exist."""
    walked = await _walk(conn, sql, "one", intent, None, 1, 1, [], [], [], *more)
    if not walked.rows:
        raise RefusedByModel(f"no intent has the ID {intent}", hint="the list of intents has the IDs", sqlstate="FR404")
    return Page(walked.now, walked.rows)


async def page(
    conn: Connection, sql: str, wanted: WantedIntents, *more: Any, resource: int | None, window: tuple[int | None, int]
) -> IntentPage:
    """A page of intents. `window` is (ID, number): the intents below this ID, at most this number. `resource` is the ID
    of the resource to which the filter is limited."""
    before, limit = window
    walk = "of one" if resource is not None else "pending" if wanted.is_pending_only else "all"
    most = max(limit, _LOOKED)
    narrowed = list(wanted.statuses), list(wanted.actions), list(wanted.requested_by)
    below = _LARGEST if before is None else before
    walked = await _walk(conn, sql, walk, resource, below, most, limit, *narrowed, *more)
    if len(walked.rows) == limit:
        return IntentPage(walked.now, walked.rows, walked.rows[-1].id)
    return IntentPage(walked.now, walked.rows, walked.last if walked.looked == most else None)


async def _walk(conn: Connection, sql: str, *arguments: Any) -> _Walked:
    (walked,) = await reading.fetch(conn, _Walked, sql, *arguments)
    return walked
