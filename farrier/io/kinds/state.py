"""The storage of one kind for the loop: it lists, loads, marks and settles resources, and deletes wakes. Module
`commit` makes the commits.

`PostgresStateIO` is the same for every kind; a `Rows` has the SQL and the codec of one kind. Every method borrows a
connection for one round trip, and gives it back before the method returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

import asyncpg
import msgspec

from farrier.errors import FarrierError, UndecodableState
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.io.connections.rehearsal import NOBODY, Scene
from farrier.io.kinds import commit
from farrier.io.kinds.rows import Rows
from farrier.model.loop.controllers import ListedResources
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import Finished, Loaded, Marking, Settled
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


class PostgresStateIO(commit.Committer[R, S, W]):
    """Implements `protocols.StateIO` on PostgreSQL."""

    def __init__(self, connections: Pool, rows: Rows[R, S, W]) -> None:
        super().__init__(connections, rows)
        self._load = _LOAD.replace("(of_kind)", f"({rows.load}\n)")

    async def readable(self) -> str | None:
        try:
            async with session.borrowed(self._pool) as conn:
                await conn.fetch(self._load, [], self._rows.kind, 0)
        except session.Refusal as refusal:
            return session.reason_of(refusal)
        return None

    def rehearsed(self) -> Scene:
        """Return the statements on the path of a wake, for no resource. The marks come last, because they lock a row
        that all connections share."""
        kind, interrupted = self._rows.kind, self._rows.interrupted
        return [
            (self._load, [], kind, 0),
            *self._rehearsed(),
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
