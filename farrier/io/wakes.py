"""Enqueues resources. Implements `protocols.Wakes` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from farrier.errors import DatabaseUnreachable, RefusedByModel
from farrier.io import session, statements
from farrier.io.pool import Pool

_ENQUEUE = statements.load("wakes/enqueue")


class PostgresWakes:
    """Implements `protocols.Wakes`, with one transaction for each call."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def wake(self, kind: str, ids: Sequence[int]) -> None:
        try:
            async with session.borrowed(self._pool) as conn:
                await conn.execute(_ENQUEUE, kind, list(ids))
        except session.Refusal as refusal:
            if session.classify(refusal) is session.Trouble.MOMENT:
                raise DatabaseUnreachable("the pool", session.reason_of(refusal)) from refusal
            raise RefusedByModel(session.reason_of(refusal)) from refusal
