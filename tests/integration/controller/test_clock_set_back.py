"""The database's clock is set back: what lies in the future that was goes on, and no claim that lives is taken over."""

from __future__ import annotations

from datetime import timedelta

from structlog.testing import capture_logs

from farrier.model.runs import Lane
from tests.support.clock import HandClock
from tests.support.loop import BRISK, Shop
from tests.support.toy import Scripted

BACK = -timedelta(hours=1)
REACH = timedelta(minutes=2)
A_SCAN_LATER = timedelta(seconds=2)
WIDGETS = range(1, 6)


async def test_a_clock_that_was_set_back_stops_no_sweep(shop: Shop) -> None:
    clock = HandClock()
    await shop.register(*WIDGETS)
    with capture_logs() as logged:
        async with shop.running(Scripted(), clock=clock) as (_, ledger):
            await ledger.until(lambda: ledger.outcomes.total() == len(WIDGETS))
            await shop.db.advance(BACK)
            clock.advance(A_SCAN_LATER)
            await ledger.until(lambda: ledger.outcomes.total() == 2 * len(WIDGETS))
    told = [(line["lane"], line["rows"]) for line in logged if line["event"] == "clock.set_back"]
    assert told == [("periodic", len(WIDGETS))]


async def test_a_claim_from_before_the_clock_was_set_back_ends_and_not_at_once(shop: Shop) -> None:
    await shop.register(1)
    dead, living = shop.io(), shop.io()
    await dead.claim(Lane.PERIODIC, 10, None)
    await shop.db.advance(BACK)
    assert await living.bring_back(Lane.WOKEN, 10, REACH) == 1
    assert await living.bring_back(Lane.WOKEN, 10, REACH) == 0
    assert (await living.claim(Lane.WOKEN, 10, None)).rows == ()
    await shop.db.advance(REACH)
    (taken,) = (await living.claim(Lane.WOKEN, 10, None)).rows
    assert taken.taken_over


async def test_a_claim_that_is_renewed_outlasts_a_clock_that_was_set_back(shop: Shop) -> None:
    await shop.register(1)
    holder, other = shop.io(), shop.io()
    claim = await holder.claim(Lane.PERIODIC, 10, None)
    await shop.db.advance(BACK)
    await other.bring_back(Lane.WOKEN, 10, REACH)
    assert await holder.renew({1: claim.token}) == {1}
    assert timedelta(0) < (await shop.row(1))["ahead"] <= BRISK.lease


async def test_what_any_delay_reaches_is_left_where_it_is(shop: Shop) -> None:
    await shop.register(1)
    await shop.pool.execute("UPDATE farrier.schedule SET due_at = farrier.now() + interval '110 s'")
    assert await shop.io().bring_back(Lane.PERIODIC, 10, REACH) == 0
    assert (await shop.row(1))["ahead"] > timedelta(minutes=1)
