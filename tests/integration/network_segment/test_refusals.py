"""Forbidden creations and changes of segments: an INSERT is refused, an intent rejected with a reason."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from farrier.io.connections.pool import Connection
from tests.support import pg, segments
from tests.support.segments import Lan

# Each commit changes these columns.
UNTOLD = {"version": 0, "commit_id": None}
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"prefixes": ["10.1.0.0/24"]}, "FR400", "parameter site is missing"),
    ({"site": "ams"}, "FR400", "parameter prefixes is missing"),
    ({"site": "ams", "prefixes": []}, "FR400", "needs 1 to 16 prefixes"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"] * 17}, "FR400", "prefixes has more than 16 elements"),
    ({"site": "a b", "prefixes": ["10.1.0.0/24"]}, "FR400", "parameter site is blank or has blanks"),
    ({"site": "ams", "prefixes": ["10.1.0.5/24"]}, "FR400", "has host bits; the network is 10.1.0.0/24"),
    ({"site": "ams", "prefixes": ["2001:db8::1/64"]}, "FR400", "has host bits; the network is 2001:db8::/64"),
    ({"site": "ams", "prefixes": ["10.1.0.0"]}, "FR400", "10.1.0.0 is not a network address"),
    ({"site": "ams", "prefixes": ["10/8"]}, "FR400", "10/8 is not a network address"),
    ({"site": "ams", "prefixes": ["10.1.0.300/24"]}, "FR400", "10.1.0.300/24 is not a network address"),
    ({"site": "ams", "prefixes": ["10.1.0.0/33"]}, "FR400", "10.1.0.0/33 is not a network address"),
    ({"site": "ams", "prefixes": ["::/129"]}, "FR400", "::/129 is not a network address"),
    ({"site": "ams", "prefixes": ["x"]}, "FR400", "prefix x is not a network address such as 10.0.0.0/24"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24", "10.1.0.0/24"]}, "FR409", "10.1.0.0/24 overlaps 10.1.0.0/24"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24", "10.1.0.128/25"]}, "FR409", "overlaps 10.1.0.0/24"),
    ({"site": "ams", "prefixes": ["10.0.0.0/8"]}, "FR409", "10.0.0.0/8 overlaps 10.0.0.0/24 of segment lan"),
    ({"site": "ams", "prefixes": ["10.0.0.77/32"]}, "FR409", "10.0.0.77/32 overlaps 10.0.0.0/24 of segment lan"),
    ({"site": "ams", "prefixes": ["2001:db8::/32"]}, "FR409", "overlaps 2001:db8::/64 of segment lan"),
    (
        {"site": "ams", "prefixes": ["10.1.0.0/24"], "gateways": ["10.2.0.1"]},
        "FR400",
        "gateway 10.2.0.1 is not in a prefix of the segment",
    ),
    (
        {"site": "ams", "prefixes": ["10.1.0.0/24"], "gateways": ["10.1.0.0"]},
        "FR400",
        "gateway 10.1.0.0 is the network or broadcast address",
    ),
    (
        {"site": "ams", "prefixes": ["10.1.0.0/24"], "gateways": ["10.1.0.255"]},
        "FR400",
        "gateway 10.1.0.255 is the network or broadcast address",
    ),
    (
        {"site": "ams", "prefixes": ["10.1.0.0/24"], "gateways": ["10.1.0.1", "10.1.0.2"]},
        "FR400",
        "10.1.0.0/24 has more than one gateway: 10.1.0.1, 10.1.0.2",
    ),
    (
        {"site": "ams", "prefixes": ["10.1.0.0/24"], "gateways": ["10.1.0.1/24"]},
        "FR400",
        "10.1.0.1/24 is not an IP",
    ),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "gateways": ["me"]}, "FR400", "gateway me is not an IP address"),
    ({"site": "ams", "prefixes": ["10.1.0.0/30"], "reserved_first": 2}, "FR400", "has no allocatable address"),
    ({"site": "ams", "prefixes": ["10.1.0.1/32"], "gateways": ["10.1.0.1"]}, "FR400", "has no allocatable address"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "reserved_last": 65537}, "FR400", "must be 65536 or less"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "vlan": 4095}, "FR400", "parameter vlan must be 4094 or less"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "vlan": 0}, "FR400", "parameter vlan must be 1 or more"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "vni": 1 << 24}, "FR400", "vni must be 16777215 or less"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "mtu": 575}, "FR400", "parameter mtu must be 576 or more"),
    (
        {"site": "ams", "prefixes": ["2001:db9::/64"], "mtu": 1279},
        "FR400",
        "too small for IPv6, which requires 1280",
    ),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "vlan": 7}, "FR409", "VLAN 7 is taken by segment lan"),
    ({"site": "ams", "prefixes": ["10.1.0.0/24"], "vni": 77}, "FR409", "VNI 77 is taken by segment lan"),
    ({"site": "fra", "prefixes": ["10.1.0.0/24"], "vni": 77}, "FR409", "VNI 77 is taken by segment lan"),
]


async def test_an_invalid_segment_is_refused_by_its_insert_and_leaves_nothing(lan: Lan) -> None:
    await lan.create("lan", "10.0.0.0/24", "2001:db8::/64", vlan=7, vni=77)
    for params, sqlstate, told in INVALID:
        with pytest.raises(pg.PostgresError) as refused:
            await lan.ask("new", "create", **params)
        assert told in str(refused.value)
        assert refused.value.sqlstate == sqlstate, told
        assert await lan.conn.fetchval("SELECT count(*) FROM farrier.network_segments") == 1
        assert await lan.conn.fetchval("SELECT count(*) FROM farrier.segment_prefixes") == 2


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"site": "fra"}, "site cannot change while a segment is in use: a segment cannot change its site"),
    (
        {"vlan": 8},
        "vlan cannot change while a segment is in use: the users of the segment depend on the VLAN tag; create",
    ),
    (
        {"vni": 8},
        "vni cannot change while a segment is in use: the users of the segment depend on the VNI; create a segment",
    ),
    (
        {"prefixes": ["10.1.0.0/24"]},
        "prefixes cannot change while a segment is in use: prefixes can only be added, with add",
    ),
    ({"mtu": 1279}, "an MTU of 1279 is too small for IPv6"),
    ({"mtu": 9000, "gateways": ["10.0.0.1"]}, "a gateway can be set only for a prefix in add_prefixes"),
    ({"add_prefixes": ["10.1.0.9/24"]}, "prefix 10.1.0.9/24 has host bits; the network is 10.1.0.0/24"),
    ({"add_prefixes": ["x"]}, "prefix x is not a network address"),
    ({"add_prefixes": ["10.1.0.0/255.255.255.0"]}, "is not a network address"),
    ({"add_prefixes": ["fe80::%1/64"]}, "is not a network address"),
    ({"add_prefixes": ["10.0.0.128/25"]}, "10.0.0.128/25 overlaps 10.0.0.0/24"),
    ({"add_prefixes": ["10.1.0.0/24", "10.1.0.0/25"]}, "10.1.0.0/25 overlaps 10.1.0.0/24"),
    ({"add_prefixes": ["10.9.0.0/16"]}, "10.9.0.0/16 overlaps 10.9.9.0/24 of segment other"),
    (
        {"add_prefixes": ["10.1.0.0/24"], "gateways": ["10.2.0.1"]},
        "gateway 10.2.0.1 is not in a prefix of this intent's add_prefixes",
    ),
    ({"add_prefixes": ["10.1.0.0/24"], "gateways": ["10.1.0.255"]}, "is the network or broadcast address of"),
    ({"add_prefixes": ["10.1.0.0/24"], "gateways": ["10.1.0.1", "10.1.0.2"]}, "already has gateway 10.1.0.1"),
    ({"add_prefixes": ["10.1.0.0/24"], "gateways": ["me"]}, "gateway me is not an IP address"),
    ({"add_prefixes": ["fe80::/64"], "gateways": ["fe80::1%eth0"]}, "gateway fe80::1%eth0 is not an IP address"),
    ({"add_prefixes": ["10.0.0.0/24"], "gateways": ["10.0.0.1"]}, "an existing prefix keeps its gateway"),
    (
        {"add_prefixes": ["10.1.0.0/31"]},
        "prefix 10.1.0.0/31 has no allocatable address",
    ),
    (
        {"add_prefixes": [f"10.{n}.0.0/24" for n in range(20, 35)]},
        "has at most 16 prefixes; this segment would have 17",
    ),
]


async def test_an_invalid_update_is_rejected_with_the_reason_and_changes_nothing(lan: Lan) -> None:
    made = await lan.create("lan", "10.0.0.0/24", "2001:db8::/64", vlan=7, reserved_first=2)
    await lan.create("other", "10.9.9.0/24")
    await lan.settle()
    before = await lan.segment(made)
    requests = [await lan.ask("lan", "update", **asked) for asked, _ in IMPOSSIBLE]
    await lan.settle()
    for request, (_, told) in zip(requests, IMPOSSIBLE, strict=True):
        status, reason = await lan.answer(request)
        assert (status, told in reason) == ("rejected", True), reason
    after = await lan.segment(made)
    assert {**after, **UNTOLD} == {**before, **UNTOLD}


async def test_an_empty_update_is_refused_by_its_insert(lan: Lan) -> None:
    await lan.create()
    with pytest.raises(pg.PostgresError, match="update: needs at least one of: mtu, add_prefixes"):
        await lan.ask("lan", "update")


async def test_prefixes_are_added_with_their_gateways_and_a_repetition_changes_nothing(lan: Lan) -> None:
    made = await lan.ready("lan", "10.0.0.0/30", reserved_first=1)
    request = await lan.ask(
        "lan", "update", add_prefixes=["10.0.1.0/29", "2001:DB8:0::/64"], gateways=["10.0.1.2", "2001:db8::1"], mtu=9000
    )
    await lan.settle()
    assert await lan.answer(request) == ("accepted", "")
    row = await lan.segment(made)
    assert row["prefixes"] == ["10.0.0.0/30", "10.0.1.0/29", "2001:db8::/64"]
    assert (row["gateways"], row["mtu"]) == (["10.0.1.2", "2001:db8::1"], 9000)
    assert await lan.free(made) == [
        ("10.0.0.2", "10.0.0.2"),
        ("10.0.1.3", "10.0.1.6"),
        ("2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff"),
    ]
    again = await lan.ask("lan", "update", add_prefixes=["10.0.1.0/29"], gateways=["10.0.1.2"])
    await lan.settle()
    assert await lan.answer(again) == ("accepted", "")
    after = await lan.segment(made)
    assert {**after, **UNTOLD} == {**row, **UNTOLD}


async def test_prefixes_of_other_sites_and_of_ended_segments_do_not_conflict(lan: Lan) -> None:
    await lan.ready("lan", "10.0.0.0/24")
    await lan.create("far", "10.0.0.0/24", site="fra")
    await lan.ask("lan", "delete")
    await lan.settle()
    await lan.create("next", "10.0.0.0/16")


async def test_the_second_of_two_overlapping_creations_waits_and_is_refused_with_the_first_name(
    lan: Lan,
) -> None:
    async with lan.db.connect() as first, lan.db.connect() as second:
        transaction = first.transaction()
        await transaction.start()
        await segments.ask(first, "one", "create", site="ams", prefixes=["10.0.0.0/16"])
        async with anyio.create_task_group() as group:

            async def late() -> None:
                with pytest.raises(
                    pg.PostgresError, match=r"10.0.3.0/24 overlaps 10.0.0.0/16 of segment one"
                ) as refused:
                    await segments.ask(second, "two", "create", site="ams", prefixes=["10.0.3.0/24"])
                assert refused.value.sqlstate == "FR409"

            group.start_soon(late)
            await lan.until_blocked()
            await transaction.commit()
    assert await lan.conn.fetchval("SELECT array_agg(name) FROM farrier.network_segments") == ["one"]


async def test_a_rolled_back_creation_leaves_its_prefix_to_the_creation_that_waited(lan: Lan) -> None:
    async with lan.db.connect() as first, lan.db.connect() as second:
        transaction = first.transaction()
        await transaction.start()
        await segments.ask(first, "one", "create", site="ams", prefixes=["10.0.0.0/16"])
        async with anyio.create_task_group() as group:
            group.start_soon(create, second, "two")
            await lan.until_blocked()
            await transaction.rollback()
    assert await lan.conn.fetchval("SELECT array_agg(name) FROM farrier.network_segments") == ["two"]


async def test_the_constraint_refuses_an_overlap_that_the_transactions_snapshot_cannot_see(lan: Lan) -> None:
    async with lan.db.connect() as first, lan.db.connect() as second:
        await first.execute("SELECT farrier.lock_keys('segment_prefixes', '{ams}')")  # makes the key's row
        blind = second.transaction(isolation="repeatable_read")
        await blind.start()
        await second.fetchval("SELECT count(*) FROM farrier.network_segments")
        await create(first, "one")
        with pytest.raises(
            pg.PostgresError, match=r"10.0.0.0/16 overlaps a prefix that was added at the same time"
        ) as refused:
            await create(second, "two")
        assert refused.value.sqlstate == "40001", "clients repeat it after a serialization failure"
        await blind.rollback()
    assert await lan.conn.fetchval("SELECT array_agg(name) FROM farrier.network_segments") == ["one"]


async def test_of_many_overlapping_creations_exactly_one_succeeds(lan: Lan) -> None:
    won: list[str] = []

    async def attempt(name: str, length: int) -> None:
        async with lan.db.connect() as conn:
            try:
                await segments.ask(conn, name, "create", site="ams", prefixes=[f"10.0.0.0/{length}"])
            except pg.PostgresError as refused:
                if refused.sqlstate != "FR409":
                    raise
            else:
                won.append(name)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(attempt, f"n-{number}", 16 + number)
    assert len(won) == 1
    assert await lan.conn.fetchval("SELECT array_agg(name) FROM farrier.network_segments") == won


async def test_a_commit_does_not_wait_for_a_client_that_adds_prefixes_at_the_site(lan: Lan) -> None:
    """The run is repeated after a second, and then finds the prefixes that the client has added."""
    made = await lan.ready("lan", "10.0.0.0/24")
    async with lan.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await segments.ask(client, "new", "create", site="ams", prefixes=["10.5.0.0/16"])
        request = await lan.ask("lan", "update", add_prefixes=["10.5.0.0/24"])
        async with lan.running():
            await lan.ledger.until(lambda: "deferred" in lan.ledger.verdicts)
        assert await lan.answer(request) == ("pending", "")
        await transaction.commit()
    await lan.next_run(made)
    await lan.settle()
    assert await lan.answer(request) == ("rejected", "10.5.0.0/24 overlaps 10.5.0.0/16 of segment new")


async def test_numbers_come_from_the_pools_and_an_older_number_is_not_given_twice(lan: Lan) -> None:
    old = await lan.create("old", "10.0.0.0/24", vlan=100)
    await lan.pool.execute("SELECT farrier.set_pool('vlan:ams', 100, 102)")
    new = await lan.create("new", "10.0.1.0/24")
    chosen = await lan.create("chosen", "10.0.2.0/24", vlan=102)
    far = await lan.create("far", "10.0.2.0/24", site="fra", vlan=100)
    vlans = [(await lan.segment(id_))["vlan"] for id_ in (old, new, chosen, far)]
    assert vlans == [100, 101, 102, 100]
    with pytest.raises(pg.PostgresError, match="pool vlan:ams is exhausted: all numbers from 100 to 102 are taken"):
        await lan.create("more", "10.0.3.0/24")
    with pytest.raises(pg.PostgresError, match="200 is not in pool vlan:ams, which ranges from 100 to 102"):
        await lan.create("more", "10.0.3.0/24", vlan=200)
    await lan.ask("old", "delete")
    await lan.settle()
    assert (await lan.segment(await lan.create("more", "10.0.3.0/24")))["vlan"] == 100


@pytest.mark.parametrize(
    ("site", "number", "told"),
    [("ams", {"vlan": 7}, "VLAN 7 is taken by segment one"), ("fra", {"vni": 7}, "VNI 7 is taken by segment one")],
)
async def test_the_second_of_two_creations_with_one_number_waits_and_is_refused_with_the_first_name(
    lan: Lan, site: str, number: dict[str, int], told: str
) -> None:
    async with lan.db.connect() as first, lan.db.connect() as second:
        transaction = first.transaction()
        await transaction.start()
        await segments.ask(first, "one", "create", site="ams", prefixes=["10.0.0.0/24"], **number)
        async with anyio.create_task_group() as group:

            async def late() -> None:
                with pytest.raises(pg.PostgresError, match=told) as refused:
                    await segments.ask(second, "two", "create", site=site, prefixes=["10.0.1.0/24"], **number)
                assert refused.value.sqlstate == "FR409"

            group.start_soon(late)
            await lan.until_blocked()
            await transaction.commit()


async def test_concurrent_creations_at_two_sites_do_not_deadlock(lan: Lan) -> None:
    await lan.conn.execute(
        "SELECT farrier.set_pool('vni', 1, 9), farrier.set_pool('vlan:ams', 1, 9), farrier.set_pool('vlan:fra', 1, 9)"
    )
    async with lan.db.connect() as first, lan.db.connect() as second:
        transaction = first.transaction()
        await transaction.start()
        await segments.ask(first, "one", "create", site="ams", prefixes=["10.0.0.0/24"])
        async with anyio.create_task_group() as group:

            async def late() -> None:
                await segments.ask(second, "two", "create", site="fra", prefixes=["10.0.0.0/24"])

            group.start_soon(late)
            await lan.until_blocked()
            await segments.ask(first, "three", "create", site="fra", prefixes=["10.0.1.0/24"])
            await transaction.commit()
    names = await lan.conn.fetchval("SELECT array_agg(name ORDER BY name) FROM farrier.network_segments")
    assert names == ["one", "three", "two"]


async def test_without_pools_a_segment_has_the_given_numbers_or_none(lan: Lan) -> None:
    row = await lan.segment(await lan.create())
    assert (row["vlan"], row["vni"], row["mtu"]) == (None, None, 1500)


async def test_a_state_that_is_written_by_hand_cannot_end_a_segment_whose_addresses_are_allocated(lan: Lan) -> None:
    made = await lan.ready()
    await lan.take("a")
    enter = "UPDATE farrier.network_segments SET state = $1 WHERE id = $2"
    for state in ("deleting/drain_allocated_ips", "deleting/db_delete"):
        await lan.conn.execute(enter, state, made)
    with pytest.raises(pg.PostgresError, match="segment lan still has allocated addresses"):
        await lan.conn.execute(enter, "gone", made)


async def create(conn: Connection, name: str) -> None:
    await segments.ask(conn, name, "create", site="ams", prefixes=["10.0.0.0/16"])
