"""Somebody's snapshot stays open, so vacuum removes nothing: claims must not walk over all that has been."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import msgspec
from typing_extensions import override

from farrier.io import statements
from farrier.model.runs import Claim, Lane
from tests.support import toy
from tests.support.loop import BRISK, Shop, WidgetIO
from tests.support.toy import Scripted

# Few runs of many widgets: each version that a row ever had costs its next update a look at its primary key,
# which no bound on the scan can spare.
WIDGETS = 2_000
ROUNDS = 4
ROWS = 50


class FloorsSeen(WidgetIO):
    """Storage that tells from where the periodic lane was last scanned, when it was not from the start."""

    floor = datetime.min.replace(tzinfo=UTC)
    looked: anyio.Event | None = None

    @override
    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        if lane is Lane.PERIODIC and floor is not None:
            self.floor = floor
            if self.looked is not None:
                self.looked.set()
        return await super().claim(lane, limit, floor)

    async def is_past(self, at: datetime) -> None:
        """Return once a scan began behind `at`."""
        while self.floor <= at:
            self.looked = anyio.Event()
            await self.looked.wait()


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


async def round_of_runs(shop: Shop, io: FloorsSeen) -> None:
    """Every widget runs once, and the loop has looked what is due after them."""
    async with shop.running(Scripted(), io=io) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() >= WIDGETS)
        ended_at = await shop.db.now()
        await shop.db.advance(timedelta(seconds=1))
        await io.is_past(ended_at)


async def test_a_claim_under_an_open_snapshot_costs_no_more_than_three_times_the_first(shop: Shop) -> None:
    io = FloorsSeen(shop.pool, toy.WidgetRows(), owner=shop.io().owner, lease=BRISK.lease)
    await shop.register(*range(1, WIDGETS + 1))
    async with shop.db.connect() as dump:
        await dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM farrier.schedule")
        first = await cost_of_claim(shop, Lane.PERIODIC, await shop.db.now() - timedelta(hours=2))
        for _ in range(ROUNDS):
            await round_of_runs(shop, io)
            await shop.db.advance(timedelta(seconds=40))
        bounded = await cost_of_claim(shop, Lane.PERIODIC, io.floor)
        from_the_start = await cost_of_claim(shop, Lane.PERIODIC, await shop.db.now() - timedelta(days=30))
    assert bounded <= 3 * first
    assert from_the_start > 5 * first, "nothing was in the way: this test proves nothing"
