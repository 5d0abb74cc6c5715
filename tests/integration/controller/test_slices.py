"""Work on very many resources leaves the process to other tasks between any two of them that take long."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from statistics import median

import anyio
import msgspec
import pytest
from typing_extensions import override

from farrier.controller import loop
from farrier.model.loop.controllers import SHARDS
from farrier.slices import SLICE
from tests.support import toy
from tests.support.loop import QUIET, Shop, WidgetIO
from tests.support.toy import Scripted, Widget

MANY = 60
# One batch loads them, and the sweep begins with all of them in memory.
OF_ONE_SHARD = [SHARDS * number for number in range(1, MANY + 1)]


class Others:
    """Another task of the process, which counts how often it ran."""

    def __init__(self) -> None:
        self.ran = 0
        self.seen: list[int] = []

    def work(self) -> None:
        """Block all tasks for longer than a slice, and record how often the other task had run before."""
        self.seen.append(self.ran)
        ends = time.perf_counter() + SLICE
        while time.perf_counter() <= ends:
            pass

    def forget(self) -> None:
        self.seen.clear()

    @property
    def let_in(self) -> bool:
        """Whether the other task ran between any two pieces of work."""
        return len(self.seen) == len(set(self.seen))

    async def run(self) -> None:
        while True:
            self.ran += 1
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def others() -> AsyncIterator[Others]:
    async with anyio.create_task_group() as tasks:
        running = Others()
        tasks.start_soon(running.run)
        yield running
        tasks.cancel_scope.cancel()


class Slow(Scripted):
    """A handler whose decisions take longer than a slice."""

    def __init__(self, beside: Others) -> None:
        super().__init__()
        self._beside = beside
        self.wake: Callable[[], object] = int

    @override
    def handle(self, resource: Widget, now: datetime) -> toy.Decided:
        self.wake()
        self._beside.work()
        return super().handle(resource, now)


async def test_another_task_runs_between_any_two_runs_of_a_batch(shop: Shop) -> None:
    await shop.register(*OF_ONE_SHARD)
    async with others() as beside:
        handler = Slow(beside)
        async with shop.running(handler, config=QUIET) as (_, ledger):
            await ledger.until(lambda: ledger.outcomes.total() >= MANY)
        assert sorted(handler.order) == OF_ONE_SHARD
        assert beside.let_in


ALWAYS_DUE = msgspec.structs.replace(QUIET, period=timedelta(milliseconds=10))


async def test_another_task_runs_between_any_two_runs_of_the_sweep(shop: Shop) -> None:
    await shop.register(*OF_ONE_SHARD)
    async with others() as beside:
        handler = Slow(beside)
        async with shop.running(handler, config=ALWAYS_DUE) as (_, ledger):
            await ledger.until(lambda: set(handler.order) == set(OF_ONE_SHARD))
            handler.order.clear()
            beside.forget()
            await ledger.until(lambda: len(handler.order) >= 3 * MANY)
        assert set(handler.order) == set(OF_ONE_SHARD), "the slices reach every resource"
        assert beside.let_in


async def test_after_a_wake_other_tasks_run_for_longer_between_two_slices(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_LATE", math.inf)  # however slow the machine is
    await shop.register(*OF_ONE_SHARD)
    async with others() as beside:
        handler = Slow(beside)
        async with shop.running(handler, config=ALWAYS_DUE) as (controller, ledger):
            await ledger.until(lambda: set(handler.order) == set(OF_ONE_SHARD))
            handler.wake = partial(controller.woken, "widget", ())
            beside.forget()
            await ledger.until(lambda: len(beside.seen) >= MANY)
        assert median(after - before for before, after in pairwise(beside.seen)) >= 4


class SlowlyRead(toy.WidgetRows):
    """Rows whose snapshots take longer than a slice to decode."""

    def __init__(self, beside: Others) -> None:
        super().__init__()
        read: Callable[[bytes | str], Widget] = self.decode

        def slowly(snapshot: bytes | str) -> Widget:
            beside.work()
            return read(snapshot)

        self.decode = slowly


async def test_another_task_runs_between_any_two_snapshots_of_a_load(shop: Shop) -> None:
    await shop.register(*OF_ONE_SHARD)
    async with others() as beside:
        loaded = await WidgetIO(shop.pool, SlowlyRead(beside)).load(OF_ONE_SHARD)
        assert len(loaded.resources) == MANY
        assert beside.let_in
