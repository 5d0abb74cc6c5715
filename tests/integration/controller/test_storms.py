"""Very many wakes in one transaction: all of them are handled, in loads and statements of bounded size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import anyio
from typing_extensions import override

from farrier.model.runs import Loaded
from tests.support import toy
from tests.support.loop import PATIENCE, QUIET, Shop, WidgetIO
from tests.support.toy import Scripted, Widget

WAKES = "INSERT INTO farrier.wakes (kind, resource) SELECT 'widget', 1 + i % $1::int FROM generate_series(1, $2::int) i"
LEFT = "SELECT count(*) FROM farrier.wakes"


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
        with anyio.fail_after(PATIENCE):
            while await shop.pool.fetchval(LEFT):
                await anyio.lowlevel.checkpoint()
    assert max(io.read) <= 10_000
    assert max(io.deleted) <= 5_000
