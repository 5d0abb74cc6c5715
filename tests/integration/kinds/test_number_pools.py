"""Pools of numbers: lowest first, never one twice, and bounds that cut off nothing that is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from farrier.io.pool import Pool
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


async def test_the_lowest_free_number_is_taken_and_freed_ones_come_again(pool: Pool) -> None:
    assert await take(pool, 1, 6) == 6
    assert [await take(pool, id_) for id_ in (2, 3, 4)] == [5, 7, 8]
    await pool.execute("SELECT farrier.free_numbers('crate', 3), farrier.free_numbers('crate', 3)")
    await pool.execute("SELECT farrier.free_numbers('barrel', 1)")
    assert await take(pool, 9) == 7


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT farrier.take_number('vlan', 'crate', 9)", "pool vlan is empty: all of 5 to 8 are taken"),
        ("SELECT farrier.take_number('vlan', 'crate', 9, 6)", "6 of pool vlan is taken by crate 2"),
        ("SELECT farrier.take_number('vlan', 'crate', 9, 4)", "4 is not in pool vlan, which goes from 5 to 8"),
        ("SELECT farrier.take_number('vni', 'crate', 9)", "there is no pool 'vni'"),
        ("SELECT farrier.take_number(NULL, 'crate', 9)", "there is no pool null"),
        ("SELECT farrier.set_pool('vlan', 6, 8)", r"pool vlan cannot go from 6 to 8: taken outside are 5 \(crate 1\)"),
        ("SELECT farrier.set_pool('vlan', 1, 6)", "taken outside are 7 .*, 8 "),
    ],
)
async def test_what_a_pool_does_not_have_is_refused_and_changes_nothing(pool: Pool, statement: str, told: str) -> None:
    for id_ in (1, 2, 3, 4):
        await take(pool, id_)
    with pytest.raises(pg.PostgresError, match=told) as refused:
        await pool.execute(statement)
    assert refused.value.sqlstate == "FR409"
    assert await pool.fetchval("SELECT count(*) FROM farrier.pool_numbers") == 4
    assert await pool.fetchval("SELECT (first, last) = (5, 8) FROM farrier.number_pools")


async def test_a_pool_that_ends_before_it_begins_is_refused(pool: Pool) -> None:
    with pytest.raises(pg.PostgresError, match="would go from 8 to 5") as refused:
        await pool.execute("SELECT farrier.set_pool('vlan', 8, 5)")
    assert refused.value.sqlstate == "FR400"


async def test_a_pool_may_be_widened_to_both_sides_and_be_as_wide_as_integers_are(pool: Pool) -> None:
    await take(pool, 1)
    await pool.execute("SELECT farrier.set_pool('vlan', 4, 9)")
    assert await take(pool, 2) == 4
    await pool.execute("SELECT farrier.set_pool('vni', 2147483646, 2147483647)")
    of_vni = "SELECT farrier.take_number('vni', 'crate', 1)"
    assert [await pool.fetchval(of_vni) for _ in range(2)] == [2147483646, 2147483647]
    with pytest.raises(pg.PostgresError, match="is empty"):
        await pool.fetchval(of_vni)


async def test_any_number_at_once_get_different_numbers(pool: Pool) -> None:
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
