"""Commits finished runs of one kind: many in one transaction, each all or nothing.

The first statement locks the schedule rows in order and checks token and version; only winners are written.
An error of the database splits the batch until the run that caused it stands alone and carries the blame. A
lost reply to COMMIT is looked up by token and never written again. Nothing here publishes: the loop does, for
what is `committed`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel
from farrier.io import session, statements
from farrier.io.pool import Connection, Pool
from farrier.model.outcome import Record
from farrier.model.schedule import Due, Finished, Lane, Move, Result, Verdict

if TYPE_CHECKING:
    from farrier.io.state import Rows

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_RELEASE = statements.load("schedule/release")
_SETTLE = statements.load("schedule/settle")
_UNSCHEDULE = statements.load("schedule/unschedule")
_COMMITTED = statements.load("schedule/committed")
_AWAIT_LOCK = statements.load("schedule/await_lock")

_NOW = timedelta(0)
# A refused run is tried again at the pace of the periodic lane: its cause is in the data, not in the moment.
_REFUSED_AGAIN = timedelta(seconds=30)

# What encoders raise for a value that a handler put where its type does not belong.
_UNENCODABLE = (TypeError, ValueError, AttributeError, msgspec.MsgspecError)

_encode = msgspec.json.Encoder().encode

_DONE = Result(Verdict.COMMITTED)
_DONE_AND_DUE = Result(Verdict.COMMITTED, again=True)
_BEATEN = Result(Verdict.CONFLICT, again=True)
_OVERTAKEN = Result(Verdict.CONFLICT)
# A beaten run is decided anew at once; an overtaken one when whoever holds what it wanted has had time to commit, which
# wakes it anyway.
_AFTER = {True: _NOW, False: timedelta(seconds=1)}
_LOCKED = Result(Verdict.LOCKED)
_LOST = Result(Verdict.LOST)
_UNKNOWN = Result(Verdict.UNKNOWN)


class Committer(Generic[R, S, W]):
    """Turns finished runs into rows, and says for each what became of it."""

    def __init__(self, connections: Pool, rows: Rows[R, S, W], owner: UUID) -> None:
        self._pool = connections
        self._rows = rows
        self._owner = owner

    async def commit(self, runs: Sequence[Finished[S, W]], *, patient: bool) -> Mapping[int, Result]:
        """`StateIO.commit`. Idle runs take one statement; the others share a transaction."""
        if patient:
            return await self._together(runs, patient=True)
        idle = [run for run in runs if run.idle]
        busy = [run for run in runs if not run.idle]
        results: dict[int, Result] = {}
        if busy:
            results |= await self._together(busy)
        if idle:
            results |= await self._release(idle)
        return results

    async def _release(self, idle: Sequence[Finished[S, W]]) -> dict[int, Result]:
        try:
            async with session.borrowed(self._pool) as conn:
                released = await conn.fetch(
                    _RELEASE, self._rows.kind, *_columns([_giving_back(run) for run in idle], width=5)
                )
        except DatabaseUnreachable:
            return _all_unknown(idle)
        except session.Refusal:
            return await self._together(idle)  # finds out whose words it refuses
        results = {record["id"]: _DONE if record["lane"] == Lane.PERIODIC else _DONE_AND_DUE for record in released}
        if len(results) < len(idle):
            # Lost, or locked by a wake under way: the transaction tells the two apart.
            results |= await self._together([run for run in idle if run.id not in results])
        return results

    async def _together(
        self,
        batch: Sequence[Finished[S, W]],
        *,
        patient: bool = False,
        again: bool = False,
        overtaken: frozenset[int] = frozenset(),
    ) -> dict[int, Result]:
        """One transaction; `again` when it is the second try after trouble of the moment. Of runs that turn out to be
        `overtaken`, nothing is written but when they are due."""
        try:
            return await self._transaction(batch, patient=patient, overtaken=overtaken)
        except session.OvertakenError as error:
            return await self._together(batch, patient=patient, again=again, overtaken=overtaken | error.ids)
        except session.ReplyLost:
            return await self._look_up(batch)
        except DatabaseUnreachable:
            return _all_unknown(batch)
        except (session.RacedError, *session.Refusal) as error:
            moment = isinstance(error, session.RacedError) or session.classify(error) is session.Trouble.MOMENT
            if not moment:
                return await self._blame(batch, error, patient=patient)
            if again or patient:
                return _all_unknown(batch)
            return await self._together(batch, again=True)

    async def _blame(self, batch: Sequence[Finished[S, W]], error: Exception, *, patient: bool) -> dict[int, Result]:
        """The database refuses something in this batch: halve it until the culprit is alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            first = await self._together(batch[:middle], patient=patient)
            return first | await self._together(batch[middle:], patient=patient)
        run = batch[0]
        refusal = RefusedByModel(f"the database refused this run: {session.reason_of(error)}")
        try:
            told = await self._transaction([_confession(run, refusal)], patient=patient)
        except (session.ReplyLost, session.RacedError, DatabaseUnreachable, *session.Refusal):
            return {run.id: Result(Verdict.UNKNOWN, refusal)}
        if told[run.id].verdict is Verdict.COMMITTED:
            return {run.id: Result(Verdict.REFUSED, refusal, again=told[run.id].again)}
        return told

    async def _transaction(
        self, batch: Sequence[Finished[S, W]], *, patient: bool, overtaken: frozenset[int] = frozenset()
    ) -> dict[int, Result]:
        ids = [run.id for run in batch]
        async with session.borrowed(self._pool) as conn, session.Transaction(conn) as transaction:
            if patient:
                await conn.execute(session.WAIT_FOR_LOCK)
                await conn.execute(_AWAIT_LOCK, self._rows.kind, ids)
            locked = {record["id"]: record for record in await conn.fetch(self._rows.lock, ids)}
            results = {run.id: _judge(run, locked.get(run.id), patient=patient) for run in batch}
            results |= {id_: _OVERTAKEN for id_ in overtaken if results[id_] is _DONE}
            winners = [run for run in batch if results[run.id] is _DONE]
            beaten = {
                id_: _AFTER[result.again] for id_, result in results.items() if result.verdict is Verdict.CONFLICT
            }
            due = await self._write(conn, winners, beaten)
            await transaction.commit()
        return results | {run.id: _DONE_AND_DUE for run in winners if run.id in due}

    async def _write(
        self, conn: Connection, winners: Sequence[Finished[S, W]], beaten: Mapping[int, timedelta]
    ) -> Collection[int]:
        """Everything of the winners, and all schedule rows last; answers the ids that are due again."""
        kind = self._rows.kind
        changed = [run for run in winners if run.to is not None]
        writes = [(run.id, write) for run in winners for write in run.writes]
        try:
            if changed:
                await self._rows.persist(conn, changed)
            if writes:
                await self._rows.apply(conn, writes)
        except _UNENCODABLE as error:
            raise session.Unsendable(f"{type(error).__name__} while encoding what the handler returned") from error
        due: set[int] = set()
        kept = [run for run in winners if run.due is not Due.NEVER]
        if kept or beaten:
            settled = await conn.fetch(_SETTLE, kind, self._owner, *_settlement(kept, beaten))
            due.update(record["id"] for record in settled if record["lane"] == Lane.WOKEN)
        gone = [run.id for run in winners if run.due is Due.NEVER]
        if gone:
            due.update(record["id"] for record in await conn.fetch(_UNSCHEDULE, kind, gone))
        return due

    async def _look_up(self, batch: Sequence[Finished[S, W]]) -> dict[int, Result]:
        """After a lost reply: runs whose history is there were committed; of the rest nothing can be said."""
        moved = [(run.id, _next_version(run), run.token) for run in batch if run.moves]
        if not moved:
            return _all_unknown(batch)
        try:
            async with session.borrowed(self._pool) as conn:
                records = await conn.fetch(_COMMITTED, self._rows.kind, *_columns(moved, width=3))
        except (DatabaseUnreachable, *session.Refusal):
            return _all_unknown(batch)
        there = {record["id"] for record in records}
        return {run.id: _DONE_AND_DUE if run.id in there else _UNKNOWN for run in batch}


def _all_unknown(batch: Iterable[Finished[Any, Any]]) -> dict[int, Result]:
    return {run.id: _UNKNOWN for run in batch}


def _judge(run: Finished[Any, Any], row: asyncpg.Record | None, *, patient: bool) -> Result:
    """Won, beaten by a newer version, taken over by another owner, or locked by somebody."""
    if row is None and not patient:
        return _LOCKED
    if row is None or row["claim_token"] != run.token:
        return _LOST
    if run.version is not None and row["version"] != run.version:
        return _BEATEN
    return _DONE


def _confession(run: Finished[S, W], refusal: FarrierError) -> Finished[S, W]:
    """The same run with nothing left of it but the error it ended in. It has no outcome key that a later run
    could match, so whatever that one says is stored again."""
    return Finished(
        id=run.id,
        token=run.token,
        version=run.version,
        due=Due.PERIODIC,
        outcome="error",
        delay=_REFUSED_AGAIN,
        record=Record("error", str(refusal), run.source, refusal.label),
    )


def _next_version(run: Finished[Any, Any]) -> int:
    assert run.version is not None, "a run that moves a layer has read its resource"
    return run.version + 1


def _settlement(kept: Sequence[Finished[Any, Any]], beaten: Mapping[int, timedelta]) -> Iterator[list[Any]]:
    """The arrays of `settle`: moves, outcomes, rows."""
    yield from _columns([_history(run, move) for run in kept for move in run.moves], width=10)
    told = [(run.id, _encode(run.record).decode()) for run in kept if run.record is not None]
    yield from _columns(told, width=2)
    again = [(id_, Lane.WOKEN.value, delay, 0, None) for id_, delay in beaten.items()]
    yield from _columns([*map(_place, kept), *again], width=5)


def _history(run: Finished[Any, Any], move: Move) -> tuple[Any, ...]:
    return (
        run.id,
        _next_version(run),
        move.layer,
        move.source,
        move.target,
        move.seconds_in_source,
        run.cause,
        run.reason,
        run.source,
        run.token,
    )


def _place(run: Finished[Any, Any]) -> tuple[int, int, timedelta, int | None, int | None]:
    """Where the schedule row goes: id, lane, delay, step of its count of reruns, outcome key if it changes."""
    key = None if run.record is None else run.outcome_key
    if run.due is Due.RERUN:
        return run.id, Lane.WOKEN.value, _NOW, 1, key
    return run.id, Lane.PERIODIC.value, run.delay, None, key


def _giving_back(run: Finished[Any, Any]) -> tuple[int, int, timedelta, str | None, int | None]:
    """A row of `release`: id, token, delay, and outcome with its key if they change."""
    if run.record is None:
        return run.id, run.token, run.delay, None, None
    return run.id, run.token, run.delay, _encode(run.record).decode(), run.outcome_key


def _columns(rows: Sequence[tuple[Any, ...]], *, width: int) -> list[list[Any]]:
    """Rows as the arrays that unnest takes."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
