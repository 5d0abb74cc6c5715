"""Waking in SQL: what any client may do in any transaction, and what the schedule makes of it at COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import asyncpg
import pytest

from farrier.io.pool import Connection
from farrier.model.runs import Lane
from tests.support import loop, pg, toy

SECOND = timedelta(seconds=1)


@pytest.fixture
async def shop(every_db: pg.Database) -> AsyncIterator[loop.Shop]:
    """Five widgets, each due in half a minute, on each supported server."""
    async with loop.opened(every_db) as shop:
        await shop.register(1, 2, 3, 4, 5)
        await shop.pool.execute("UPDATE farrier.schedule SET due_at = farrier.now() + interval '30 s'")
        yield shop


async def claim_one(shop: loop.Shop) -> None:
    """Somebody holds widget 1."""
    await shop.pool.execute("UPDATE farrier.schedule SET due_at = farrier.now() WHERE id = 1")
    assert [row.id for row in (await shop.io().claim(Lane.PERIODIC, 1, None)).rows] == [1]


async def enqueue(conn: Any, id_: int) -> None:
    await conn.execute("SELECT farrier.enqueue('widget', $1)", id_)


async def leftovers(conn: Connection) -> int:
    count: int = await conn.fetchval("SELECT count(*) FROM farrier.wake_requests")
    return count


async def test_a_wake_takes_effect_at_commit_and_leaves_nothing_behind(shop: loop.Shop) -> None:
    async with shop.db.connect() as client:
        async with client.transaction():
            await enqueue(client, 1)
            assert (await shop.row(1))["wake_seq"] == 0
        row = await shop.row(1)
        assert (row["wake_seq"], row["lane"]) == (1, Lane.WOKEN)
        assert row["ahead"] <= timedelta(0)
        assert await leftovers(client) == 0


async def test_many_wakes_of_one_transaction_count_once(shop: loop.Shop) -> None:
    async with shop.db.connect() as client, client.transaction():
        for _ in range(3):
            await enqueue(client, 1)
    assert (await shop.row(1))["wake_seq"] == 1


async def test_one_statement_may_wake_thousands_at_the_cost_of_one_call(shop: loop.Shop) -> None:
    """Applied by a call for each, every call would walk over the requests that the first one deleted."""
    await shop.register(*range(6, 2001))
    async with shop.db.connect() as client:
        await client.execute("SET track_functions = 'all'")
        await client.execute("INSERT INTO farrier_toy.requests (widget) SELECT generate_series(1, 2000)")
        await client.execute("SELECT pg_stat_force_next_flush()")
        calls = await client.fetchval(
            "SELECT calls FROM pg_stat_user_functions WHERE schemaname = 'farrier' AND funcname = 'apply_wakes'"
        )
        assert calls == 1
        assert await client.fetchval("SELECT count(*) FROM farrier.schedule WHERE wake_seq = 1 AND lane = 0") == 2000


async def test_a_wake_of_a_claimed_row_counts_and_leaves_the_claim_alone(shop: loop.Shop) -> None:
    await claim_one(shop)
    before = await shop.row(1)
    await shop.ask(1)
    after = await shop.row(1)
    assert after["wake_seq"] == before["claimed_wake_seq"] + 1
    assert [after[column] for column in ("lane", "due_at", "claim_token", "owner")] == [
        before[column] for column in ("lane", "due_at", "claim_token", "owner")
    ]


async def test_a_row_that_waits_in_the_woken_lane_keeps_its_place(shop: loop.Shop) -> None:
    await shop.ask(1)
    first = await shop.row(1)
    await shop.db.advance(SECOND)
    await shop.ask(1)
    second = await shop.row(1)
    assert (second["due_at"], second["wake_seq"]) == (first["due_at"], 2)


async def test_a_wake_brings_a_row_put_off_in_the_woken_lane_back_to_now(shop: loop.Shop) -> None:
    await shop.pool.execute("UPDATE farrier.schedule SET lane = 0 WHERE id = 1")
    await shop.ask(1)
    assert (await shop.row(1))["ahead"] <= timedelta(0)


async def test_a_wake_of_what_is_not_scheduled_fails_the_client_s_commit(shop: loop.Shop) -> None:
    async with shop.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await enqueue(client, 2)
        await enqueue(client, 404)
        with pytest.raises(asyncpg.PostgresError, match="no widget with id 404 is scheduled") as refused:
            await transaction.commit()
    assert refused.value.sqlstate == "FR404"
    assert (await shop.row(2))["wake_seq"] == 0


async def test_a_wake_in_a_savepoint_that_is_rolled_back_did_not_happen(shop: loop.Shop) -> None:
    """Also when it was the first one of its transaction, whose trigger call stands for all."""
    async with shop.db.connect() as client, client.transaction():
        savepoint = client.transaction()
        await savepoint.start()
        await enqueue(client, 1)
        await savepoint.rollback()
        await enqueue(client, 2)
    assert (await shop.row(1))["wake_seq"] == 0
    assert (await shop.row(2))["wake_seq"] == 1


async def test_constraints_set_immediate_apply_each_wake_as_it_comes(shop: loop.Shop) -> None:
    async with shop.db.connect() as client, client.transaction():
        await enqueue(client, 1)
        await client.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert await client.fetchval("SELECT wake_seq FROM farrier.schedule WHERE id = 1") == 1
        await enqueue(client, 2)
        assert await client.fetchval("SELECT wake_seq FROM farrier.schedule WHERE id = 2") == 1


async def test_a_client_that_idles_after_its_insert_locks_nothing(shop: loop.Shop) -> None:
    async with shop.db.connect() as client, shop.db.connect() as other, client.transaction():
        await toy.ask(client, 1)
        await other.execute("SET lock_timeout = '1s'")
        await other.execute("SELECT FROM farrier.schedule FOR UPDATE NOWAIT")
        await toy.ask(other, 1)
        assert (await shop.row(1))["wake_seq"] == 1
    assert (await shop.row(1))["wake_seq"] == 2


async def test_clients_that_wake_the_same_rows_in_opposite_order_stop_nothing(shop: loop.Shop) -> None:
    """Each has both wakes behind it before either commits: with locks taken as they come, this is a deadlock."""
    async with shop.db.connect() as client, shop.db.connect() as other:
        ours, theirs = client.transaction(), other.transaction()
        await ours.start()
        await theirs.start()
        for mine, yours in ((1, 5), (5, 1)):
            await enqueue(client, mine)
            await enqueue(other, yours)
        with anyio.fail_after(loop.PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(ours.commit)
                group.start_soon(theirs.commit)
    assert [(await shop.row(id_))["wake_seq"] for id_ in (1, 5)] == [2, 2]


async def test_a_wake_that_waits_for_a_commit_that_unschedules_is_refused(shop: loop.Shop) -> None:
    """The row it wants to lock is deleted under it: it must look again, and not take the lock it got for the row."""
    async with shop.db.connect() as deleting, shop.db.connect() as client:
        deletion = deleting.transaction()
        await deletion.start()
        await deleting.execute("DELETE FROM farrier.schedule WHERE id = 1")
        refusals: list[str | None] = []

        async def wake() -> None:
            with pytest.raises(asyncpg.PostgresError) as refused:
                await enqueue(client, 1)
            refusals.append(refused.value.sqlstate)

        async with anyio.create_task_group() as group:
            group.start_soon(wake)
            await shop.until_blocked()
            await deletion.commit()
    assert refusals == ["FR404"]


async def test_a_wake_notifies_at_commit_once_and_says_no_more_than_its_kind(shop: loop.Shop) -> None:
    heard: list[Any] = []
    async with shop.db.connect() as listener:
        arrived = anyio.Event()

        def hear(*message: Any) -> None:
            heard.append(message[-1])
            arrived.set()

        await listener.add_listener("farrier_wake", hear)
        await shop.pool.execute("SELECT farrier.enqueue('widget', 1), farrier.enqueue('widget', 2)")
        with anyio.fail_after(loop.PATIENCE):
            await arrived.wait()
    assert heard == ["widget"]
