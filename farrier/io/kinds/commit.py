"""Commits finished runs of one kind. One call commits many runs; each run is committed as a whole or not at all.

The statement locks the shards. Then the kind's writer locks the resources in order, compares versions, and writes the
runs whose versions are current. It skips resources that another transaction has locked; their runs are reported as
locked. After an error of the database, `Committer` halves the batch until the run that caused the error is alone.
`Committer` reports this run as refused or, if another transaction has locked other rows of the run, as locked. A run
whose reply was lost is `unknown` and is never sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel, RowsLocked
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.io.kinds.rows import Rows
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.outcome import Record
from farrier.model.loop.runs import CommitResult, CommitVerdict, Due, Finished

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_COMMIT = statements.load("loop/commit")
_HOLDERS = statements.load("loop/holders")

# The delay before a refused run is retried. The run fails again until its data changes, so a short delay would gain
# nothing.
_REFUSED_AGAIN = timedelta(seconds=30)

# The errors of encoders if a handler returned a value of the wrong type.
_UNENCODABLE = (TypeError, ValueError, AttributeError, AssertionError, msgspec.MsgspecError)

_encode = msgspec.json.Encoder().encode

# How long a commit waits for locks of other transactions. A batch waits for a short transaction to end. Each part of a
# batch that had to be halved waits less, because a long transaction may have locked rows of many runs.
_PATIENCE = "50ms"
_LITTLE_PATIENCE = "10ms"

_COMMITTED = CommitResult(CommitVerdict.COMMITTED)


class Committer(Generic[R, S, W]):
    """Writes finished runs, and returns the result of each run."""

    def __init__(self, connections: Pool, rows: Rows[R, S, W]) -> None:
        self._pool = connections
        self._rows = rows
        self._statement = _COMMIT.replace("writer_of_kind", rows.writer)

    async def commit(self, runs: Sequence[Finished[S, W]], controller: UUID) -> Mapping[int, CommitResult]:
        """Implements `StateIO.commit`."""
        return await self._commit(runs, controller, patience=_PATIENCE)

    async def _commit(
        self, runs: Sequence[Finished[S, W]], controller: UUID, *, patience: str, again: bool = False
    ) -> dict[int, CommitResult]:
        """Commit the batch in one call, or in several calls if the database refuses it. `again` is set for the retry
        after a transient error."""
        try:
            return await self._call(runs, controller, patience=patience)
        except session.ReplyLost as lost:
            unknown = CommitResult(CommitVerdict.UNKNOWN, DatabaseUnreachable("the pool", str(lost)))
            return {run.id: unknown for run in runs}
        except DatabaseUnreachable as lost:
            unknown = CommitResult(CommitVerdict.UNKNOWN, lost)
            return {run.id: unknown for run in runs}
        except session.Refusal as error:
            refusal = error
        passes = session.classify(refusal) is session.Trouble.MOMENT
        is_locked = isinstance(refusal, asyncpg.LockNotAvailableError)
        if passes and not again and not is_locked:
            return await self._commit(runs, controller, patience=patience, again=True)
        if len(runs) > 1:
            middle = len(runs) // 2
            first = await self._commit(runs[:middle], controller, patience=_LITTLE_PATIENCE, again=passes)
            return first | await self._commit(runs[middle:], controller, patience=_LITTLE_PATIENCE, again=passes)
        (run,) = runs
        if passes:
            return {run.id: CommitResult(CommitVerdict.LOCKED, RowsLocked(session.reason_of(refusal)))}
        return {run.id: await self._refused(run, refusal, controller)}

    async def report_locked(
        self, runs: Sequence[Finished[S, W]], results: Mapping[int, CommitResult], controller: UUID
    ) -> Mapping[int, CommitResult]:
        """Implements `StateIO.report_locked`. The write needs none of the locked rows. The wakes of the runs remain,
        because the runs are repeated."""
        holders: dict[int, str] = {}
        with suppress(DatabaseUnreachable):
            ids = [run.id for run in runs]
            records = await session.fetch(self._pool, _HOLDERS, self._rows.kind, ids)
            holders = {record["id"]: record["holders"] for record in records}
        errors = {run.id: self._locked(run.id, holders, results) for run in runs}
        confessions = [_confession(run, errors[run.id]) for run in runs]
        with suppress(session.ReplyLost, DatabaseUnreachable, *session.Refusal):
            await self._call(
                [msgspec.structs.replace(each, version=None, wakes=()) for each in confessions],
                controller,
                patience=_PATIENCE,
            )
        return {id_: CommitResult(CommitVerdict.LOCKED, error) for id_, error in errors.items()}

    def _locked(self, id_: int, holders: Mapping[int, str], results: Mapping[int, CommitResult]) -> FarrierError:
        """Return the error for a locked run, with the session that holds the lock if it was found."""
        if id_ in holders:
            return RowsLocked(holders[id_])
        return results[id_].error or RowsLocked("its session is not known")

    async def _refused(self, run: Finished[S, W], error: Exception, controller: UUID) -> CommitResult:
        """Store the database's error as the outcome of the run that caused it."""
        refusal = RefusedByModel(f"{_rejected(error)}: {session.reason_of(error)}")
        result = _COMMITTED
        try:
            result = (await self._call([_confession(run, refusal)], controller, patience=_PATIENCE))[run.id]
        except (session.ReplyLost, DatabaseUnreachable):
            return CommitResult(CommitVerdict.UNKNOWN, refusal)
        except session.Refusal:
            pass
        return CommitResult(CommitVerdict.REFUSED, refusal) if result.verdict is CommitVerdict.COMMITTED else result

    async def _call(
        self, batch: Sequence[Finished[S, W]], controller: UUID, *, patience: str
    ) -> dict[int, CommitResult]:
        """Send one batch as one statement, and return the result of each run."""
        # For the kind's writer: the version of each run's snapshot, and the kind's own sections.
        read = [run for run in batch if run.version is not None]
        runs = [
            {
                "run": run.id,
                "version": run.version,
                "writes": bool(run.writes) and run.to is None,
                "commit_id": run.commit_id,
            }
            for run in read
        ]
        try:
            changes = _encode({"runs": runs, **self._rows.changes(read)} if read else {}).decode()
            records = _encode(_records(batch)).decode()
        except _UNENCODABLE as error:
            raise session.Unsendable(f"{type(error).__name__}: {error}") from error
        fence = {run.id % SHARDS: run.epoch for run in batch}
        to = self._rows.kind, controller, list(fence), list(fence.values()), patience
        async with session.borrowed(self._pool) as conn:
            rows = await session.commit_by(conn, self._statement, *to, [run.id for run in batch], changes, records)
        moved = {run.id for run in batch if run.moves}
        return {row["id"]: _result(row, moved) for row in rows}


def _rejected(error: Exception) -> str:
    if isinstance(error, session.Unsendable):
        return "farrier cannot encode what the handler returned"
    return "the database rejected the commit of this run"


def _result(row: asyncpg.Record, moved: set[int]) -> CommitResult:
    verdict = CommitVerdict(row["verdict"])
    if verdict is CommitVerdict.COMMITTED:
        return CommitResult(verdict, at=row["at"]) if row["id"] in moved else _COMMITTED
    return CommitResult(verdict, due_in=row["due_in"])


def _confession(run: Finished[S, W], refusal: FarrierError) -> Finished[S, W]:
    """Return the same run with only the error as its outcome. The returned run has no outcome key, so the outcome of
    the next run is always stored."""
    return Finished(
        id=run.id,
        epoch=run.epoch,
        version=run.version,
        wakes=run.wakes,
        due=Due.PERIODIC,
        outcome="error",
        delay=_REFUSED_AGAIN,
        record=Record("error", str(refusal), run.source, refusal.label),
    )


def _records(batch: Sequence[Finished[Any, Any]]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the moves, outcomes and consumed wakes of the runs. The keys are the sections of the argument of
    `end_commit`."""
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in batch:
        for move in run.moves:
            assert run.version is not None, "a run moves a layer only after it has read the resource"
            row = {
                "run": run.id,
                "version": run.version + 1,
                "layer": move.layer,
                "from_value": move.source,
                "to_value": move.target,
                "entered": move.since,
                "cause": run.cause,
                "reason": run.reason,
                "source": run.source,
            }
            records["moves"].append(row)
        if run.record is not None:
            records["outcomes"].append({"run": run.id, "outcome": run.record, "key": run.outcome_key})
        if run.wakes:
            records["wakes"] += [{"run": run.id, "wake": wake} for wake in run.wakes]
    return records
