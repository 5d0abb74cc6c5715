"""Storage of one kind for the loop: claim, load, renew, give back.

`PostgresStateIO` is the same for every kind; what differs is a `Rows`: the kind's own SQL and codec.
Committing is long enough for a module of its own (`commit`). Every method borrows a connection for one round
trip or one transaction and holds none when it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

import anyio
import asyncpg

from farrier.errors import DatabaseUnreachable, FarrierError, UndecodableState
from farrier.io import commit, session, statements
from farrier.io.pool import Pool
from farrier.model.schedule import Claim, Claimed, Finished, Lane, Loaded, Result, new_token

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
W = TypeVar("W")

# A claim's lower bound when it is to scan everything. Not -infinity: that has no place on a time axis we
# subtract on.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# After so many snapshots the event loop serves others: half a millisecond of decoding.
_SLICE = 64

_CLAIM = statements.load("schedule/claim")
_BRING_BACK = statements.load("schedule/bring_back")
_LOST = statements.load("schedule/lost")
_RENEW = statements.load("schedule/renew")
_GIVE_BACK = statements.load("schedule/give_back")
_AWAIT_LOCK = statements.load("schedule/await_lock")


# Section → its elements, each with the id of its `run`.
Changes: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]


class Rows(Protocol[R_co, S, W]):
    """One kind's tables: its SQL and its codec. Touches no connection itself."""

    @property
    def kind(self) -> str:
        """The `kind` of its schedule rows."""

    @property
    def load(self) -> str:
        """SQL: `$1` ids → rows (id, now, snapshot). The snapshot is decoded by `decode`."""

    @property
    def writer(self) -> str:
        """The kind's SQL function that writes what `changes` makes, by its qualified name: (jsonb) RETURNS TABLE (run
        bigint, due_in interval). It answers the runs of which it wrote nothing, because their version has moved on or
        because what they write no longer fits, and how soon they are to be decided anew."""

    @property
    def interrupted(self) -> str | None:
        """SQL: `$1` ids → (id) of those with a request that cuts reading steps short; None if there are
        none."""

    def decode(self, snapshot: bytes | str) -> R_co:
        """One snapshot. Raises `UndecodableState`."""

    def changes(self, runs: Sequence[Finished[S, W]]) -> Changes:
        """The states and writes of these runs, by sections of the kind's own; each element names its `run`. The writer
        gets them with the section `runs`: the version that each run was decided on. Raises what encoders raise for a
        value that does not belong where it stands."""


class PostgresStateIO(Generic[R, S, W]):
    """`protocols.StateIO` on PostgreSQL."""

    def __init__(
        self,
        connections: Pool,
        rows: Rows[R, S, W],
        *,
        owner: UUID,
        lease: timedelta,
        commit_within: timedelta = commit.WITHIN,
    ) -> None:
        self._pool = connections
        self._rows = rows
        self._owner = owner
        self._lease = lease
        self._committer = commit.Committer(connections, rows, owner, lease, within=commit_within)

    @property
    def owner(self) -> UUID:
        """Whom its claims name: random per process start."""
        return self._owner

    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        token = new_token()
        records = await self._fetch(
            _CLAIM, self._rows.kind, lane.value, floor or _EPOCH, limit, self._owner, token, self._lease
        )
        told, *taken = records
        now, full = told["now"], told["found"] == limit
        rows = tuple(Claimed(r["id"], r["outcome_key"], now - r["due_at"], r["reruns"], r["taken_over"]) for r in taken)
        return Claim(token, lane, rows, told["due_at"] if full else now, full)

    async def bring_back(self, lane: Lane, limit: int, reach: timedelta) -> int:
        return len(await self._fetch(_BRING_BACK, self._rows.kind, lane.value, reach, limit))

    async def load(self, ids: Sequence[int]) -> Loaded[R]:
        try:
            async with session.borrowed(self._pool) as conn:
                records = await conn.fetch(self._rows.load, ids)
        except session.Refusal as refusal:
            if session.classify(refusal) is session.Trouble.MOMENT:
                return await self.load(ids)  # whoever was in the way goes on, and the caller's time is limited
            return await self._load_apart(ids, refusal)
        now = records[0]["now"] if records else _EPOCH
        resources: dict[int, R] = {}
        unreadable: dict[int, FarrierError] = {}
        decode = self._rows.decode
        for count, record in enumerate(records):
            if count % _SLICE == _SLICE - 1:
                await anyio.lowlevel.checkpoint()
            try:
                resources[record["id"]] = decode(record["snapshot"])
            except FarrierError as error:
                unreadable[record["id"]] = error
        return Loaded(now, resources, unreadable)

    async def commit(
        self, runs: Sequence[Finished[S, W]], *, patient: bool = False, keep: int | None = None
    ) -> Mapping[int, Result]:
        return await self._committer.commit(runs, patient=patient, keep=keep)

    async def renew(self, tokens: Mapping[int, int]) -> frozenset[int]:
        return await self._touch(_RENEW, tokens, self._lease)

    async def lost(self, tokens: Mapping[int, int]) -> frozenset[int]:
        return await self._touch(_LOST, tokens)

    async def give_back(self, tokens: Mapping[int, int], delay: timedelta, lane: Lane) -> None:
        given = await self._touch(_GIVE_BACK, tokens, delay, lane.value)
        locked = {id_: token for id_, token in tokens.items() if id_ not in given}
        if locked:
            await self._give_back_patiently(locked, delay, lane)

    async def interrupted(self, ids: Collection[int]) -> frozenset[int]:
        if self._rows.interrupted is None or not ids:
            return frozenset()
        records = await self._fetch(self._rows.interrupted, list(ids))
        return frozenset(record["id"] for record in records)

    async def _touch(self, sql: str, tokens: Mapping[int, int], *arguments: Any) -> frozenset[int]:
        records = await self._fetch(sql, self._rows.kind, list(tokens), list(tokens.values()), *arguments)
        return frozenset(record["id"] for record in records)

    async def _give_back_patiently(self, tokens: Mapping[int, int], delay: timedelta, lane: Lane) -> None:
        """Rows that are lost, or that a wake has just locked, which is not to wait for the lease to end."""
        kind, ids = self._rows.kind, sorted(tokens)
        try:
            async with session.borrowed(self._pool) as conn, session.Transaction(conn) as transaction:
                await conn.execute(session.WAIT_FOR_LOCK)
                await conn.execute(_AWAIT_LOCK, kind, ids)
                await conn.execute(_GIVE_BACK, kind, ids, [tokens[id_] for id_ in ids], delay, lane.value)
                await transaction.commit()
        except (session.ReplyLost, *session.Refusal) as error:
            raise DatabaseUnreachable("the pool", session.reason_of(error)) from error

    async def _load_apart(self, ids: Sequence[int], refusal: Exception) -> Loaded[R]:
        """The query itself fails on something stored: halve the ids until that row is alone."""
        if len(ids) == 1:
            error = UndecodableState(f"{self._rows.kind} {ids[0]}", session.reason_of(refusal))
            return Loaded(_EPOCH, {}, {ids[0]: error})
        middle = len(ids) // 2
        first, second = await self.load(ids[:middle]), await self.load(ids[middle:])
        return Loaded(
            max(first.now, second.now),
            {**first.resources, **second.resources},
            {**first.unreadable, **second.unreadable},
        )

    async def _fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        """One statement that locks by SKIP LOCKED: what it is refused for is of the moment, so it counts as
        no answer."""
        try:
            async with session.borrowed(self._pool) as conn:
                return await conn.fetch(sql, *arguments)
        except session.Refusal as refusal:
            raise DatabaseUnreachable("the pool", session.reason_of(refusal)) from refusal
