"""Commits finished runs of one kind: many in one call, each all or nothing.

`farrier.commit_runs` locks the schedule rows in order and checks token and version; only winners are written. An error
of the database splits the batch until the run that caused it stands alone and carries the blame, or, where somebody
holds what it writes, is left for whoever waits for it. A lost reply is looked up by token and nothing is ever written
again. Nothing here publishes: the loop does, for what is `committed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, assert_never
from uuid import UUID

import anyio
import asyncpg
import msgspec
import structlog

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel
from farrier.io import session, statements
from farrier.io.pool import Pool
from farrier.model.outcome import Record
from farrier.model.schedule import Claimed, Due, Finished, Lane, Move, Result, Verdict

if TYPE_CHECKING:
    from farrier.io.state import Changes, Rows

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_log = structlog.stdlib.get_logger(__name__)

_RELEASE = statements.load("schedule/release")
_COMMIT = statements.load("schedule/commit")
_COMMITTED = statements.load("schedule/committed")

_NOW = timedelta(0)
# Less than the loop waits for a commit: what is known by then is told. Whatever is not is left to its lease.
WITHIN = timedelta(seconds=9)
# A refused run is tried again at the pace of the periodic lane: its cause is in the data, not in the moment.
_REFUSED_AGAIN = timedelta(seconds=30)

# What encoders raise for a value that a handler put where its type does not belong.
_UNENCODABLE = (TypeError, ValueError, AttributeError, AssertionError, msgspec.MsgspecError)

_encode = msgspec.json.Encoder().encode

_DONE = Result(Verdict.COMMITTED)
_DONE_AND_DUE = Result(Verdict.COMMITTED, again=True)
_UNKNOWN = Result(Verdict.UNKNOWN)
_LOCKED = Result(Verdict.LOCKED)
# As `farrier.commit_runs` says it.
_RESULTS = {
    (verdict.value, woken): Result(verdict, again=woken)
    for verdict in (Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LOST, Verdict.LOCKED)
    for woken in (False, True)
}


class Committer(Generic[R, S, W]):
    """Turns finished runs into rows, and says for each what became of it."""

    def __init__(
        self, connections: Pool, rows: Rows[R, S, W], owner: UUID, lease: timedelta, *, within: timedelta = WITHIN
    ) -> None:
        self._pool = connections
        self._rows = rows
        self._owner = owner
        self._lease = lease
        self._within = within.total_seconds()

    async def commit(
        self, runs: Sequence[Finished[S, W]], *, patient: bool, keep: int | None = None
    ) -> Mapping[int, Result]:
        """`StateIO.commit`. Idle runs take one statement; the others share a transaction."""
        work = _Work(patient=patient, keep=keep)
        with anyio.move_on_after(self._within):
            if patient:
                await self._together(runs, work)
            else:
                await self._release_and_commit(runs, work)
        late = [run for run in runs if run.id not in work.results]
        if late:
            _log.warning(
                "commit.failed", kind=self._rows.kind, runs=len(late), error=f"not done within {self._within:g} s"
            )
            work.unknown(late)
        return work.results

    async def _release_and_commit(self, runs: Sequence[Finished[S, W]], work: _Work) -> None:
        idle = [run for run in runs if run.idle]
        busy = [run for run in runs if not run.idle]
        if busy:
            await self._together(busy, work)
        if idle:
            await self._release(idle, work)

    async def _release(self, idle: Sequence[Finished[S, W]], work: _Work) -> None:
        try:
            async with session.borrowed(self._pool) as conn:
                released = await conn.fetch(
                    _RELEASE, self._rows.kind, *_columns([_giving_back(run) for run in idle], width=5)
                )
        except DatabaseUnreachable:
            work.unknown(idle)
            return
        except session.Refusal:
            await self._together(idle, work)  # finds out whose words it refuses
            return
        for record in released:
            work.results[record["id"]] = _DONE if record["lane"] == Lane.PERIODIC else _DONE_AND_DUE
        if len(released) < len(idle):
            # Lost, or locked by a wake under way: the transaction tells the two apart.
            await self._together([run for run in idle if run.id not in work.results], work)

    async def _together(self, batch: Sequence[Finished[S, W]], work: _Work, *, again: bool = False) -> None:
        """One call; `again` when it is the second try after trouble of the moment."""
        try:
            work.results |= await self._call(batch, work)
        except session.ReplyLost:
            await self._look_up(batch, work)
        except DatabaseUnreachable:
            work.unknown(batch)
        except session.Refusal as error:
            if session.classify(error) is not session.Trouble.MOMENT:
                await self._blame(batch, error, work)
            elif again or (work.patient and isinstance(error, asyncpg.LockNotAvailableError)):
                await self._apart(batch, work)
            else:
                await self._together(batch, work, again=True)

    async def _apart(self, batch: Sequence[Finished[S, W]], work: _Work) -> None:
        """Somebody holds what one of these writes, and goes on holding it: halve them until that run stands alone. It
        is waited for where nobody waits behind it."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._together(batch[:middle], work, again=True)
            await self._together(batch[middle:], work, again=True)
        elif work.patient:
            work.unknown(batch)
        else:
            work.results[batch[0].id] = _LOCKED

    async def _blame(self, batch: Sequence[Finished[S, W]], error: Exception, work: _Work) -> None:
        """The database refuses something in this batch: halve it until the culprit is alone."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._together(batch[:middle], work)
            await self._together(batch[middle:], work)
            return
        run = batch[0]
        refusal = RefusedByModel(f"the database refused this run: {session.reason_of(error)}")
        try:
            told = (await self._call([_confession(run, refusal)], work))[run.id]
        except (session.ReplyLost, DatabaseUnreachable, *session.Refusal):
            told = Result(Verdict.UNKNOWN, refusal)
        if told.verdict is Verdict.COMMITTED:
            told = Result(Verdict.REFUSED, refusal, again=told.again)
        work.results[run.id] = told

    async def _call(self, batch: Sequence[Finished[S, W]], work: _Work) -> dict[int, Result]:
        try:
            changes = _encode(self._changes(batch)).decode()
        except _UNENCODABLE as error:
            raise session.Unsendable(f"{type(error).__name__} while encoding what the handler returned") from error
        to = self._rows.kind, self._owner, work.patient, self._rows.writer, changes
        async with session.borrowed(self._pool) as conn:
            records = await session.commit_by(conn, _COMMIT, *to, *_settlement(batch), work.keep, self._lease)
        results = {record["id"]: _result(record) for record in records}
        # Of the few that moved; the same for all.
        moved = [run.id for run in batch if run.moves and results[run.id].verdict is Verdict.COMMITTED]
        results |= {id_: msgspec.structs.replace(results[id_], at=records[0]["at"]) for id_ in moved}
        return results

    def _changes(self, batch: Sequence[Finished[S, W]]) -> Changes:
        """What the kind's writer gets: its own sections, and the version that each of their runs was decided on."""
        changed = [run for run in batch if run.to is not None or run.writes or run.due is Due.NEVER]
        if not changed:
            return {}
        return {"runs": [{"run": run.id, "version": run.version} for run in changed], **self._rows.changes(changed)}

    async def _look_up(self, batch: Sequence[Finished[S, W]], work: _Work) -> None:
        """After a lost reply: what left history, or kept its row, was committed; of the rest nothing can be said."""
        telling = [
            (run.id, _next_version(run) if run.moves else None, run.token)
            for run in batch
            if run.moves or run.due is Due.RERUN
        ]
        work.unknown(batch)
        if not telling:
            return
        try:
            async with session.borrowed(self._pool) as conn:
                records = await conn.fetch(_COMMITTED, self._rows.kind, *_columns(telling, width=3), work.keep)
        except (DatabaseUnreachable, *session.Refusal):
            return
        for record in records:
            done = _going_on(record) if record["kept"] else _DONE_AND_DUE
            work.results[record["id"]] = msgspec.structs.replace(done, at=record["at"])


class _Work(msgspec.Struct):
    """One commit under way: whether locked rows are waited for, under which token rows go on that run again at once,
    and what is known of its runs."""

    patient: bool
    keep: int | None
    results: dict[int, Result] = msgspec.field(default_factory=dict)

    def unknown(self, runs: Iterable[Finished[Any, Any]]) -> None:
        """Nothing can be said of these."""
        self.results |= {run.id: _UNKNOWN for run in runs}


def _result(record: asyncpg.Record) -> Result:
    return _going_on(record) if record["kept"] else _RESULTS[record["verdict"], record["woken"]]


def _going_on(record: asyncpg.Record) -> Result:
    """Committed, and the row as it was claimed anew."""
    return Result(Verdict.COMMITTED, kept=Claimed(record["id"], record["outcome_key"], _NOW, record["reruns"]))


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


def _settlement(batch: Sequence[Finished[Any, Any]]) -> Iterator[list[Any]]:
    """The arrays of `commit`: rows, moves, outcomes."""
    yield from _columns([*map(_place, batch)], width=6)
    yield from _columns([_history(run, move) for run in batch for move in run.moves], width=10)
    told = [(run.id, _encode(run.record).decode()) for run in batch if run.record is not None]
    yield from _columns(told, width=2)


def _history(run: Finished[Any, Any], move: Move) -> tuple[Any, ...]:
    return (
        run.id,
        _next_version(run),
        move.layer,
        move.source,
        move.target,
        move.since,
        run.cause,
        run.reason,
        run.source,
        run.token,
    )


def _place(run: Finished[Any, Any]) -> tuple[int, int, int | None, timedelta, int | None, int | None]:
    """Where the schedule row goes: id, token, lane, delay, step of its count of reruns, outcome key if it changes."""
    key = None if run.record is None else run.outcome_key
    match run.due:
        case Due.RERUN:
            return run.id, run.token, Lane.WOKEN.value, _NOW, 1, key
        case Due.PERIODIC:
            return run.id, run.token, Lane.PERIODIC.value, run.delay, None, key
        case Due.NEVER:
            return run.id, run.token, None, _NOW, None, key
        case _ as never:
            assert_never(never)


def _giving_back(run: Finished[Any, Any]) -> tuple[int, int, timedelta, str | None, int | None]:
    """A row of `release`: id, token, delay, and outcome with its key if they change."""
    if run.record is None:
        return run.id, run.token, run.delay, None, None
    return run.id, run.token, run.delay, _encode(run.record).decode(), run.outcome_key


def _columns(rows: Sequence[tuple[Any, ...]], *, width: int) -> list[list[Any]]:
    """Rows as the arrays that unnest takes."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
