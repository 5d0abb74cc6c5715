"""Claiming while others write: what they touch at that moment costs nobody else his turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import msgspec
import pytest

from farrier.model.runs import Claim, Lane
from tests.support.clock import HandClock
from tests.support.loop import BRISK, PATIENCE, Shop
from tests.support.toy import Scripted

# Due further apart than a claim looks below its floor, which would find them again all the same.
SECOND = 1_000
BACKLOG = [SECOND * number for number in range(1, 11)]
BATCH = 3

# Whoever asks for the time waits while a test holds it. Volatile, so that no planner asks: a statement that waits has
# its snapshot, and has looked at nothing yet.
HELD_TIME = """
    CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(7);
        RETURN statement_timestamp() + (SELECT shift FROM farrier_test.clock);
    END $$
"""

_WAITING = """
    SELECT count(*) FROM pg_locks
     WHERE locktype = 'advisory' AND NOT granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture
async def shop(shop: Shop) -> Shop:
    """A backlog of woken widgets, in a database whose time a test can hold."""
    await shop.register(*BACKLOG)
    await shop.pool.execute("UPDATE farrier.schedule SET lane = 0")
    await shop.pool.execute(HELD_TIME)
    return shop


@asynccontextmanager
async def woken_under_claims(shop: Shop, widgets: list[int], *, claims: int = 1) -> AsyncIterator[None]:
    """The widgets are woken between the snapshots of the claims that begin in this block and their look at them."""
    async with shop.db.connect() as waking:
        await waking.execute("SELECT pg_advisory_lock(7)")
        yield
        with anyio.fail_after(PATIENCE):
            while await waking.fetchval(_WAITING) < claims:
                await anyio.lowlevel.checkpoint()
        for widget in widgets:
            await waking.execute("SELECT farrier.enqueue('widget', $1)", widget)
        await waking.execute("SELECT pg_advisory_unlock(7)")


async def claimed_under_wakes(shop: Shop, woken: list[int]) -> Claim:
    claims: list[Claim] = []

    async def claim() -> None:
        claims.append(await shop.io().claim(Lane.WOKEN, BATCH, None))

    async with anyio.create_task_group() as group, woken_under_claims(shop, woken):
        group.start_soon(claim)
    return claims[0]


@pytest.mark.parametrize("woken", [BACKLOG[:1], BACKLOG[:BATCH]], ids=["one", "all"])
async def test_a_claim_that_lost_rows_to_wakes_leaves_what_is_behind_them_to_the_next(
    shop: Shop, woken: list[int]
) -> None:
    first = await claimed_under_wakes(shop, woken)
    assert [row.id for row in first.rows] == [id_ for id_ in BACKLOG[:BATCH] if id_ not in woken]
    assert first.full
    following = await shop.io().claim(Lane.WOKEN, len(BACKLOG), first.floor)
    assert set(BACKLOG[BATCH:]) <= {row.id for row in following.rows}
    assert not following.full


@pytest.mark.parametrize("woken", [BACKLOG[:1], BACKLOG[:BATCH]], ids=["one", "all"])
async def test_wakes_under_a_claim_put_nobody_else_off_until_the_next_scan_of_everything(
    shop: Shop, woken: list[int]
) -> None:
    handler, config = Scripted(), msgspec.structs.replace(BRISK, batch=BATCH)
    async with AsyncExitStack() as stack:
        async with woken_under_claims(shop, woken, claims=len(Lane)):
            _, ledger = await stack.enter_async_context(shop.running(handler, config=config, clock=HandClock()))
        # The clock of the process stands still: no scan of everything comes but the first.
        await ledger.until(lambda: set(BACKLOG[BATCH:]) <= set(handler.order))
