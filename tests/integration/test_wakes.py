"""Wakes in SQL: clients enqueue in any transaction, and the polls of a controller find every wake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import asyncpg
import pytest

from farrier.io.calls.controllers import PostgresControllers
from tests.support import loop, pg, toy


@pytest.fixture
def prepared() -> pg.Install:
    return toy.install


@pytest.fixture
async def shop(every_db: pg.Database) -> AsyncIterator[loop.Shop]:
    """Five widgets without a wake, on each supported server."""
    async with loop.opened(every_db) as shop:
        await shop.register(1, 2, 3, 4, 5)
        await shop.pool.execute("DELETE FROM farrier.wakes")
        yield shop


async def enqueue(conn: Any, id_: int) -> None:
    await conn.execute("SELECT farrier.enqueue('widget', $1)", id_)


async def polled(shop: loop.Shop, floor: str) -> tuple[str, set[int]]:
    """Poll; returns the next floor, and the widgets whose wakes were found."""
    found = await PostgresControllers(shop.pool).poll(["widget"], floor)
    return found.floor, set(found.wakes.get("widget", {}))


async def test_a_poll_names_only_the_resources_of_very_many_wakes(shop: loop.Shop) -> None:
    controllers = PostgresControllers(shop.pool)
    await shop.pool.execute(
        "INSERT INTO farrier.wakes (kind, resource) SELECT 'widget', 1 + i % 4 FROM generate_series(1, 2000) i"
    )
    few = await controllers.poll(["widget"], "0")
    assert (sum(map(len, few.wakes["widget"].values())), few.many) == (2000, {})
    await enqueue(shop.pool, 5)
    many = await controllers.poll(["widget"], "0")
    assert (many.wakes, many.many) == ({}, {"widget": [1, 2, 3, 4, 5]})
    assert (await controllers.poll(["widget"], many.floor)).many == {}


async def test_a_wake_is_visible_after_the_commit_and_not_before(shop: loop.Shop) -> None:
    async with shop.db.connect() as client:
        async with client.transaction():
            await enqueue(client, 1)
            assert await shop.wakes(1) == 0
        assert await shop.wakes(1) == 1


async def test_a_wake_in_a_savepoint_that_is_rolled_back_did_not_happen(shop: loop.Shop) -> None:
    async with shop.db.connect() as client, client.transaction():
        savepoint = client.transaction()
        await savepoint.start()
        await enqueue(client, 1)
        await savepoint.rollback()
        await enqueue(client, 2)
    assert [await shop.wakes(id_) for id_ in (1, 2)] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("'widget', 404", "FR404"),
        ("'widget', 3", "FR404"),
        ("'gadget', 1", "FR400"),
        ("NULL, 1", "FR400"),
        ("'widget', NULL", "FR400"),
    ],
    ids=["not registered", "ended", "unknown kind", "no kind", "no id"],
)
async def test_a_wake_of_a_missing_or_ended_resource_is_refused_at_once(
    shop: loop.Shop, arguments: str, code: str
) -> None:
    await shop.pool.execute("UPDATE farrier_toy.widgets SET ended_at = farrier.now() WHERE id = 3")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await shop.pool.execute(f"SELECT farrier.enqueue({arguments})")
    assert refused.value.sqlstate == code
    assert await shop.pool.fetchval("SELECT count(*) FROM farrier.wakes") == 0


async def test_a_resource_ended_by_its_kinds_condition_is_neither_listed_nor_enqueued(shop: loop.Shop) -> None:
    await shop.pool.execute("UPDATE farrier.kinds SET living = $1 WHERE kind = 'widget'", "state <> 'sold'")
    await shop.pool.execute("UPDATE farrier_toy.widgets SET state = 'sold' WHERE id = 3")
    listed = await shop.pool.fetch("SELECT id FROM farrier.list_shards('widget', $1)", list(range(64)))
    assert sorted(row["id"] for row in listed) == [1, 2, 4, 5]
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(shop.pool, 3)
    assert refused.value.sqlstate == "FR404"


async def test_a_client_that_idles_after_its_insert_locks_nothing(shop: loop.Shop) -> None:
    async with shop.db.connect() as client, shop.db.connect() as other, client.transaction():
        await toy.ask(client, 1)
        await other.execute("SET lock_timeout = '1s'")
        await other.execute("SELECT FROM farrier_toy.widgets FOR UPDATE NOWAIT")
        await toy.ask(other, 1)
        assert await shop.wakes(1) == 1
    assert await shop.wakes(1) == 2


async def test_clients_that_wake_the_same_resources_in_opposite_order_do_not_wait_for_each_other(
    shop: loop.Shop,
) -> None:
    async with shop.db.connect() as client, shop.db.connect() as other, client.transaction(), other.transaction():
        for mine, yours in ((1, 5), (5, 1)):
            await enqueue(client, mine)
            await enqueue(other, yours)
    assert [await shop.wakes(id_) for id_ in (1, 5)] == [2, 2]


async def test_a_poll_finds_the_wake_of_a_transaction_that_was_open_when_later_ones_were_found(
    shop: loop.Shop,
) -> None:
    floor, _ = await polled(shop, "0")
    async with shop.db.connect() as client:
        async with client.transaction():
            await enqueue(client, 1)
            await shop.ask(2)
            floor, found = await polled(shop, floor)
            assert found == {2}
            floor, found = await polled(shop, floor)
            assert found == {2}, "polls begin at the oldest open transaction"
        floor, found = await polled(shop, floor)
        assert found == {1, 2}
    await shop.ask(3)
    floor, found = await polled(shop, floor)
    assert 3 in found


async def test_a_poll_skips_wakes_found_before_once_all_earlier_transactions_have_ended(shop: loop.Shop) -> None:
    await shop.ask(1)
    floor, found = await polled(shop, "0")
    assert found == {1}
    with anyio.fail_after(loop.PATIENCE):
        while found:  # transactions of other databases of the server hold the floor, too
            floor, found = await polled(shop, floor)
    assert await shop.wakes(1) == 1
    assert (await polled(shop, "0"))[1] == {1}


async def heard_of(shop: loop.Shop, statement: str, messages: int) -> list[Any]:
    heard: list[Any] = []
    async with shop.db.connect() as listener:
        arrived = anyio.Event()

        def hear(*message: Any) -> None:
            heard.append(message[-1])
            if len(heard) == messages:
                arrived.set()

        await listener.add_listener("farrier_wake", hear)
        await shop.pool.execute(statement)
        with anyio.fail_after(loop.PATIENCE):
            await arrived.wait()
    return heard


async def test_a_notification_names_the_kind_and_the_ids_of_one_statement(shop: loop.Shop) -> None:
    wake = "INSERT INTO farrier.wakes (kind, resource) SELECT 'widget', unnest('{2,1,2}'::bigint[])"
    assert await heard_of(shop, wake, 1) == ["widget:1,2"]


async def test_equal_wakes_of_one_transaction_are_one_notification(shop: loop.Shop) -> None:
    wakes = (
        "SELECT farrier.enqueue('widget', 1); SELECT farrier.enqueue('widget', 1); SELECT farrier.enqueue('widget', 2)"
    )
    assert await heard_of(shop, wakes, 2) == ["widget:1", "widget:2"]


async def test_more_ids_than_a_notification_holds_are_announced_without_them(shop: loop.Shop) -> None:
    wake = "INSERT INTO farrier.wakes (kind, resource) SELECT 'widget', generate_series(1, 10000)"
    assert await heard_of(shop, wake, 1) == ["widget:*"]
