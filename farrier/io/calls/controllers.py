"""Reads and writes the rows of controllers and shards, and polls for wakes. Implements `protocols.Controllers`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

import msgspec
import structlog

import farrier
from farrier.errors import DatabaseUnreachable
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool
from farrier.io.connections.rehearsal import NOBODY, Scene
from farrier.model.loop.controllers import Renewal, Woken

_RECOGNISE = statements.load("loop/recognise")
_JOIN = statements.load("loop/join")
_RENEW = statements.load("loop/renew")
_EXPIRE = statements.load("loop/expire")
_TAKE = statements.load("loop/take")
_GIVE_BACK = statements.load("loop/give_back")
_LEAVE = statements.load("loop/leave")
_FORGET = statements.load("loop/forget")
_POLL = statements.load("loop/poll")
_COLLAPSE = statements.load("loop/collapse")

_ANSWER_SECONDS = 5.0
# A restored database gets a hold for each resource; a million take some 20 seconds.
_RECOGNISE_SECONDS = 120.0
# Short enough that a controller can try twice within the time for which it may act.
_RENEW_SECONDS = 2.5

_log = structlog.stdlib.get_logger(__name__)

# How many wakes one poll reads: a few milliseconds of work.
_FEW_WAKES = 2_000

_seen = msgspec.json.Decoder(Renewal).decode


class PostgresControllers:
    """Implements `protocols.Controllers` with one statement for each call."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections
        self._fetch = partial(session.fetch, connections, within=_ANSWER_SECONDS)

    def rehearsed(self) -> Scene:
        """Return the statements that run all the time, for no controller and no kind."""
        return [(_RENEW, NOBODY, [], [], False), (_POLL, [], "0", 0)]

    async def join(self, controller: UUID, name: str, kinds: Sequence[str]) -> None:
        held = await self._recognise()
        if held is not None:
            _log.warning("database.restored", held=held)
        await self._fetch(_JOIN, controller, name, farrier.__version__, list(kinds))

    async def renew(self, controller: UUID, lags: Mapping[str, float], *, leaving: bool = False) -> Renewal:
        row = controller, list(lags), list(lags.values()), leaving
        (record,) = await self._fetch(_RENEW, *row, within=_RENEW_SECONDS)
        return _seen(record[0])

    async def expire(self, controller: UUID, renewals: int | None) -> None:
        await self._fetch(_EXPIRE, controller, renewals)

    async def take(self, controller: UUID, kind: str, shards: Sequence[int]) -> Mapping[int, int]:
        records = await self._fetch(_TAKE, controller, kind, list(shards))
        return {record["shard"]: record["epoch"] for record in records}

    async def give_back(self, controller: UUID, kind: str, shards: Mapping[int, int]) -> None:
        await self._fetch(_GIVE_BACK, controller, kind, list(shards), list(shards.values()))

    async def leave(self, controller: UUID) -> None:
        await self._fetch(_LEAVE, controller)

    async def forget(self) -> None:
        await self._fetch(_FORGET)

    async def collapse(self) -> None:
        await self._fetch(_COLLAPSE)

    async def poll(self, kinds: Sequence[str], floor: str) -> Woken:
        records = await self._fetch(_POLL, list(kinds), floor, _FEW_WAKES)
        wakes: dict[str, dict[int, set[UUID]]] = defaultdict(lambda: defaultdict(set))
        loud: dict[str, set[int]] = defaultdict(set)
        many: dict[str, Sequence[int]] = {}
        for _, _, kind, resource, wake, is_quiet, resources in records:
            if resources is not None:
                many[kind] = resources
            elif kind is not None:
                wakes[kind][resource].add(wake)
                if not is_quiet:
                    loud[kind].add(resource)
        floor, now, *_ = records[0]
        return Woken(floor, now, wakes, loud, many)

    async def _recognise(self) -> int | None:
        """Hold every resource of a restored database, and return their number; takes longer than other statements."""
        try:
            async with session.borrowed(self._pool) as conn:
                held: int | None = await conn.fetchval(_RECOGNISE, timeout=_RECOGNISE_SECONDS)
                return held
        except session.Refusal as refusal:
            raise DatabaseUnreachable("the pool", session.reason_of(refusal)) from refusal
