"""Controllers side by side over the same widgets; a test moves their clocks and triggers their rounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import anyio
import msgspec
from anyio.abc import TaskGroup
from typing_extensions import override

from farrier.config import ControllerConfig
from farrier.controller.controller import Controller
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop
from farrier.controller.ownership import RENEW_EVERY, Ownership
from farrier.errors import DatabaseUnreachable
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections.pool import Pool
from farrier.model.loop.controllers import Renewal, Woken
from tests.support import toy
from tests.support.clock import HandClock
from tests.support.loop import BRISK, PATIENCE, Ledger, Shop, WidgetIO, WidgetLoop


class Rounds(PostgresControllers):
    """The controllers' rows. With it a test sees rounds and polls, cuts a controller off, delays its giving back of
    shards, and simulates a restart of the server or the promotion of a standby."""

    def __init__(self, connections: Pool) -> None:
        super().__init__(connections)
        self.cut_off = False
        self.begun = self.restarts = 0
        self.timeline: str | None = None
        self.floors: list[str] = []
        self.gives_back, self.may_give_back = anyio.Event(), anyio.Event()
        self.may_give_back.set()
        self._changed = anyio.Event()

    @override
    async def join(self, controller: UUID, name: str, kinds: Sequence[str]) -> None:
        if self.cut_off:
            self.begun += 1
            self._tell()
            raise DatabaseUnreachable("the test", "cut off")
        await super().join(controller, name, kinds)

    @override
    async def renew(self, controller: UUID, lags: Mapping[str, float], *, leaving: bool = False) -> Renewal:
        self.begun += 1
        self._tell()
        if self.cut_off:
            raise DatabaseUnreachable("the test", "cut off")
        seen = await super().renew(controller, lags, leaving=leaving)
        timeline = self.timeline or seen.timeline
        return msgspec.structs.replace(seen, started=seen.started + self.restarts, timeline=timeline)

    @override
    async def give_back(self, controller: UUID, kind: str, shards: Mapping[int, int]) -> None:
        self.gives_back.set()
        await self.may_give_back.wait()
        await super().give_back(controller, kind, shards)

    @override
    async def poll(self, kinds: Sequence[str], floor: str) -> Woken:
        found = await super().poll(kinds, floor)
        self.floors.append(floor)
        self._tell()
        return found

    async def next(self) -> None:
        """Wait until the next round begins, or the next poll has ended."""
        await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Replica:
    """One controller."""

    def __init__(
        self,
        shop: Shop,
        handler: toy.Scripted | None = None,
        *,
        config: ControllerConfig = BRISK,
        io: WidgetIO | None = None,
        pool: Pool | None = None,
        name: str = "test",
    ) -> None:
        self.clock = HandClock(1000.0)
        self.ledger = Ledger()
        self.own = Ownership()
        self.handler = handler or toy.Scripted()
        self.rounds = Rounds(pool or shop.pool)
        host = LoopContext(config=config, sink=self.ledger, clock=self.clock, ownership=self.own)
        self.loop: WidgetLoop = Loop(
            toy.WidgetKind(), self.handler, io or shop.io(pool=pool), services=object(), host=host
        )
        self.controller = Controller(self.rounds, [self.loop], host, name=name)
        self._stop, self._ended = anyio.Event(), anyio.Event()
        self._scope = anyio.CancelScope()

    @property
    def shards(self) -> set[int]:
        return {number for _, number in self.own.held}

    @property
    def id(self) -> UUID:
        assert self.own.id is not None
        return self.own.id

    async def start(self, group: TaskGroup) -> None:
        """Start the controller in the group; returns once it is ready."""
        group.start_soon(self._run)
        with anyio.fail_after(PATIENCE):
            await self.controller.ready.wait()

    async def stop(self) -> None:
        """Stop as SIGTERM does."""
        self._stop.set()
        with anyio.fail_after(PATIENCE):
            await self._ended.wait()

    async def crash(self) -> None:
        """End at once, as SIGKILL does."""
        self._scope.cancel()
        with anyio.fail_after(PATIENCE):
            await self._ended.wait()

    async def round(self) -> None:
        """Return once a whole round was made that began after this call."""
        before = self.rounds.begun
        with anyio.fail_after(PATIENCE):
            while self.rounds.begun < before + 2:
                self.controller.woken("shards", None)
                await self.rounds.next()

    async def poll(self) -> None:
        """Return once a whole poll was made that began after this call."""
        before = len(self.rounds.floors)
        with anyio.fail_after(PATIENCE):
            while len(self.rounds.floors) < before + 2:
                self.controller.heard_nothing()
                await self.rounds.next()

    async def pass_seconds(self, seconds: float) -> None:
        """Advance only this replica's clock, with a round every two seconds."""
        passed = 0.0
        while passed < seconds:
            passed += RENEW_EVERY
            self.clock.advance(timedelta(seconds=RENEW_EVERY))
            await self.round()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self.controller.run(self._stop)
        finally:
            self._ended.set()


@asynccontextmanager
async def at_work(*replicas: Replica) -> AsyncIterator[TaskGroup]:
    """Start these replicas one after the other, and stop them at the end of the block. Replicas that the block starts
    in the group are cancelled at its end, unless it stops them."""
    async with anyio.create_task_group() as group:
        for replica in replicas:
            await replica.start(group)
        yield group
        for replica in replicas:
            replica._stop.set()
        for replica in replicas:
            await replica.stop()
        group.cancel_scope.cancel()
