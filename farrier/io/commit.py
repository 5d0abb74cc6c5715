"""Commits finished runs of one kind: many in one call, each as a whole or not at all.

The statement locks the shards. Then the kind's writer locks the resources in order, compares versions, and writes the
runs whose versions are current. After an error of the database, `Committer` halves the batch until the run that
caused the error is alone. It reports this run as refused or, if another transaction has locked the run's rows, as
locked. A run whose reply was lost is `unknown` and is never sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

import anyio
import asyncpg
import msgspec
import structlog

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel
from farrier.io import session, statements
from farrier.io.pool import Pool
from farrier.io.rows import Rows
from farrier.model.controllers import SHARDS
from farrier.model.outcome import Record
from farrier.model.runs import Due, Finished, Result, Verdict

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_log = structlog.stdlib.get_logger(__name__)

_COMMIT = statements.load("loop/commit")

# Shorter than the time for which the loop waits for a commit. After this time, the result of the remaining runs is
# unknown.
WITHIN = timedelta(seconds=9)
# When a refused run is retried. It fails again until its data changes, so a short delay would gain nothing.
_REFUSED_AGAIN = timedelta(seconds=30)

# The errors of encoders if a handler returned a value of the wrong type.
_UNENCODABLE = (TypeError, ValueError, AttributeError, AssertionError, msgspec.MsgspecError)

_encode = msgspec.json.Encoder().encode

_COMMITTED = Result(Verdict.COMMITTED)
_UNKNOWN = Result(Verdict.UNKNOWN)
_LOCKED = Result(Verdict.LOCKED)


class Committer(Generic[R, S, W]):
    """Writes finished runs, and returns the result of each."""

    def __init__(self, connections: Pool, rows: Rows[R, S, W], *, within: timedelta = WITHIN) -> None:
        self._pool = connections
        self._rows = rows
        self._statement = _COMMIT.replace("writer_of_kind", rows.writer)
        self._within = within.total_seconds()

    async def commit(
        self, runs: Sequence[Finished[S, W]], controller: UUID, *, patient: bool = False
    ) -> Mapping[int, Result]:
        """`StateIO.commit`: commit the batch in one call, or in several if the database refuses it."""
        work = _Work(controller=controller, patient=patient)
        with anyio.move_on_after(self._within):
            await self._together(runs, work)
        late = [run for run in runs if run.id not in work.results]
        if late:
            _log.warning(
                "commit.failed", kind=self._rows.kind, runs=len(late), error=f"not done within {self._within:g} s"
            )
            work.unknown(late)
        return work.results

    async def _together(self, batch: Sequence[Finished[S, W]], work: _Work, *, again: bool = False) -> None:
        """Commit a batch in one call. `again`: this is the retry after a transient error."""
        try:
            work.results |= await self._call(batch, work)
        except (session.ReplyLost, DatabaseUnreachable):
            work.unknown(batch)
        except session.Refusal as error:
            if session.classify(error) is not session.Trouble.MOMENT:
                await self._blame(batch, error, work)
            elif again or (work.patient and isinstance(error, asyncpg.LockNotAvailableError)):
                await self._apart(batch, work)
            else:
                await self._together(batch, work, again=True)

    async def _apart(self, batch: Sequence[Finished[S, W]], work: _Work) -> None:
        """Halve a batch until the run whose rows another transaction has locked is alone. The run is reported as
        locked, and the loop commits it in a separate call."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._together(batch[:middle], work, again=True)
            await self._together(batch[middle:], work, again=True)
        else:
            work.results[batch[0].id] = _LOCKED

    async def _blame(self, batch: Sequence[Finished[S, W]], error: Exception, work: _Work) -> None:
        """Halve a batch that the database refuses until the refused run is alone. Store the error as its outcome."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._together(batch[:middle], work)
            await self._together(batch[middle:], work)
            return
        run = batch[0]
        refusal = RefusedByModel(f"the database rejected the commit of this run: {session.reason_of(error)}")
        try:
            result = (await self._call([_confession(run, refusal)], work))[run.id]
        except (session.ReplyLost, DatabaseUnreachable):
            result = Result(Verdict.UNKNOWN, refusal)
        except session.Refusal:
            result = _COMMITTED
        if result.verdict is Verdict.COMMITTED:
            result = Result(Verdict.REFUSED, refusal)
        work.results[run.id] = result

    async def _call(self, batch: Sequence[Finished[S, W]], work: _Work) -> dict[int, Result]:
        """Send one batch as one statement, and return the result of each run."""
        # For the kind's writer: the version of each run's snapshot, and the kind's own sections.
        read = [run for run in batch if run.version is not None]
        runs = [{"run": run.id, "version": run.version, "writes": bool(run.writes) and run.to is None} for run in read]
        try:
            changes = _encode({"runs": runs, **self._rows.changes(read)} if read else {}).decode()
            records = _encode(_records(batch)).decode()
        except _UNENCODABLE as error:
            raise session.Unsendable(f"{type(error).__name__} while encoding what the handler returned") from error
        fence = {run.id % SHARDS: run.epoch for run in batch}
        to = self._rows.kind, work.controller, list(fence), list(fence.values()), work.patient
        async with session.borrowed(self._pool) as conn:
            rows = await session.commit_by(conn, self._statement, *to, [run.id for run in batch], changes, records)
        moved = {run.id for run in batch if run.moves}
        return {row["id"]: _result(row, moved) for row in rows}


class _Work(msgspec.Struct):
    """One commit: its controller, whether to wait for locked rows, and the results so far."""

    controller: UUID
    patient: bool
    results: dict[int, Result] = msgspec.field(default_factory=dict)

    def unknown(self, runs: Iterable[Finished[Any, Any]]) -> None:
        """Record that it is unknown whether these runs were committed."""
        self.results |= {run.id: _UNKNOWN for run in runs}


def _result(row: asyncpg.Record, moved: set[int]) -> Result:
    verdict = Verdict(row["verdict"])
    if verdict is Verdict.COMMITTED:
        return Result(verdict, at=row["at"]) if row["id"] in moved else _COMMITTED
    return Result(verdict, due_in=row["due_in"])


def _confession(run: Finished[S, W], refusal: FarrierError) -> Finished[S, W]:
    """The same run with only the error as its outcome. It has no outcome key, so the outcome of the next run is always
    stored."""
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
    """The moves, outcomes and consumed wakes of the runs, by section of `end_commit`."""
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in batch:
        for move in run.moves:
            assert run.version is not None, "a run that moves a layer has read its resource"
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
