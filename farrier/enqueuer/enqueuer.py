"""Enqueues resources from Python, as `SELECT farrier.enqueue(…)` does from SQL.

Programs that embed the controller use this module. It needs no running controller, because a wake is a row, and the
next controller that owns the resource finds this row.
"""

from __future__ import annotations

from itertools import islice

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool

_ENQUEUE = statements.load("wakes/enqueue")
# Number of resources in one statement and its notification. Both are short, so that commits of other processes do not
# have to wait.
_AT_ONCE = 1000


class Enqueuer:
    """Enqueues resources, so that their handlers run as soon as possible."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def enqueue(self, kind: str, *ids: int) -> None:
        """Enqueue these resources in the order of their IDs, a thousand in each transaction. If a resource does not
        exist or has ended, raises `RefusedByModel`, and enqueues no resource of this transaction. Also raises
        `DatabaseUnreachable`. After either error, the call may be repeated."""
        rest = iter(sorted(set(ids)))
        while batch := list(islice(rest, _AT_ONCE)):
            await self._wake(kind, batch)

    async def _wake(self, kind: str, ids: list[int]) -> None:
        try:
            async with session.borrowed(self._pool) as conn:
                await conn.execute(_ENQUEUE, kind, ids)
        except session.Refusal as refusal:
            if session.classify(refusal) is session.Trouble.MOMENT:
                raise DatabaseUnreachable("the pool", session.reason_of(refusal)) from refusal
            raise RefusedByModel(session.reason_of(refusal)) from refusal
