"""Commits finished runs of one kind. One call commits many runs; each run is committed as a whole or not at all.

The statement locks the shards. Then the kind's writer locks the resources in order, compares versions, and writes the
runs whose versions are current. It skips resources that another transaction has locked; their runs are reported as
locked. After an error of the database, `Committer` halves the batch until the run that caused the error is alone.
`Committer` reports this run as refused or, if another transaction has locked other rows of the run, as locked. A run
whose reply was lost is `unknown` and is never sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel, RowsLocked
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.io.connections.rehearsal import NOBODY, Scene
from farrier.io.kinds.rows import Rows, encode
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.outcome import Record
from farrier.model.loop.runs import CommitResult, CommitVerdict, Due, Finished, Move

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

# How long a commit waits for locks of other transactions. A batch waits for a short transaction to end. Each part of a
# batch that had to be halved waits less, because a long transaction may have locked rows of many runs.
_PATIENCE = "50ms"
_LITTLE_PATIENCE = "10ms"

_COMMITTED = CommitResult(CommitVerdict.COMMITTED)
# A run of no resource, with a row for each argument.
_ROWS: dict[str, Any] = {"wakes": (NOBODY,), "moves": (Move("", None, "", None),), "record": Record("")}
_FENCED: Finished[Any, Any] = Finished(id=0, epoch=0, version=0, due=Due.PERIODIC, outcome="", **_ROWS)


class Committer(Generic[R, S, W]):
    """Writes finished runs, and returns the result of each run."""

    def __init__(self, connections: Pool, rows: Rows[R, S, W]) -> None:
        self._pool = connections
        self._rows = rows
        self._statement = _COMMIT.replace("(of_kind)", f"({rows.write}\n)")

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
        read = [run for run in batch if run.version is not None]
        try:
            arguments = *self._arguments(batch, controller, patience), *self._rows.written(read)
        except _UNENCODABLE as error:
            raise session.Unsendable(f"{type(error).__name__}: {error}") from error
        async with session.borrowed(self._pool) as conn:
            rows = await session.commit_by(conn, self._statement, *arguments)
        moved = CommitResult(CommitVerdict.COMMITTED, at=rows[0]["at"])
        results = {run.id: moved if run.moves else _COMMITTED for run in batch}
        for row in rows:
            if row["verdict"] is not None:  # the run was not written
                results[row["id"]] = CommitResult(CommitVerdict(row["verdict"]), due_in=row["due_in"])
        return results

    def _arguments(self, batch: Sequence[Finished[S, W]], controller: UUID, patience: str) -> tuple[Any, ...]:
        """Return the arguments of the commit, except those of the kind."""
        fence = {run.id % SHARDS: run.epoch for run in batch}
        # Outcomes and wakes alone need not wait for the disk: after a crash of the server everything is loaded and run
        # again.
        is_volatile = not any(run.moves or run.writes or run.to is not None or run.due is Due.NEVER for run in batch)
        to = self._rows.kind, controller, list(fence), list(fence.values()), patience, [run.id for run in batch]
        return *to, is_volatile, *_moves(batch), *_outcomes(batch), *_wakes(batch)

    def _rehearsed(self) -> Scene:
        """Return two commits that write nothing, but run every statement of a commit: the kind's, and, for a run that
        the fence refuses, all others."""
        return [
            (self._statement, *self._arguments(batch, NOBODY, _PATIENCE), *written)
            for batch, written in (((), self._rows.rehearsed()), ((_FENCED,), self._rows.written(())))
        ]


def _rejected(error: Exception) -> str:
    if isinstance(error, session.Unsendable):
        return "farrier cannot encode what the handler returned"
    return "the database rejected the commit of this run"


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


# The columns of rows, each an argument of the statement.
_Columns: TypeAlias = Sequence[Sequence[Any]]


def _moves(batch: Sequence[Finished[Any, Any]]) -> _Columns:
    """Return the moves of the runs."""
    columns: tuple[list[Any], ...] = ([], [], [], [], [], [], [], [], [])
    runs, versions, layers, sources, targets, since, causes, reasons, lines = columns
    for run in batch:
        for move in run.moves:
            assert run.version is not None, "a run moves a layer only after it has read the resource"
            runs.append(run.id)
            versions.append(run.version + 1)
            layers.append(move.layer)
            sources.append(move.source)
            targets.append(move.target)
            since.append(None if move.since is None else move.since.timestamp())
            causes.append(run.cause)
            reasons.append(run.reason)
            lines.append(run.source)
    return columns


def _outcomes(batch: Sequence[Finished[Any, Any]]) -> _Columns:
    """Return the outcomes of the runs that are to be stored, with their keys."""
    ended = [run for run in batch if run.record is not None]
    return [run.id for run in ended], [encode(run.record) for run in ended], [run.outcome_key for run in ended]


def _wakes(batch: Sequence[Finished[Any, Any]]) -> _Columns:
    """Return the consumed wakes of the runs."""
    return [run.id for run in batch for _ in run.wakes], [wake for run in batch for wake in run.wakes]
