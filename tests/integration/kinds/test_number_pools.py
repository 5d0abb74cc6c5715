"""A pool gives the lowest free number, gives no number twice, and refuses bounds that exclude a taken number."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import anyio
import pytest

from farrier.io.connections.pool import Pool
from tests.support import pg

TAKE = "SELECT farrier.take_number('vlan', 'crate', $1, $2)"


@pytest.fixture
async def pool(every_db: pg.Database) -> AsyncIterator[Pool]:
    async with every_db.pool(12) as pool:
        await pool.execute("SELECT farrier.set_pool('vlan', 5, 8)")
        yield pool


async def take(pool: Pool, id_: int, wanted: int | None = None) -> int:
    number: int = await pool.fetchval(TAKE, id_, wanted)
    return number


async def test_the_lowest_free_number_is_taken_and_freed_numbers_are_reused(pool: Pool) -> None:
    assert await take(pool, 1, 6) == 6
    assert [await take(pool, id_) for id_ in (2, 3, 4)] == [5, 7, 8]
    await pool.execute("SELECT farrier.free_numbers('crate', 3), farrier.free_numbers('crate', 3)")
    await pool.execute("SELECT farrier.free_numbers('barrel', 1)")
    assert await take(pool, 9) == 7


async def test_a_number_that_a_pool_cannot_give_is_refused_and_changes_nothing(pool: Pool) -> None:
    for id_ in (1, 2, 3, 4):
        await take(pool, id_)
    for statement, told in (
        ("SELECT farrier.take_number('vlan', 'crate', 9)", "pool vlan is exhausted: all numbers from 5 to 8 are taken"),
        ("SELECT farrier.take_number('vlan', 'crate', 9, 6)", "6 of pool vlan is taken by crate 2"),
        ("SELECT farrier.take_number('vlan', 'crate', 9, 4)", "4 is not in pool vlan, which ranges from 5 to 8"),
        ("SELECT farrier.take_number('vni', 'crate', 9)", "pool 'vni' does not exist"),
        ("SELECT farrier.take_number(NULL, 'crate', 9)", "pool null does not exist"),
        (
            "SELECT farrier.set_pool('vlan', 6, 8)",
            r"pool vlan cannot range from 6 to 8: resources have these numbers outside the range: 5 \(crate 1\)",
        ),
        ("SELECT farrier.set_pool('vlan', 1, 6)", "resources have these numbers outside the range: 7 .*, 8 "),
    ):
        with pytest.raises(pg.PostgresError, match=told) as refused:
            await pool.execute(statement)
        assert refused.value.sqlstate == "FR409"
        assert await pool.fetchval("SELECT count(*) FROM farrier.pool_numbers") == 4
        assert await pool.fetchval("SELECT (first, last) = (5, 8) FROM farrier.number_pools")


async def test_a_pool_that_ends_before_it_begins_is_refused(pool: Pool) -> None:
    with pytest.raises(pg.PostgresError, match="cannot range from 8 to 5") as refused:
        await pool.execute("SELECT farrier.set_pool('vlan', 8, 5)")
    assert refused.value.sqlstate == "FR400"


async def test_a_pool_may_be_widened_at_both_ends_up_to_the_largest_integer(pool: Pool) -> None:
    await take(pool, 1)
    await pool.execute("SELECT farrier.set_pool('vlan', 4, 9)")
    assert await take(pool, 2) == 4
    await pool.execute("SELECT farrier.set_pool('vni', 2147483646, 2147483647)")
    of_vni = "SELECT farrier.take_number('vni', 'crate', 1)"
    assert [await pool.fetchval(of_vni) for _ in range(2)] == [2147483646, 2147483647]
    with pytest.raises(pg.PostgresError, match="is exhausted"):
        await pool.fetchval(of_vni)


async def test_concurrent_takers_get_different_numbers(pool: Pool) -> None:
    await pool.execute("SELECT farrier.set_pool('vlan', 1, 60)")
    taken: list[int] = []

    async def taker(first: int) -> None:
        taken.extend([await take(pool, id_) for id_ in range(first, first + 5)])

    async with anyio.create_task_group() as group:
        for first in range(0, 60, 5):
            group.start_soon(taker, first)
    assert sorted(taken) == list(range(1, 61))


async def test_a_number_taken_in_a_transaction_that_fails_is_free_again(pool: Pool) -> None:
    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        assert await conn.fetchval(TAKE, 1, None) == 5
        await transaction.rollback()
    assert await take(pool, 2) == 5


async def test_numbers_taken_by_choice_are_skipped_and_reused_when_freed(pool: Pool) -> None:
    assert [await take(pool, 1, 5), await take(pool, 2, 6), await take(pool, 3)] == [5, 6, 7]
    await pool.execute("SELECT farrier.free_numbers('crate', 1), farrier.free_numbers('crate', 2)")
    assert await take(pool, 4, 6) == 6
    assert [await take(pool, id_) for id_ in (5, 6)] == [5, 8]


async def test_a_pool_that_shrinks_and_grows_again_loses_no_number(pool: Pool) -> None:
    await pool.execute("SELECT farrier.set_pool('vlan', 1, 9)")
    for id_ in range(1, 8):
        await take(pool, id_)
    for id_ in (1, 2, 7):
        await pool.execute("SELECT farrier.free_numbers('crate', $1::bigint)", id_)
    await pool.execute("SELECT farrier.set_pool('vlan', 3, 6)")
    with pytest.raises(pg.PostgresError, match="pool vlan is exhausted: all numbers from 3 to 6"):
        await take(pool, 9)
    await pool.execute("SELECT farrier.set_pool('vlan', 2, 9)")
    await pool.execute("SELECT farrier.set_pool('vlan', 0, 9)")
    assert [await take(pool, id_) for id_ in range(11, 17)] == [0, 1, 2, 7, 8, 9]
    with pytest.raises(pg.PostgresError, match="is exhausted"):
        await take(pool, 17)


@pytest.mark.parametrize("seed", range(5))
async def test_a_pool_agrees_with_a_simple_model(pool: Pool, seed: int) -> None:
    chance, first, last, held = random.Random(seed), 5, 8, dict[int, int]()
    for id_ in range(60):
        free = [n for n in range(first, last + 1) if n not in held]
        match chance.choice(("take", "take", "want", "free", "bounds")):
            case "take" if free:
                held[await take(pool, id_)] = id_
                assert free[0] in held
            case "want" if free:
                wanted = chance.choice(free)
                held[await take(pool, id_, wanted)] = id_
                assert wanted in held
            case "free" if held:
                number, holder = chance.choice(list(held.items()))
                del held[number]
                await pool.execute("SELECT farrier.free_numbers('crate', $1::bigint)", holder)
            case "bounds":
                first = min([*held, chance.randint(0, 12)])
                last = max([*held, first, chance.randint(0, 20)])
                await pool.execute("SELECT farrier.set_pool('vlan', $1, $2)", first, last)
            case _:
                pass
    rows = await pool.fetch("SELECT number, id FROM farrier.pool_numbers")
    assert {row["number"]: row["id"] for row in rows} == held


async def test_the_lowest_free_number_is_found_without_reading_the_taken_ones(every_db: pg.Database) -> None:
    """Measured by the rows and blocks read, and not by time: 20,000 numbers are taken, and two were given back."""
    async with every_db.connect() as conn, every_db.connect() as client:
        await conn.execute("SELECT farrier.set_pool('vni', 1, 16777215)")
        await conn.execute(
            "INSERT INTO farrier.pool_numbers SELECT 'vni', n, 'crate', n FROM generate_series(1, 20000) n"
        )
        assert await conn.fetchval("SELECT farrier.take_number('vni', 'crate', 20001)") == 20001
        await conn.execute("SELECT farrier.free_numbers('crate', 7), farrier.free_numbers('crate', 9000)")
        await conn.execute("VACUUM ANALYZE farrier.pool_numbers, farrier.freed_numbers")
        async with client.transaction():
            taken = [await client.fetchval("SELECT farrier.take_number('vni', 'crate', 20002)") for _ in range(30)]
            assert taken == [7, 9000, *range(20002, 20030)]
            read = await client.fetchrow(READ)
    assert read is not None
    assert read["tuples"] < 30 * 10
    assert read["blocks"] < 30 * 30


READ = """
    SELECT sum(seq_tup_read + idx_tup_fetch)::bigint AS tuples,
           sum(pg_stat_get_xact_blocks_fetched(relid)
               + (SELECT sum(pg_stat_get_xact_blocks_fetched(i.indexrelid)) FROM pg_index i WHERE i.indrelid = relid)
           )::bigint AS blocks
      FROM pg_stat_xact_user_tables WHERE relname IN ('pool_numbers', 'freed_numbers')
"""


async def test_freeing_numbers_does_not_wait_for_a_client_that_takes_one(every_db: pg.Database) -> None:
    """The loop gives numbers back, and must not wait for a client's transaction, which may stay open for long."""
    async with every_db.connect() as conn, every_db.connect() as client:
        await conn.execute("SELECT farrier.set_pool('vlan', 1, 9)")
        await conn.execute("SELECT farrier.take_number('vlan', 'crate', 1)")
        transaction = client.transaction()
        await transaction.start()
        assert await client.fetchval("SELECT farrier.take_number('vlan', 'crate', 2)") == 2
        await conn.execute("SET lock_timeout = '1s'")
        await conn.execute("SELECT farrier.free_numbers('crate', 1)")
        assert await client.fetchval("SELECT farrier.take_number('vlan', 'crate', 3)") == 1
        await transaction.commit()
        assert await conn.fetchval("SELECT count(*) FROM farrier.freed_numbers") == 0
