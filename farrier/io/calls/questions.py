"""Implements `protocols.Questions` on PostgreSQL: the questions how handlers would answer intents.

A question inserts its intent in a transaction that is always rolled back, and loads the snapshot in this transaction.
So the checks of the INSERT and the load are those of a real intent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from farrier.errors import RefusedByModel
from farrier.io import statements
from farrier.io.connections import refusals, session
from farrier.io.connections.pool import Pool
from farrier.io.kinds.rows import Rows
from farrier.model.intents.actions import API_MAX
from farrier.model.intents.preview import Foreseen, Posed, Question

_OPEN = statements.load("questions/open")
_LOAD = statements.load("questions/load")
_ANSWER = statements.load("questions/answer")
_INSERT = statements.load("api/ask")


class PostgresQuestions:
    """Implements `protocols.Questions`. `rows` has the SQL and the codec of each kind."""

    def __init__(self, connections: Pool, rows: Sequence[Rows[Any, Any, Any]]) -> None:
        self._pool = connections
        self._rows = {each.kind: each for each in rows}
        self._load = {each.kind: _LOAD.replace("(of_kind)", f"({each.load}\n)") for each in rows}

    async def open(self, kind: str, shards: Sequence[int], at_most: int) -> tuple[Question, ...]:
        records = await session.fetch(self._pool, _OPEN, kind, [*shards], at_most)
        return tuple(Question(**record) for record in records)

    async def load(self, kind: str, question: Question) -> Posed:
        async with refusals.borrowed(self._pool) as conn, session.undone(conn):
            intent: int = await conn.fetchval(
                _INSERT, kind, str(question.resource_id), question.action, question.params, None, None, API_MAX
            )
            loaded = await conn.fetch(self._load[kind], [question.resource_id], kind)
        for now, snapshot, held_since in loaded:
            return Posed(self._rows[kind].decode(snapshot), intent, now, held_since)
        raise RefusedByModel(f"{kind} {question.resource_id} does not exist", sqlstate="FR404")

    async def answer(self, answers: Mapping[int, Foreseen]) -> None:
        told = answers.values()
        await session.fetch(
            self._pool, _ANSWER, [*answers], [each.verdict for each in told], [each.reason for each in told]
        )
