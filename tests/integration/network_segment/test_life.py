"""Every edge by its real trigger, on the real loop: a segment becomes ready, drains, and frees its numbers."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from farrier.model.network.segment import SPEC
from tests.support import pg, segments
from tests.support.segments import PERIOD, Lan

PROVISIONED = ("provisioning", "ready")
CLOSED = ("ready", "deleting/drain_allocated_ips")
DRAINED = ("deleting/drain_allocated_ips", "deleting/db_delete")
ENDED = ("deleting/db_delete", "gone")


async def test_a_segment_that_was_never_used_is_deleted_at_once_and_through_every_edge(lan: Lan) -> None:
    made = await lan.ready()
    request = await lan.ask("lan", "delete")
    await lan.settle()
    assert await lan.answer(request) == ("accepted", "")
    assert await lan.history(made) == [PROVISIONED, CLOSED, DRAINED, ENDED]
    assert not await lan.wakes(made)
    assert set(SPEC.pairs) == {PROVISIONED, CLOSED, DRAINED, ENDED}


async def test_a_deletion_before_the_first_run_goes_through_ready(lan: Lan) -> None:
    made = await lan.create()
    await lan.ask("lan", "delete")
    await lan.settle()
    assert await lan.history(made) == [PROVISIONED, CLOSED, DRAINED, ENDED]


async def test_the_period_counts_from_the_last_release_even_before_the_deletion(lan: Lan) -> None:
    made = await lan.ready()
    await lan.give("a", await lan.take("a"))
    await lan.advance(timedelta(minutes=3))
    await lan.ask("lan", "delete")
    await lan.settle()
    assert await lan.state(made) == "deleting/drain_allocated_ips"
    await lan.advance(timedelta(minutes=1, seconds=50))
    await lan.settle()
    assert await lan.state(made) == "deleting/drain_allocated_ips"
    await lan.advance(timedelta(seconds=11))
    await lan.settle()
    assert await lan.state(made) == "gone"


async def test_a_segment_at_rest_for_longer_than_the_period_is_deleted_at_once(lan: Lan) -> None:
    made = await lan.ready()
    await lan.give("a", await lan.take("a"))
    await lan.advance(PERIOD)
    await lan.ask("lan", "delete")
    await lan.settle()
    assert await lan.state(made) == "gone"


async def test_a_deletion_is_refused_with_the_first_ten_users_and_how_many_more(lan: Lan) -> None:
    made = await lan.ready()
    for owner in segments.names(13):
        await lan.take(owner)
    request = await lan.ask("lan", "delete", drain=False)
    await lan.settle()
    status, reason = await lan.answer(request)
    assert status == "rejected"
    assert reason.startswith("the segment has 13 allocated addresses, of host-000, host-001,")
    assert "host-009 and 3 more; release these addresses first, or use drain: true" in reason
    assert "host-010" not in reason
    assert await lan.state(made) == "ready"
    assert await lan.take("another") == "10.0.0.14"


async def test_a_drain_refuses_allocations_at_once_and_ends_a_period_after_the_last_release(
    lan: Lan,
) -> None:
    made = await lan.ready()
    address = await lan.take("a")
    request = await lan.ask("lan", "delete", drain=True)
    await lan.settle()
    row = await lan.segment(made)
    assert await lan.answer(request) == ("accepted", "")
    assert (row["state"], row["delete_request"]) == ("deleting/drain_allocated_ips", request)
    assert row["drain_until"] - row["delete_asked_at"] == PERIOD
    detail = await lan.row("SELECT detail ->> 'delete_asked_by' AS by FROM farrier.list_resources('network_segment')")
    assert detail["by"] == "ann"
    with pytest.raises(
        pg.PostgresError, match="segment lan is deleting/drain_allocated_ips; addresses can only be allocated in"
    ):
        await lan.take("b")
    assert await lan.take("a") == address  # an owner that asks again gets its address again
    assert await lan.give("a", address) is True
    await lan.settle()
    row = await lan.segment(made)
    released = await lan.conn.fetchval("SELECT last_released_at FROM farrier.segment_usage WHERE segment = $1", made)
    assert row["drain_until"] == released + PERIOD
    assert (await lan.outcome(made))["reason"].startswith("the last address was released")
    await lan.next_run(made)
    await lan.settle()
    assert await lan.state(made) == "deleting/drain_allocated_ips"
    await lan.advance(PERIOD)
    await lan.settle()
    assert await lan.state(made) == "gone"
    assert await lan.history(made) == [PROVISIONED, CLOSED, DRAINED, ENDED]


async def test_the_period_counts_from_the_commit_of_the_release(lan: Lan) -> None:
    """A release counts from its COMMIT, for a later deletion as well as for a drain that is under way."""
    deleted_later, draining = await lan.ready("later", "10.0.1.0/24"), await lan.ready("drains", "10.0.2.0/24")
    held = {name: await lan.take("a", segment=name) for name in ("later", "drains")}
    await lan.ask("drains", "delete", drain=True)
    await lan.settle()
    async with lan.db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        for name, address in held.items():
            await segments.give(client, "a", address, segment=name)
        await lan.advance(PERIOD * 2)
        await lan.settle()
        await transaction.commit()
    await lan.ask("later", "delete")
    await lan.settle()
    for made in (deleted_later, draining):
        assert await lan.state(made) == "deleting/drain_allocated_ips"
        row = await lan.row("SELECT last_released_at FROM farrier.segment_usage WHERE segment = $1", made)
        assert (await lan.segment(made))["drain_until"] == row["last_released_at"] + PERIOD
    await lan.advance(PERIOD)
    await lan.settle()
    assert [await lan.state(made) for made in (deleted_later, draining)] == ["gone", "gone"]


async def test_a_release_that_waited_does_not_set_the_last_release_back(lan: Lan) -> None:
    made = await lan.ready()
    first, second = await lan.take("a"), await lan.take("b")
    async with lan.db.connect() as client, lan.db.connect() as late:
        transaction = client.transaction()
        await transaction.start()
        await segments.give(client, "a", first)
        async with anyio.create_task_group() as group:
            group.start_soon(segments.give, late, "b", second)
            await lan.until_blocked()
            await lan.advance(timedelta(minutes=1))
            since = await lan.now()
            await transaction.commit()
    row = await lan.row("SELECT * FROM farrier.segment_usage WHERE segment = $1", made)
    assert row["allocated"] == 0 and row["last_released_at"] >= since


async def test_a_release_enqueues_only_a_draining_segment(lan: Lan) -> None:
    made = await lan.ready()
    first, second = await lan.take("a"), await lan.take("b")
    await lan.give("a", first)
    assert not await lan.wakes(made)
    await lan.ask("lan", "delete", drain=True)
    await lan.settle()
    assert not await lan.wakes(made)
    await lan.give("b", second)
    assert await lan.wakes(made) == 1


async def test_a_long_drain_writes_no_history_keeps_its_clock_and_runs_once_a_period(lan: Lan) -> None:
    made = await lan.ready()
    for owner in segments.names(4):
        await lan.take(owner)
    await lan.ask("lan", "delete", drain=True)
    await lan.settle()
    before, since, runs = await lan.segment(made), await lan.now(), 0
    told = await lan.conn.fetchval("SELECT at FROM farrier.outcomes WHERE kind = 'network_segment' AND id = $1", made)
    while (now := await lan.now()) - since < timedelta(hours=1):
        assert (await lan.segment(made))["drain_until"] > now
        await lan.next_run(made)
        runs += await lan.settle()
    after = await lan.segment(made)
    assert await lan.history(made) == [PROVISIONED, CLOSED]
    assert after["state_entered_at"] == before["state_entered_at"]
    assert after["drain_until"] - before["drain_until"] > timedelta(minutes=50)
    assert 100 <= runs <= 140  # a period is 30 s, give or take a tenth
    assert after["version"] - before["version"] <= 26  # the deadline is moved only when half of its time has passed
    assert (await lan.outcome(made)) == {
        "outcome": "wait",
        "reason": "addresses are still allocated to host-000, host-001, host-002 and others; the drain ends 5m after "
        "the last release",
        "source": (await lan.outcome(made))["source"],
        "ends_by": "itself",
    }
    retold = await lan.conn.fetchval("SELECT at FROM farrier.outcomes WHERE kind = 'network_segment' AND id = $1", made)
    assert retold == told


async def test_a_drain_goes_on_in_another_process_where_the_first_one_died(db: pg.Database) -> None:
    async with segments.opened(db, crash=True) as lan:
        made = await lan.ready()
        address = await lan.take("a")
        await lan.ask("lan", "delete", drain=True)
        await lan.settle()
    async with segments.opened(db) as lan:
        await lan.give("a", address)
        await lan.settle()
        assert await lan.state(made) == "deleting/drain_allocated_ips"
        await lan.advance(PERIOD)
        await lan.settle()
        assert await lan.history(made) == [PROVISIONED, CLOSED, DRAINED, ENDED]


async def test_an_ended_segment_has_given_back_its_prefixes_and_numbers_and_its_name(lan: Lan) -> None:
    await lan.pool.execute("SELECT farrier.set_pool('vlan:ams', 100, 101), farrier.set_pool('vni', 5000, 5001)")
    first = await lan.ready("lan", "10.0.0.0/24", "2001:db8::/64")
    await lan.ask("lan", "delete")
    await lan.settle()
    row = await lan.segment(first)
    assert (row["vlan"], row["vni"], row["prefixes"]) == (100, 5000, ["10.0.0.0/24", "2001:db8::/64"])
    assert row["ended_at"] is not None
    assert await lan.conn.fetchval("SELECT count(*) FROM farrier.pool_numbers") == 0
    assert await lan.free(first) == []
    second = await lan.ready("lan", "10.0.0.0/25")
    row = await lan.segment(second)
    assert (row["vlan"], row["vni"]) == (100, 5000)
    assert await lan.give("a", "10.0.0.9") is False


async def test_a_second_delete_is_accepted_and_an_update_is_rejected_during_a_deletion(lan: Lan) -> None:
    await lan.ready()
    await lan.take("a")
    await lan.ask("lan", "delete", drain=True)
    again, change = await lan.ask("lan", "delete"), await lan.ask("lan", "update", mtu=9000)
    await lan.settle()
    assert await lan.answer(again) == ("accepted", "the segment is already being deleted")
    status, reason = await lan.answer(change)
    assert status == "rejected"
    assert reason == (
        "update is accepted in state provisioning, ready; this network segment is deleting/drain_allocated_ips"
    )


async def test_with_a_period_of_zero_a_drain_ends_with_its_last_address(db: pg.Database) -> None:
    async with segments.opened(db, period=timedelta(0)) as lan:
        made = await lan.ready()
        address = await lan.take("a")
        await lan.ask("lan", "delete", drain=True)
        await lan.settle()
        assert await lan.state(made) == "deleting/drain_allocated_ips"
        await lan.give("a", address)
        await lan.settle()
        assert await lan.state(made) == "gone"
