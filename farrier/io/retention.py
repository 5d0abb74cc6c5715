"""`protocols.Retention` on PostgreSQL: removes old history in steps. Each step is a transaction.

A step removes up to five thousand rows in some 100 ms, and blocks no other work. All daemons share one row of
`history_retention`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import msgspec

from farrier.io import refusals, statements
from farrier.io.pool import Pool
from farrier.model.history import HistoryKey, Pruned, Retained

_RETAIN = statements.load("history/retain")
_PRUNE = statements.load("history/prune")

# How many changes one step examines. A million changes take minutes; a step is too short to delay other statements.
STEP = 5000
# The pause between the steps of a daemon's pass, which leaves time to the fleet's own commits.
_PAUSE = timedelta(seconds=1)
# The time between passes. The retention is in days, so a delay of minutes does not matter, and each pass examines all
# remaining rows.
_EVERY = timedelta(hours=1)
# The time limit of one step, whose changes may have to be read from disk.
_STEP_SECONDS = 60.0


class PostgresRetention:
    """Implements `protocols.Retention`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def step(self, keep: timedelta) -> Retained:
        record = await self._one(_RETAIN, keep, STEP, _PAUSE, _EVERY)
        return Retained(**record)

    async def prune(self, older_than: timedelta, *, after: HistoryKey | None = None, really: bool) -> Pruned:
        key = (None,) * 5 if after is None else msgspec.structs.astuple(after)
        looked, deleted, *last = await self._one(_PRUNE, older_than, *key, STEP, really)
        return Pruned(looked, deleted, HistoryKey(*last) if looked == STEP else None)

    async def _one(self, sql: str, *arguments: Any) -> asyncpg.Record:
        async with refusals.borrowed(self._pool) as conn:
            (record,) = await conn.fetch(sql, *arguments, timeout=_STEP_SECONDS)
            return record
