"""The storage of one kind for the loop: it lists, loads, marks, commits and settles resources, and deletes wakes.

`PostgresStateIO` is the same for every kind; a `Rows` has the SQL and the codec of one kind. Every method borrows a
connection for one round trip, and gives it back before the method returns.

One call commits many runs; each run is committed as a whole or not at all. The statement locks the shards. Then the
kind's writer locks the resources in order, compares versions, and writes the runs whose versions are current. It skips
resources that another transaction has locked; their runs are reported as locked. After an error of the database, the
batch is halved until the run that caused the error is alone. This run is reported as refused or, if another transaction
has locked other rows of the run, as locked. A run whose reply was lost is `unknown` and is never sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from farrier.errors import DatabaseUnreachable, FarrierError, RefusedByModel, RowsLocked, UndecodableState
from farrier.io import codec, statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.io.connections.rehearsal import NOBODY, Scene
from farrier.io.kinds.rows import Rows, placed
from farrier.model.loop.controllers import SHARDS, ListedResources
from farrier.model.loop.outcome import Record
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import CommitResult, CommitVerdict, Due, Finished, Loaded, Marking, Move, Settled
from farrier.slices import sliced

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# How many wakes one load reads. A load of very many wakes would delay its runs.
_MOST_WAKES = 10_000

_hold = msgspec.json.Decoder(Hold).decode

_LIST = statements.load("loop/list")
_LOAD = statements.load("loop/load")
_LOAD_REST = _LOAD.replace(
    "(of_kind)", "(SELECT 0::bigint AS id, farrier.now() AS now, NULL::text AS snapshot WHERE $1::bigint[] IS NULL)"
)
_MARK = statements.load("loop/mark")
_SETTLE = statements.load("loop/settle")
_CONSUME = statements.load("loop/consume")
_COMMIT = statements.load("loop/commit")
_HOLDERS = statements.load("loop/holders")

# The delay before a refused run is retried. The run fails again until its data changes, so a short delay would gain
# nothing.
_REFUSED_AGAIN = timedelta(seconds=30)

# The errors of encoders if a handler returned a value of the wrong type.
_UNENCODABLE = (TypeError, ValueError, AttributeError, AssertionError, msgspec.MsgspecError)
_NOT_ENCODED = "farrier cannot encode what the handler returned"

# How long a commit waits for locks of other transactions. A batch waits for a short transaction to end. Each part of a
# batch that had to be halved waits less, because a long transaction may have locked rows of many runs.
_PATIENCE = "50ms"
_LITTLE_PATIENCE = "10ms"

_COMMITTED = CommitResult(CommitVerdict.COMMITTED)
# A run of no resource, with a row for each argument.
_ROWS: dict[str, Any] = {"wakes": (NOBODY,), "moves": (Move("", None, "", None),), "record": Record("")}
_FENCED: Finished[Any, Any] = Finished(id=0, epoch=0, version=0, due=Due.PERIODIC, outcome="", **_ROWS)


class PostgresStateIO(Generic[R, S, W]):
    """Implements `protocols.StateIO` on PostgreSQL."""

    def __init__(self, connections: Pool, rows: Rows[R, S, W]) -> None:
        self._pool = connections
        self._rows = rows
        self._statement = _COMMIT.replace("(of_kind)", f"({rows.write}\n)")
        self._load = _LOAD.replace("(of_kind)", f"({rows.load}\n)")

    async def readable(self) -> str | None:
        try:
            async with session.borrowed(self._pool) as conn:
                await conn.fetch(self._load, [], self._rows.kind, 0)
        except session.Refusal as refusal:
            return session.reason_of(refusal)
        return None

    def rehearsed(self) -> Scene:
        """Return the statements on the path of a wake, for no resource. Its two commits write nothing, but run every
        statement of a commit: the kind's, and, for a run that the fence refuses, all others. The marks come last,
        because they lock a row that all connections share."""
        kind, interrupted = self._rows.kind, self._rows.interrupted
        commits = ((), self._rows.rehearsed()), ((_FENCED,), self._rows.written(()))
        return [
            (self._load, [], kind, 0),
            *((self._statement, *self._arguments(batch, NOBODY, _PATIENCE), *written) for batch, written in commits),
            (_CONSUME, kind, [], []),
            *([(interrupted, [])] if interrupted else ()),
            (_MARK, kind, NOBODY, [], [], 1, [], [], []),
        ]

    async def listing(self, shards: Sequence[int]) -> ListedResources:
        ids: dict[int, bool] = {}
        steps: dict[int, str] = {}
        for id_, woken, step in await session.fetch(self._pool, _LIST, self._rows.kind, [*shards]):
            ids[id_] = ids.get(id_, False) or woken
            if step is not None:
                steps[id_] = step
        return ListedResources(ids, steps)

    async def load(self, ids: Sequence[int]) -> Loaded[R]:
        try:
            async with session.borrowed(self._pool) as conn:
                records = await conn.fetch(self._load, ids, self._rows.kind, _MOST_WAKES)
        except session.Refusal as refusal:
            if session.classify(refusal) is session.Trouble.MOMENT:
                return await self.load(ids)  # the conflict is transient, and the caller has a time limit
            return await self._load_apart(ids, refusal)
        return await self._read(records)

    async def _read(self, records: Sequence[asyncpg.Record]) -> Loaded[R]:
        """Sort the rows of a load into snapshots, wakes and outcome keys."""
        now = _EPOCH
        resources: dict[int, R] = {}
        unreadable: dict[int, FarrierError] = {}
        wakes: dict[int, tuple[UUID, ...]] = {}
        woken_at: dict[int, datetime] = {}
        keys: dict[int, int] = {}
        holds: dict[int, Hold] = {}
        decode = self._rows.decode
        async for id_, at, snapshot, seen, key, hold in sliced(records):
            if snapshot is not None:
                now = at
                try:
                    resources[id_] = decode(snapshot)
                except FarrierError as error:
                    unreadable[id_] = error
            elif key is not None:
                keys[id_] = key
            elif hold is not None:
                holds[id_] = _hold(hold)
            else:
                wakes[id_], woken_at[id_] = tuple(seen), at
        is_partial = sum(map(len, wakes.values())) >= _MOST_WAKES
        return Loaded(now, resources, unreadable, wakes, woken_at, keys, holds, is_partial)

    async def consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        pairs = [(id_, wake) for id_, seen in wakes.items() for wake in seen]
        await session.fetch(
            self._pool, _CONSUME, self._rows.kind, [id_ for id_, _ in pairs], [wake for _, wake in pairs]
        )

    async def mark(self, marking: Marking, controller: UUID) -> frozenset[int]:
        epochs, begun = marking.epochs, marking.begun
        fence = self._rows.kind, controller, [*epochs], [*epochs.values()]
        records = await session.fetch(
            self._pool, _MARK, *fence, marking.number, [*begun], [*begun.values()], [*marking.ended]
        )
        return frozenset(record["id"] for record in records)

    async def settle(self, runs: Sequence[Finished[S, W]]) -> Mapping[int, Settled]:
        ids, versions = [run.id for run in runs], [run.version for run in runs]
        commits = [run.commit_id for run in runs]
        records = await session.fetch(self._pool, _SETTLE, self._rows.kind, ids, versions, commits)
        return {record["id"]: Settled(record["happened"], record["at"]) for record in records}

    async def interrupted(self, ids: Collection[int]) -> frozenset[int]:
        if self._rows.interrupted is None or not ids:
            return frozenset()
        records = await session.fetch(self._pool, self._rows.interrupted, list(ids))
        return frozenset(record["id"] for record in records)

    async def _load_apart(self, ids: Sequence[int], refusal: Exception) -> Loaded[R]:
        """Load each half of the IDs separately, because the load of all of them failed because of stored data. This is
        repeated until the load of a single row fails; this row is reported as unreadable."""
        if len(ids) == 1:
            error = UndecodableState(f"{self._rows.kind} {ids[0]}", session.reason_of(refusal))
            # The result includes the wakes of the resource, so that its run deletes them.
            rest = await self._read(await session.fetch(self._pool, _LOAD_REST, ids, self._rows.kind, _MOST_WAKES))
            return msgspec.structs.replace(rest, unreadable={ids[0]: error})
        middle = len(ids) // 2
        first, second = await self.load(ids[:middle]), await self.load(ids[middle:])
        return Loaded(
            max(first.now, second.now),
            {**first.resources, **second.resources},
            {**first.unreadable, **second.unreadable},
            {**first.wakes, **second.wakes},
            {**first.woken_at, **second.woken_at},
            {**first.keys, **second.keys},
            {**first.holds, **second.holds},
            first.is_partial or second.is_partial,
        )

    async def commit(self, runs: Sequence[Finished[S, W]], controller: UUID) -> Mapping[int, CommitResult]:
        return await self._commit(runs, controller, patience=_PATIENCE)

    async def _commit(
        self, runs: Sequence[Finished[S, W]], controller: UUID, *, patience: str, again: bool = False
    ) -> dict[int, CommitResult]:
        """Commit the batch, in several calls if it is refused. `again` is set for the retry after a transient error."""
        try:
            return await self._call(runs, controller, patience=patience)
        except DatabaseUnreachable as lost:  # also if only the reply is lost
            return dict.fromkeys((run.id for run in runs), CommitResult(CommitVerdict.UNKNOWN, lost))
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
        # The write needs none of the locked rows. The wakes of the runs remain, because the runs are repeated.
        holders: dict[int, str] = {}
        with suppress(DatabaseUnreachable):
            ids = [run.id for run in runs]
            records = await session.fetch(self._pool, _HOLDERS, self._rows.kind, ids)
            holders = {record["id"]: record["holders"] for record in records}
        errors: dict[int, FarrierError] = {}
        for run in runs:
            found = RowsLocked(holders.get(run.id, "its session is not known"))
            errors[run.id] = found if run.id in holders else results[run.id].error or found
        alone = (msgspec.structs.replace(run, version=None, wakes=()) for run in runs)
        confessions = [_confession(run, errors[run.id]) for run in alone]
        with suppress(DatabaseUnreachable, *session.Refusal):
            await self._call(confessions, controller, patience=_PATIENCE)
        return {id_: CommitResult(CommitVerdict.LOCKED, error) for id_, error in errors.items()}

    async def _refused(self, run: Finished[S, W], error: Exception, controller: UUID) -> CommitResult:
        """Store the database's error as the outcome of the run that caused it."""
        is_encoded = not isinstance(error, session.Unsendable)
        what = "the database rejected the commit of this run" if is_encoded else _NOT_ENCODED
        refusal = RefusedByModel(f"{what}: {session.reason_of(error)}")
        result = _COMMITTED
        try:
            result = (await self._call([_confession(run, refusal)], controller, patience=_PATIENCE))[run.id]
        except DatabaseUnreachable:
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
            rows = await conn.fetch(self._statement, *arguments)
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
    """Return the moves of the runs, and their texts."""
    runs, versions, since, texts = [], [], [], list[tuple[Any, ...]]()
    for run in batch:
        for move in run.moves:
            assert run.version is not None, "a run moves a layer only after it has read the resource"
            runs.append(run.id)
            versions.append(run.version + 1)
            since.append(None if move.since is None else move.since.timestamp())
            texts.append((move.layer, move.source, move.target, run.cause, run.reason, run.source))
    places, written = placed(texts, width=6)
    return runs, versions, since, places, *written


def _outcomes(batch: Sequence[Finished[Any, Any]]) -> _Columns:
    """Return the outcomes of the runs that are to be stored, with their keys."""
    ended = [run for run in batch if run.record is not None]
    places, (records, keys) = placed(((run.record, run.outcome_key) for run in ended), width=2)
    return [run.id for run in ended], places, [codec.encode(record) for record in records], keys


def _wakes(batch: Sequence[Finished[Any, Any]]) -> _Columns:
    """Return the consumed wakes of the runs."""
    return [run.id for run in batch for _ in run.wakes], [wake for run in batch for wake in run.wakes]
