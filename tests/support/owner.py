"""Owns every shard of some kinds and runs their loops by the database's clock, which the test moves.

An `Owner` replaces `Controller` in tests of handlers, which are not about the ownership of shards: it takes
all shards at once, and never loses them. It runs the real `Loop` and the real statements. `settled` returns when there
is nothing more to do at this time. Two owners may have half of the `shards` each. An owner that ends without giving
them back (`crash`) leaves its shards and the marks of its steps to the next one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import anyio
from typing_extensions import override

from farrier.clock import MonotonicClock
from farrier.config import ControllerConfig
from farrier.controller.agenda import AgendaEntry, Phase
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop
from farrier.controller.ownership import RENEW_EVERY, Ownership
from farrier.controller.signal import Wakeup
from farrier.controller.wheel import TICK
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections.pool import Pool
from farrier.io.kinds.rows import Rows
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.loop.controllers import SHARDS, Renewal
from farrier.model.loop.runs import Loaded
from farrier.protocols import Kind, MetricsSink, StateHandler
from tests.support.loop import PATIENCE

CONFIG = ControllerConfig(poll_interval=timedelta(milliseconds=5), drain_timeout=timedelta(seconds=1))
_POLL_EVERY = 0.05
# uvloop rounds timeouts to whole milliseconds: a wait that ends before its time would spin for the rest.
_MOMENT = 0.0008
# The timing wheel rounds times up by at most this.
_GRAIN = timedelta(seconds=2 * TICK)


ALL = range(SHARDS)
ODD, EVEN = range(1, SHARDS, 2), range(0, SHARDS, 2)

# A kind, and ids of its resources.
Of: TypeAlias = tuple[str, Collection[int]] | None


class MovedClock(MonotonicClock):
    """This process's clock, moved on by the time that the test let pass."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def advance(self, by: timedelta) -> None:
        self._ahead += by.total_seconds()

    @override
    def monotonic(self) -> float:
        return super().monotonic() + self._ahead


class _Host(LoopContext, frozen=True, kw_only=True):
    """A host that may act while its owner is at work, regardless of the time since the last renewal."""

    owner: Any

    @override
    def may_act(self) -> bool:
        return bool(self.owner.at_work)


class _Time:
    """How far the test has moved the database's clock, which this process's clock follows."""

    def __init__(self, pool: Pool) -> None:
        self.clock = MovedClock()
        self.shift = timedelta(0)
        self._pool = pool
        self._reading = anyio.Lock()

    async def read(self) -> timedelta:
        """The shift in the database."""
        shift: timedelta = await self._pool.fetchval("SELECT farrier.now() - statement_timestamp()")
        return shift

    async def follow(self) -> None:
        """Move this process's clock on as the test moved the database's; never set it back."""
        async with self._reading:  # one read at a time: an older shift must not be applied after a newer one
            shift = await self.read()
            if shift > self.shift:
                self.clock.advance(shift - self.shift + _GRAIN)
            self.shift = shift


class _IO(PostgresStateIO[Any, Any, Any]):
    """Remembers the wakes that a snapshot has seen, since the loop handles these already. The loop takes the
    database's time from a load, so this process's clock shows the same time when the load returns."""

    def __init__(self, connections: Pool, rows: Rows[Any, Any, Any], time: _Time) -> None:
        super().__init__(connections, rows)
        self.seen: set[UUID] = set()
        self._time = time

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Any]:
        while True:
            before = self._time.shift
            loaded = await super().load(ids)
            await self._time.follow()
            if self._time.shift == before:
                break
        self.seen.update(wake for wakes in loaded.wakes.values() for wake in wakes)
        return loaded


class Owner:
    """The owner of shards. If it is `idle`, it works only while a test waits in `settled`, or in a block of
    `working`."""

    def __init__(
        self, pool: Pool, *, config: ControllerConfig = CONFIG, idle: bool = False, shards: Sequence[int] = ALL
    ) -> None:
        self._time = _Time(pool)
        self.clock = self._time.clock
        self.at_work = not idle
        self._config = config
        self._shards = shards
        self.pool = pool
        self._controllers = PostgresControllers(pool)
        self._ownership = Ownership()
        self._loops: dict[str, tuple[Loop[Any, Any, Any, Any], _IO]] = {}
        self._ids: dict[str, set[int]] = {}
        self._polling = anyio.Lock()
        self._now, self._looks = Wakeup(), Wakeup()
        self._renewed_at = 0.0

    def add(
        self,
        kind: Kind[Any, Any],
        handler: StateHandler[Any, Any, Any, Any],
        rows: Rows[Any, Any, Any],
        *,
        services: object,
        sink: MetricsSink,
    ) -> Loop[Any, Any, Any, Any]:
        """Run this kind, too. To be called before `running`."""
        io = _IO(self.pool, rows, self._time)
        host = _Host(config=self._config, sink=sink, clock=self.clock, ownership=self._ownership, owner=self)
        loop: Loop[Any, Any, Any, Any] = Loop(kind, handler, io, services=services, host=host)
        self._loops[loop.kind] = loop, io
        self._ids[loop.kind] = set()
        self._ownership.kinds |= {loop.kind}
        return loop

    @asynccontextmanager
    async def running(self, *, crash: bool = False) -> AsyncIterator[Owner]:
        """Run the loops. At the end of the block they are drained, or with `crash` end and keep all shards."""
        id_, stop = uuid4(), anyio.Event()
        self._time.shift = await self._time.read()
        await self._controllers.join(id_, "test", sorted(self._loops))
        self._ownership.join(id_, self.clock.monotonic())
        await self._take(id_)
        async with anyio.create_task_group() as background:
            background.start_soon(self._poll)
            async with anyio.create_task_group() as group:
                for loop, _ in self._loops.values():
                    group.start_soon(loop.run, stop)
                try:
                    yield self
                finally:
                    if crash:
                        group.cancel_scope.cancel()
                    stop.set()
            background.cancel_scope.cancel()
        if not crash:
            for kind in self._loops:
                epochs = {shard: self.epoch(kind, shard) for shard in self._shards}
                await self._controllers.give_back(id_, kind, epochs)
            await self._controllers.leave(id_)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """An idle owner works in this block."""
        before, self.at_work = self.at_work, True
        try:
            yield
        finally:
            self.at_work = before

    def wake(self) -> None:
        """Look for wakes now."""
        self._now.set()

    async def settled(self, held: Callable[[], bool] = lambda: False, *, only: Of = None) -> None:
        """Return once nothing is to be done at this time, or once `held` returns true. With `only`, once these
        resources of a kind have nothing to do."""
        with anyio.fail_after(PATIENCE):
            async with self.working():
                while not held() and not await self._is_settled(only):
                    await self._looks.wait(_MOMENT)

    def next_run(self, kind: str, id_: int) -> timedelta:
        """The time after which a resource at rest runs again, unless it is enqueued before."""
        entry = self.entry(kind, id_)
        return timedelta(seconds=max(0.0, entry.slot * TICK - self.clock.monotonic()))

    def entry(self, kind: str, id_: int) -> AgendaEntry[Any]:
        """The loop's entry in memory for a resource at rest."""
        entry = self._loops[kind][0].agenda.entry(id_)
        assert entry is not None and entry.phase is Phase.IDLE, f"{kind} {id_} is not at rest"
        return entry

    def epoch(self, kind: str, id_: int) -> int:
        """The epoch under which the owner has the shard of a resource."""
        return self._ownership.held[kind, id_ % SHARDS]

    async def is_busy(self) -> bool:
        """Whether anything is to be done at this time."""
        return not await self._is_settled(None)

    async def _is_settled(self, only: Of) -> bool:
        for loop, _ in self._loops.values():
            while loop.sweep():
                pass
            for waiting in loop.agenda._queues.values():  # load now, without waiting for more resources to load with
                waiting.load_at = 0.0 if waiting.entries else math.inf
        if not self._rests(only):
            return False
        news = await self._deliver()
        some = news.get(only[0], set()).intersection(only[1]) if only else any(news.values())
        return not some and self._rests(only)

    def _rests(self, only: Of) -> bool:
        now = self.clock.monotonic()
        if only is not None:
            return self._phases(*only) <= {Phase.IDLE}
        return all(
            loop.agenda.wheel.overdue(now) <= 0 and self._phases(kind) <= {Phase.IDLE}
            for kind, (loop, _) in self._loops.items()
        )

    def _phases(self, kind: str, ids: Collection[int] | None = None) -> set[Phase]:
        entries = (self._loops[kind][0].agenda.entry(id_) for id_ in (self._ids[kind] if ids is None else ids))
        return {entry.phase for entry in entries if entry is not None}

    async def _take(self, id_: UUID) -> None:
        for kind, (loop, io) in self._loops.items():
            taken = await self._controllers.take(id_, kind, self._shards)
            if len(taken) < len(self._shards):
                for other in (await self._renew(id_)).controllers:
                    if other.id != id_:  # it crashed
                        await self._controllers.expire(other.id, other.renewals)
                missing = sorted({*self._shards} - {*taken})
                taken = {**taken, **await self._controllers.take(id_, kind, missing)}
            assert len(taken) == len(self._shards), f"{kind} has {len(taken)} shards"
            listed = await io.listing(self._shards)
            self._ids[kind] |= set(listed.ids)
            self._ownership.took({(kind, shard): epoch for shard, epoch in taken.items()})
            loop.took(taken, listed)

    async def _renew(self, id_: UUID) -> Renewal:
        self._renewed_at = self.clock.monotonic()
        return await self._controllers.renew(id_, dict.fromkeys(self._loops, 0.0))

    async def _poll(self) -> None:
        while True:
            await self._now.wait(_POLL_EVERY)
            if self.at_work:
                await self._deliver()

    async def _deliver(self) -> dict[str, set[int]]:
        """Hand over wakes that no snapshot has seen, except those of resources that are being loaded, which the next
        call examines. Returns the ids of the wakes' resources, by kind."""
        async with self._polling:
            await self._time.follow()
            if self._ownership.id is not None and self.clock.monotonic() - self._renewed_at > RENEW_EVERY:
                await self._renew(self._ownership.id)
            found = await self._controllers.poll(sorted(self._loops), "0")
            woken: dict[str, set[int]] = {}
            for kind, wakes in found.wakes.items():
                loop, io = self._loops[kind]
                mine = {id_: each - io.seen for id_, each in wakes.items() if id_ % SHARDS in self._shards}
                news = {id_: each for id_, each in mine.items() if each}
                self._ids[kind] |= set(news)
                woken[kind] = set(news)
                if ready := {id_: each for id_, each in news.items() if self._phases(kind, [id_]) <= _HEARS}:
                    loop.polled(ready)
        return woken


_HEARS = {Phase.IDLE, Phase.ACTING}
