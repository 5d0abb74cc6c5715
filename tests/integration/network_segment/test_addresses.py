"""Addresses: each owner gets the lowest free one, the same again on repetition, and never a reserved one."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import anyio
import pytest

from tests.support import loop, pg, segments
from tests.support.segments import Lan


async def test_the_lowest_free_address_is_given_out_and_the_same_owner_gets_its_own_again(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/29", gateways=["10.0.0.1"])
    assert [await lan.take(owner) for owner in "abca"] == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.2"]
    assert await lan.give("b", "10.0.0.3") is True
    assert await lan.take("d") == "10.0.0.3"
    assert await lan.take("b") == "10.0.0.5"


@pytest.mark.parametrize(
    ("prefix", "more", "given"),
    [
        ("10.0.0.0/30", {}, ["10.0.0.1", "10.0.0.2"]),
        ("10.0.0.0/31", {}, ["10.0.0.0", "10.0.0.1"]),
        ("10.0.0.7/32", {}, ["10.0.0.7"]),
        ("0.0.0.0/31", {}, ["0.0.0.0", "0.0.0.1"]),
        ("255.255.255.254/31", {}, ["255.255.255.254", "255.255.255.255"]),
        ("10.0.0.0/29", {"gateways": ["10.0.0.3"]}, ["10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"]),
        ("10.0.0.0/29", {"gateways": ["10.0.0.6"], "reserved_first": 2}, ["10.0.0.3", "10.0.0.4", "10.0.0.5"]),
        ("10.0.0.0/29", {"gateways": ["10.0.0.1"], "reserved_first": 1, "reserved_last": 3}, ["10.0.0.2", "10.0.0.3"]),
        ("2001:db8::/126", {}, ["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
        ("2001:db8::/127", {}, ["2001:db8::", "2001:db8::1"]),
        ("2001:db8::7/128", {}, ["2001:db8::7"]),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", {}, [f"{'ffff:' * 7}fffe", f"{'ffff:' * 7}ffff"]),
    ],
)
async def test_all_addresses_of_hosts_can_be_allocated_until_the_segment_is_full_and_released(
    lan: Lan, prefix: str, more: dict[str, object], given: list[str]
) -> None:
    made = await lan.ready("lan", prefix, **more)
    before = await lan.free(made)
    owners = segments.names(len(given))
    assert [await lan.take(owner) for owner in owners] == given
    with pytest.raises(
        pg.PostgresError, match=f"^segment lan is full: all its {len(given)} addresses are allocated"
    ) as full:
        await lan.take("late")
    assert full.value.sqlstate == "FR409"
    assert await lan.free(made) == []
    for owner, address in zip(owners, given, strict=True):
        assert await lan.give(owner, address) is True
    assert await lan.free(made) == before


@pytest.mark.parametrize("prefix", ["::/0", "2001:db8::/32", "2001:db8::/64", "0.0.0.0/0"])
async def test_a_prefix_of_any_size_is_one_row(lan: Lan, prefix: str) -> None:
    made = await lan.ready("lan", prefix)
    assert len(await lan.free(made)) == 1
    first = await lan.take("a")
    assert first == {"::/0": "::1", "0.0.0.0/0": "0.0.0.1"}.get(prefix, "2001:db8::1")
    detail = await lan.conn.fetchval("SELECT detail FROM farrier.list_resources('network_segment')")
    assert '"addresses_used": 1' in detail
    assert await lan.give("a", first) is True


async def test_a_listing_counts_used_and_free_addresses_without_the_gateway(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/29", "2001:db8::/126", gateways=["10.0.0.1"])
    await lan.take("a")
    row = await lan.row(
        "SELECT (detail ->> 'addresses_used')::int AS used, (detail ->> 'addresses_free')::int AS free"
        " FROM farrier.list_resources('network_segment')"
    )
    assert (row["used"], row["free"]) == (1, 5 + 3 - 1)


async def test_an_owner_may_have_one_address_of_each_family(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/24", "10.0.1.0/24", "2001:db8::/64")
    assert await lan.take("a") == "10.0.0.1"
    assert await lan.take("a", "2001:db8::/64") == "2001:db8::1"
    assert await lan.take("a", "10.0.0.0/24") == "10.0.0.1"
    with pytest.raises(pg.PostgresError, match=r"a already has address 10.0.0.1 of segment lan, and cannot"):
        await lan.take("a", "10.0.1.0/24")
    assert await lan.take("b", "10.0.1.0/24") == "10.0.1.1"
    assert await lan.take("b", "2001:db8::77") == "2001:db8::77"


async def test_an_unavailable_address_is_refused_with_the_reason(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/28", gateways=["10.0.0.1"], reserved_first=2, reserved_last=1)
    await lan.take("somebody", "10.0.0.7")
    for wanted, sqlstate, told in (
        ("10.0.0.1", "FR409", "10.0.0.1 of segment lan is the gateway of 10.0.0.0/28"),
        ("10.0.0.0", "FR409", "10.0.0.0 of segment lan is the network or broadcast address of 10.0.0.0/28"),
        ("10.0.0.15", "FR409", "10.0.0.15 of segment lan is the network or broadcast address of 10.0.0.0/28"),
        ("10.0.0.2", "FR409", "10.0.0.2 of segment lan is reserved; 10.0.0.0/28 allocates 10.0.0.3 to 10.0.0.13"),
        ("10.0.0.14", "FR409", "10.0.0.14 of segment lan is reserved"),
        ("10.0.0.7", "FR409", "10.0.0.7 of segment lan is taken by somebody"),
        (
            "10.0.1.7",
            "FR400",
            "10.0.1.7 is neither a prefix of segment lan nor an address in one; its prefixes are 10.0.0.0/28",
        ),
        ("10.0.0.0/24", "FR400", "10.0.0.0/24 is neither a prefix"),
        ("10.0.0.7/28", "FR400", "10.0.0.7/28 is neither a prefix"),
        ("2001:db8::1", "FR400", "2001:db8::1 is neither a prefix"),
    ):
        with pytest.raises(pg.PostgresError) as refused:
            await lan.take("me", wanted)
        assert told in str(refused.value)
        assert refused.value.sqlstate == sqlstate


async def test_a_full_prefix_is_named_and_another_prefix_still_gives_addresses(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/31", "10.0.1.0/31")
    for owner in "ab":
        await lan.take(owner, "10.0.0.0/31")
    with pytest.raises(
        pg.PostgresError, match=r"^prefix 10.0.0.0/31 of segment lan is full: all its 2 addresses are allocated"
    ):
        await lan.take("c", "10.0.0.0/31")
    assert await lan.take("c") == "10.0.1.0"


async def test_a_node_that_is_deleted_gets_no_address(lan: Lan) -> None:
    await lan.ready()
    node = await lan.conn.fetchval("SELECT farrier.register_node('gpu-1')")
    await lan.conn.execute("SET session_replication_role = replica")
    await lan.conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE id = $1", node)
    await lan.conn.execute("SET session_replication_role = origin")
    with pytest.raises(pg.PostgresError, match=f"no node has ID {node}") as refused:
        await lan.take("gpu-1", node=node)
    assert refused.value.sqlstate == "FR404"


async def test_invalid_allocations_are_refused(lan: Lan) -> None:
    await lan.ready()
    for owner in ("", "  ", "x" * 254):
        with pytest.raises(pg.PostgresError, match="owner must be a text"):
            await lan.take(owner)
    with pytest.raises(pg.PostgresError, match="no network segment is named 'nowhere'"):
        await lan.take("a", segment="nowhere")
    with pytest.raises(pg.PostgresError, match="no network segment is named 'nowhere'"):
        await lan.give("a", "10.0.0.1", segment="nowhere")
    with pytest.raises(pg.PostgresError, match="no node has ID 77"):
        await lan.take("a", node=77)
    assert await lan.conn.fetchval("SELECT count(*) FROM farrier.segment_addresses") == 0


async def test_no_address_is_allocated_before_a_segment_is_ready_or_after_it_ended(lan: Lan) -> None:
    made = await lan.create()
    with pytest.raises(
        pg.PostgresError, match="segment lan is provisioning; addresses can only be allocated in state ready"
    ):
        await lan.take("a")
    await lan.ask("lan", "delete")
    await lan.settle()
    with pytest.raises(pg.PostgresError, match="no network segment is named 'lan'"):
        await lan.take("a")
    with pytest.raises(pg.PostgresError, match=f"network segment {made} has ended"):
        await lan.take("a", segment=str(made))


async def test_a_release_may_be_repeated_and_only_by_the_owner(lan: Lan) -> None:
    made = await lan.ready()
    address = await lan.take("a")
    with pytest.raises(pg.PostgresError, match=r"10.0.0.1 of segment lan is taken by a, not by b") as refused:
        await lan.give("b", address)
    assert refused.value.sqlstate == "FR409"
    assert [await lan.give("a", address) for _ in range(3)] == [True, False, False]
    usage = await lan.row("SELECT * FROM farrier.segment_usage WHERE segment = $1", made)
    assert (usage["allocated"], usage["last_released_at"] is not None) == (0, True)


async def test_addresses_are_listed_with_owner_time_and_node(lan: Lan) -> None:
    await lan.ready()
    node = await lan.conn.fetchval("SELECT farrier.register_node('gpu-1')")
    await lan.take("b")
    await lan.take("a")
    assert await lan.take("a", node=node) == "10.0.0.2"
    rows = await lan.conn.fetch("SELECT * FROM farrier.list_addresses('lan')")
    assert [(str(row["address"]), row["owner"], row["node"]) for row in rows] == [
        ("10.0.0.1", "b", None),
        ("10.0.0.2", "a", node),
    ]
    assert rows[0]["allocated_at"] <= await lan.now()


async def test_sixteen_clients_at_once_get_different_addresses_the_lowest_there_are(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/23")
    got: list[str] = []
    async with lan.db.pool(16) as pool, anyio.create_task_group() as group:

        async def client(number: int) -> None:
            got.extend([await segments.take(pool, f"client-{number}-{turn}") for turn in range(20)])

        for number in range(16):
            group.start_soon(client, number)
    lowest = [f"10.0.{n // 256}.{n % 256}" for n in range(1, 321)]
    assert sorted(got, key=octets) == lowest


async def test_concurrent_allocations_and_releases_leave_all_addresses_free(lan: Lan) -> None:
    made = await lan.ready("lan", "10.0.0.0/27")
    before = await lan.free(made)
    async with lan.db.pool(16) as pool, anyio.create_task_group() as group:

        async def client(number: int) -> None:
            for _ in range(15):
                address = await segments.take(pool, f"client-{number}")
                assert await segments.give(pool, f"client-{number}", address)

        for number in range(16):
            group.start_soon(client, number)
    assert await lan.free(made) == before
    assert await lan.conn.fetchval("SELECT allocated FROM farrier.segment_usage") == 0


def octets(address: str) -> list[int]:
    return [int(part) for part in address.split(".")]


async def test_an_owner_with_sixteen_concurrent_requests_gets_one_address(lan: Lan) -> None:
    await lan.ready()
    async with lan.db.pool(16) as pool:
        got = await asyncio.gather(*(segments.take(pool, "me") for _ in range(16)))
    assert set(got) == {"10.0.0.1"}


async def test_an_open_allocation_delays_a_deletion_and_once_committed_refuses_it(lan: Lan) -> None:
    """The loop does not wait for the client: it runs the segment again after a second, and then finds the address."""
    made = await lan.ready()
    async with lan.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await segments.take(client, "late")
        request = await lan.ask("lan", "delete")
        async with lan.running():
            await lan.ledger.until(lambda: "deferred" in lan.ledger.verdicts)
        assert await lan.state(made) == "ready"
        await transaction.commit()
    await lan.advance(timedelta(seconds=1))
    await lan.settle()
    status, reason = await lan.answer(request)
    assert (status, "has 1 allocated address, of late" in reason) == ("rejected", True)


async def test_a_commit_that_adds_prefixes_does_not_wait_for_an_open_allocation(lan: Lan) -> None:
    made = await lan.ready()
    async with lan.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await segments.take(client, "slow")
        request = await lan.ask("lan", "update", add_prefixes=["10.5.0.0/24"])
        await lan.settle()
        assert await lan.answer(request) == ("accepted", "")
        await transaction.commit()
    assert await lan.free(made) == [("10.0.0.2", "10.0.0.254"), ("10.5.0.1", "10.5.0.254")]


async def test_an_allocation_that_waited_for_a_deletion_is_refused_at_every_isolation_level(lan: Lan) -> None:
    made = await lan.ready()
    for isolation in ("read_committed", "repeatable_read"):
        async with lan.db.connect() as loop_, lan.db.connect() as client:
            closing = loop_.transaction()
            await closing.start()
            await loop_.execute(
                "UPDATE farrier.network_segments SET state = 'deleting/drain_allocated_ips' WHERE id = $1", made
            )
            asking = client.transaction(isolation=isolation)
            await asking.start()
            await client.fetchval("SELECT count(*) FROM farrier.network_segments")
            async with anyio.create_task_group() as group:

                async def late() -> None:
                    with pytest.raises(
                        pg.PostgresError, match=r"addresses can only be allocated in state ready|could not serialize"
                    ):
                        await segments.take(client, "late")

                group.start_soon(late)
                with anyio.fail_after(loop.PATIENCE):
                    while not await lan.conn.fetchval(
                        "SELECT count(*) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    ):
                        await anyio.lowlevel.checkpoint()
                await closing.commit()
            await asking.rollback()
            await lan.conn.execute("ALTER TABLE farrier.network_segments DISABLE TRIGGER enter_state")
            await lan.conn.execute("UPDATE farrier.network_segments SET state = 'ready' WHERE id = $1", made)
            await lan.conn.execute("ALTER TABLE farrier.network_segments ENABLE TRIGGER enter_state")
    assert await lan.conn.fetchval("SELECT count(*) FROM farrier.segment_addresses") == 0


async def test_the_lowest_free_address_is_found_without_reading_the_taken_ones(lan: Lan) -> None:
    """Measured by the rows read, and not by time: a /16 with every second address taken."""
    made = await lan.ready("lan", "10.0.0.0/16")
    await lan.conn.execute(HALF_FULL, made)
    await lan.conn.execute("VACUUM ANALYZE farrier.segment_free, farrier.segment_addresses")
    before = await lan.row(READ)
    async with lan.db.connect() as client:
        for owner in itertools.islice(segments.names(50), 50):
            await segments.take(client, owner)
    # A session reports its counters when it is idle or ends.
    with anyio.fail_after(loop.PATIENCE):
        while (after := await lan.row(READ))["scans"] - before["scans"] < 50:
            await lan.conn.execute("SELECT pg_stat_clear_snapshot()")
    assert after["seq"] == before["seq"]
    assert after["tuples"] - before["tuples"] < 50 * 20


HALF_FULL = """
    WITH gaps AS (
        DELETE FROM farrier.segment_free WHERE segment = $1
    ), taken AS (
        INSERT INTO farrier.segment_addresses (segment, address, prefix, owner)
        SELECT $1, '10.0.0.0'::inet + n, '10.0.0.0/16', 'o' || n FROM generate_series(1000, 65000, 2) n
    )
    INSERT INTO farrier.segment_free
    SELECT $1, '10.0.0.0/16', '10.0.0.0'::inet + n, '10.0.0.0'::inet + n FROM generate_series(1001, 65001, 2) n
"""
READ = """
    SELECT sum(seq_scan)::bigint AS seq, sum(idx_tup_fetch)::bigint AS tuples, sum(idx_scan)::bigint AS scans
      FROM pg_stat_user_tables WHERE relname IN ('segment_free', 'segment_addresses')
"""
