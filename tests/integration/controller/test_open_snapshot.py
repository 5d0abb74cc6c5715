"""Somebody's snapshot stays open, so vacuum removes nothing: claims must not walk over all that has been."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from typing_extensions import override

from farrier.io import statements
from farrier.model.schedule import Claim, Lane
from tests.support import toy
from tests.support.loop import BRISK, Shop, WidgetIO
from tests.support.toy import Scripted

# Few runs of many widgets: each version that a row ever had costs its next update a look at its primary key,
# which no bound on the scan can spare.
WIDGETS = 2_000
RUNS = 8_000
ROWS = 50


class FloorsSeen(WidgetIO):
    """Storage that remembers from where each lane was last scanned, when it was not from the start."""

    floors: dict[Lane, datetime]

    @override
    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        if floor is not None:
            self.floors[lane] = floor
        return await super().claim(lane, limit, floor)


async def cost_of_claim(shop: Shop, lane: Lane, floor: datetime) -> int:
    """Pages touched by a claim of a few rows; rolled back."""
    arguments = ("widget", lane.value, floor, ROWS, None, 7, BRISK.lease)
    async with shop.db.connect() as conn:
        await conn.execute("SET plan_cache_mode = force_generic_plan; BEGIN")
        explained = await conn.fetchval(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) " + statements.load("schedule/claim"), *arguments
        )
        await conn.execute("ROLLBACK")
    (plan,) = msgspec.json.decode(explained)
    pages: int = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return pages


async def test_a_claim_under_an_open_snapshot_costs_no_more_than_three_times_the_first(shop: Shop) -> None:
    io: Any = FloorsSeen(shop.pool, toy.WidgetRows(), owner=shop.io().owner, lease=BRISK.lease)
    io.floors = {}
    await shop.register(*range(1, WIDGETS + 1))
    async with shop.db.connect() as dump:
        await dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM farrier.schedule")
        first = await cost_of_claim(shop, Lane.PERIODIC, await shop.db.now() - timedelta(hours=2))
        handler = Scripted()
        bounded: list[int] = []
        async with shop.running(handler, io=io) as (_, ledger):
            while ledger.outcomes.total() < RUNS:
                begun = ledger.outcomes.total()
                await ledger.until(lambda: ledger.outcomes.total() >= begun + WIDGETS)  # noqa: B023 (awaited here)
                await shop.db.advance(timedelta(seconds=40))
                # Where the loop is halfway through a round, a part of what lies in the way is of this round.
                bounded.append(await cost_of_claim(shop, Lane.PERIODIC, io.floors[Lane.PERIODIC]))
        from_the_start = await cost_of_claim(shop, Lane.PERIODIC, await shop.db.now() - timedelta(days=30))
    assert min(bounded[-2:]) <= 3 * first
    assert from_the_start > 5 * first, "nothing was in the way: this test proves nothing"
