"""Very many wakes in one transaction: all of them are handled, in loads and statements of bounded size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from uuid import UUID

import anyio
import pytest
from typing_extensions import override

from farrier.controller import loop
from farrier.model.loop.runs import CommitResult, Finished, Loaded
from tests.support import toy
from tests.support.loop import BRISK, QUIET, Shop, WidgetIO
from tests.support.toy import Answer, Scripted, Shape, Widget

WAKES = "INSERT INTO farrier.wakes (kind, resource) SELECT 'widget', 1 + i % $1::int FROM generate_series(1, $2::int) i"
IN_SILENCE = """
    BEGIN;
    ALTER TABLE farrier_toy.requests DISABLE TRIGGER wake;
    INSERT INTO farrier_toy.requests (widget) SELECT generate_series(1, 599);
    ALTER TABLE farrier_toy.requests ENABLE TRIGGER wake;
    INSERT INTO farrier.wakes (kind, resource, quiet) SELECT 'widget', generate_series(1, 599), true;
    COMMIT
"""


class Counted(WidgetIO):
    """Storage that records how many wakes each load reads, and each statement deletes."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self.read: list[int] = []
        self.deleted: list[int] = []

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Widget]:
        loaded = await super().load(ids)
        self.read.append(sum(map(len, loaded.wakes.values())))
        return loaded

    @override
    async def consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        self.deleted.append(sum(map(len, wakes.values())))
        await super().consume(wakes)


async def test_more_wakes_than_one_load_reads_are_all_handled(shop: Shop) -> None:
    await shop.register(1, 2, 3)
    io = Counted(shop)
    await shop.pool.execute(WAKES, 3, 45_000)
    async with shop.running(Scripted(), io=io, config=QUIET):
        await shop.db.until("SELECT NOT EXISTS (SELECT FROM farrier.wakes)")
    assert max(io.read) <= 10_000
    assert max(io.deleted) <= 5_000


class Gated(WidgetIO):
    """Storage whose commits of more than one run wait at a gate. Records how many were there at a time at most."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self.close()
        self.gate.set()

    def close(self) -> None:
        """Close the gate, and forget what was recorded."""
        self.waits, self.gate = anyio.Event(), anyio.Event()
        self.sizes: list[int] = []
        self.at_once = self._at_gate = 0

    @override
    async def commit(self, runs: Sequence[Finished[Shape, Answer]], controller: UUID) -> Mapping[int, CommitResult]:
        if len(runs) > 1:
            self.sizes.append(len(runs))
            self._at_gate += 1
            self.at_once = max(self.at_once, self._at_gate)
            self.waits.set()
            await self.gate.wait()
            self._at_gate -= 1
        return await super().commit(runs, controller)


async def test_a_request_is_answered_while_many_resources_for_which_nobody_waits_are_committed(shop: Shop) -> None:
    await shop.register(*range(1, 601))
    io = Gated(shop)
    async with shop.running(Scripted(), io=io, config=BRISK) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() >= 600)
        io.close()
        await shop.pool.execute(IN_SILENCE)
        await io.waits.wait()
        await shop.ask(600)
        await shop.until_answered(1)
        io.gate.set()
        await shop.until_answered(600)
    assert (io.at_once, max(io.sizes)) == (1, 64)


async def test_after_a_wake_fewer_resources_for_which_nobody_waits_are_committed_together(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_OTHERS_FOLLOW", math.inf)  # however slow the machine is
    await shop.register(*range(1, 601))
    io = Gated(shop)
    async with shop.running(Scripted(), io=io, config=BRISK) as (controller, ledger):
        await ledger.until(lambda: ledger.outcomes.total() >= 600)
        io.close()
        io.gate.set()
        controller.woken("widget", (600,))
        await shop.pool.execute(IN_SILENCE)
        await shop.until_answered(599)
    assert max(io.sizes) == 16
