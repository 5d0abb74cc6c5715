"""Removes old history in steps. Each step is a transaction. The newest change of each layer is kept while its resource
exists.

A step removes up to five thousand rows in some 100 ms, and blocks no other work. The daemon runs it beside the loops.
All replicas share one pass, whose progress is the row of `history_retention`: at any time, at most one step runs, and
pauses separate the steps. Any number of processes may call this module at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn

import anyio
import asyncpg
import msgspec
import structlog

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.io import statements
from farrier.io.connections import refusals
from farrier.io.connections.pool import Pool
from farrier.model.views.history import HistoryKey, Pruned, Retained

_log = structlog.stdlib.get_logger(__name__)

_RETAIN = statements.load("history/retain")
_PRUNE = statements.load("history/prune")

# How many changes one step examines. A million changes take minutes; a step is too short to delay other statements.
STEP = 5000
# The pause between the steps of a daemon's pass, which leaves time to the fleet's own commits.
_PAUSE = timedelta(seconds=1)
# The time between passes. The retention is in days, so a delay of minutes does not matter, and each pass examines all
# remaining rows.
_EVERY = timedelta(hours=1)
# The longest pause before this replica continues a pass that another replica left unfinished.
_LOOK_EVERY = timedelta(minutes=1)
# The shortest pause of this replica, even if the next step is due sooner.
_LEAST = timedelta(milliseconds=100)


class PostgresRetention:
    """Removes old history. `step` and `prune` raise `DatabaseUnreachable`, and `RefusedByModel` if the role lacks the
    required right."""

    def __init__(self, connections: Pool, *, patience: timedelta = timedelta(minutes=1)) -> None:
        """`patience` is how long a step may take. It is long, because the changes may have to be read from disk."""
        self._pool = connections
        self._patience = patience.total_seconds()

    async def run(self, keep: timedelta) -> NoReturn:
        """Remove history that is older than `keep`, until cancelled."""
        while True:
            pause = await self.turn(keep)
            await anyio.sleep(pause.total_seconds())

    async def turn(self, keep: timedelta) -> timedelta:
        """Execute the next step if it is due. Returns how long to wait before the next call. If the step fails, this is
        logged."""
        try:
            done = await self.step(keep)
        except (DatabaseUnreachable, RefusedByModel) as failure:
            _log.warning("history.not_pruned", error=str(failure), label=failure.label)
            return _LOOK_EVERY
        if done.ended:
            kept = done.looked - done.deleted
            _log.info("history.pruned", deleted=done.deleted, kept=kept, seconds=round(done.took.total_seconds(), 1))
        return max(_LEAST, min(done.due_in, _LOOK_EVERY))

    async def step(self, keep: timedelta) -> Retained:
        """Execute the next step of the pass over the changes older than `keep`. All processes share this pass. If the
        step is not due or another process executes it, nothing happens. Call this again after `due_in`."""
        record = await self._one(_RETAIN, keep, STEP, _PAUSE, _EVERY)
        return Retained(**record)

    async def prune(self, older_than: timedelta, *, after: HistoryKey | None = None, really: bool) -> Pruned:
        key = (None,) * 5 if after is None else msgspec.structs.astuple(after)
        looked, deleted, *last = await self._one(_PRUNE, older_than, *key, STEP, really)
        return Pruned(looked, deleted, HistoryKey(*last) if looked == STEP else None)

    async def _one(self, sql: str, *arguments: Any) -> asyncpg.Record:
        async with refusals.borrowed(self._pool) as conn:
            (record,) = await conn.fetch(sql, *arguments, timeout=self._patience)
            return record
