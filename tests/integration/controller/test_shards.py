"""Ownership of shards: fair shares, takeovers timed by the observer's own clock, fences, and the recovery of steps of a
shard's former owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import uuid4

import anyio
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.schema import migrate
from farrier.model.loop.outcome import Outcome
from farrier.model.loop.runs import Loaded
from farrier.protocols.permit import require_lease
from tests.support import pg, toy
from tests.support.loop import PATIENCE, Bench, Shop, WidgetIO
from tests.support.replica import Replica, at_work
from tests.support.toy import MADE, Answer, Careful, Scripted, Shape, Widget

ALL = set(range(64))


async def until_shared(*replicas: Replica, sizes: list[int]) -> None:
    with anyio.fail_after(PATIENCE):
        while sorted(len(replica.shards) for replica in replicas) != sizes:
            for replica in replicas:
                await replica.round()
    held = [shard for replica in replicas for shard in replica.shards]
    assert len(held) == len(set(held))


async def until_logged(logs: Sequence[Mapping[str, object]], event: str) -> None:
    with anyio.fail_after(PATIENCE):
        while event not in [each["event"] for each in logs]:
            await anyio.lowlevel.checkpoint()


async def test_two_controllers_own_half_each_and_a_third_gets_its_share_from_both(shop: Shop) -> None:
    first, second, third = Replica(shop), Replica(shop), Replica(shop)
    async with at_work(first, second) as group:
        await until_shared(first, second, sizes=[32, 32])
        await third.start(group)
        await until_shared(first, second, third, sizes=[20, 22, 22])


async def test_after_a_promotion_a_controller_joins_again_after_seven_seconds(shop: Shop) -> None:
    await shop.register(1)
    bench, handler = Bench(MADE), Careful()
    handler.scripts[1] = bench.script
    replica = Replica(shop, handler)
    async with at_work(replica):
        await bench.begun.wait()
        del handler.scripts[1]
        before = replica.id
        replica.rounds.timeline = "FFFFFFFF"
        with capture_logs() as logs:
            replica.controller.woken("shards", None)
            await until_logged(logs, "database.promoted")
        assert (replica.own.id, replica.shards) == (None, set())
        replica.clock.advance(timedelta(seconds=6))
        with capture_logs() as logs:
            replica.controller.woken("shards", None)
            await anyio.wait_all_tasks_blocked()
            replica.clock.advance(timedelta(seconds=2))
            await until_logged(logs, "shards.taken")
        await replica.round()
        await replica.ledger.until(lambda: handler.recovered == [(1, "work")])
        assert (replica.id != before, replica.shards) == (True, ALL)


async def test_after_a_promotion_the_shards_of_a_controller_at_the_former_primary_are_taken_as_well(shop: Shop) -> None:
    isolated, second = Replica(shop), Replica(shop)
    async with at_work(isolated, second):
        await until_shared(isolated, second, sizes=[32, 32])
        isolated.rounds.cut_off = True
        second.rounds.timeline = "FFFFFFFF"
        with capture_logs() as logs:
            second.controller.woken("shards", None)
            await until_logged(logs, "database.promoted")
            second.clock.advance(timedelta(seconds=8))
            await until_logged(logs, "controller.declared_dead")
        await second.round()
        assert second.shards == ALL


async def test_two_controllers_with_the_same_name_share_the_shards(shop: Shop) -> None:
    first, second = Replica(shop, name="a"), Replica(shop, name="a")
    async with at_work(first, second):
        await until_shared(first, second, sizes=[32, 32])
        assert await shop.pool.fetchval("SELECT count(*) FROM farrier.controllers WHERE name = 'a'") == 2


async def test_a_controller_that_stops_gives_all_back_and_another_takes_over_at_once(shop: Shop) -> None:
    await shop.register(*range(1, 101))
    handler = Careful()
    first, second = Replica(shop), Replica(shop, handler)
    async with at_work(first, second):
        await until_shared(first, second, sizes=[32, 32])
        await first.stop()
        await second.round()
        assert second.shards == ALL
        await second.ledger.until(lambda: set(handler.order) >= set(range(1, 101)))
        assert handler.recovered == []
        assert await shop.pool.fetchval("SELECT count(*) FROM farrier.controllers") == 1


async def test_the_shards_of_a_controller_that_leaves_are_taken_while_its_last_step_runs(shop: Shop) -> None:
    await shop.register(*range(64))
    bench, handler = Bench(MADE), Careful()
    first, second = Replica(shop, Scripted({1: bench.script})), Replica(shop, handler)
    async with at_work(first) as group:
        await bench.begun.wait()
        await second.start(group)
        group.start_soon(first.stop)
        with anyio.fail_after(PATIENCE):
            while second.shards != ALL - {1}:
                await second.round()
        assert first.shards == {1}, "its step still runs"
        bench.let_go.set()
        with anyio.fail_after(PATIENCE):
            while second.shards != ALL:
                await second.round()
        assert handler.recovered == []
        assert first.ledger.moves == [("raw", "made")]
        await second.stop()


async def test_a_controller_that_leaves_notifies_the_others(shop: Shop) -> None:
    """The notification has to follow the deletion of the controller's row: its shards can be taken only then."""
    controllers, leaver, heard = PostgresControllers(shop.pool), uuid4(), anyio.Event()
    await controllers.join(leaver, "leaver", [toy.KIND])
    async with shop.db.connect() as listener:
        await listener.add_listener("farrier_wake", lambda *message: heard.set() if message[-1] == "shards" else None)
        await controllers.leave(leaver)
        with anyio.fail_after(PATIENCE):
            await heard.wait()


async def test_a_controller_whose_step_ends_while_it_gives_back_leaves_no_orphaned_step(shop: Shop) -> None:
    await shop.register(*range(1, 101))
    handler = Careful()
    first, second = Replica(shop), Replica(shop, handler)
    async with at_work(first) as group:
        first.rounds.may_give_back = anyio.Event()
        await second.start(group)
        first.controller.woken("shards", None)
        await first.rounds.gives_back.wait()
        with capture_logs() as logs:
            group.start_soon(first.stop)
            await until_logged(logs, "drain.done")
        first.rounds.may_give_back.set()
        await first.stop()
        await second.round()
        await second.ledger.until(lambda: set(handler.order) >= set(range(1, 101)))
        assert second.shards == ALL
        assert handler.recovered == []
        await second.stop()


async def test_a_controller_that_is_not_renewed_for_ten_seconds_is_declared_dead(shop: Shop) -> None:
    first, second = Replica(shop), Replica(shop)
    async with at_work(first, second):
        await until_shared(first, second, sizes=[32, 32])
        first.rounds.cut_off = True
        await second.pass_seconds(8)
        assert len(second.shards) == 32
        await second.pass_seconds(4)
        await second.round()
        assert second.shards == ALL


@pytest.mark.parametrize("hour", [-1, 1])
async def test_a_clock_of_the_database_that_is_moved_loses_no_shard(shop: Shop, hour: int) -> None:
    first, second = Replica(shop), Replica(shop)
    async with at_work(first, second):
        await until_shared(first, second, sizes=[32, 32])
        before = first.own.held, second.own.held
        await shop.db.advance(timedelta(hours=hour))
        for _ in range(8):
            await first.pass_seconds(2)
            await second.pass_seconds(2)
        assert (first.own.held, second.own.held) == before


async def test_a_controller_that_was_declared_dead_renews_no_more_and_joins_under_another_id(shop: Shop) -> None:
    first, second = Replica(shop), Replica(shop)
    async with at_work(first, second):
        await until_shared(first, second, sizes=[32, 32])
        former, first.rounds.cut_off = first.id, True
        await second.pass_seconds(12)
        await second.round()
        with capture_logs() as logged:
            first.rounds.cut_off = False
            await first.round()
            await first.round()
        assert "controller.expired" in [line["event"] for line in logged]
        assert first.id != former
        await until_shared(first, second, sizes=[32, 32])


async def test_a_step_of_a_former_owner_commits_nothing_and_publishes_nothing(shop: Shop) -> None:
    """The former owner still believes that it owns the shard: its clock stands still, and its renewals fail."""
    await shop.register(1)
    bench, handler = Bench(MADE), Careful()
    first, second = Replica(shop, Scripted({1: bench.script})), Replica(shop, handler)
    async with at_work(first) as group:
        await bench.begun.wait()
        first.rounds.cut_off = True
        await second.start(group)
        await second.pass_seconds(12)
        await second.round()
        assert second.shards == ALL
        await second.ledger.until(lambda: handler.order == [1])
        bench.let_go.set()
        await first.ledger.until(lambda: bool(first.ledger.verdicts))
        assert first.ledger.verdicts == ["lost"]
        assert (first.ledger.moves, first.ledger.outcomes.total()) == ([], 0)
        await second.stop()
    assert handler.recovered == [(1, "work")]
    assert ((await shop.widget(1))["state"], (await shop.widget(1))["payload"]) == ("raw", "recovered")
    assert await shop.history(1) == []
    assert await shop.marked(1) is None


async def test_after_a_crash_only_resources_with_a_step_under_way_are_recovered(shop: Shop) -> None:
    await shop.register(1, 2)
    bench, handler = Bench(MADE), Careful()
    first, second = Replica(shop, Scripted({1: bench.script})), Replica(shop, handler)
    async with at_work() as group:
        await first.start(group)
        await bench.begun.wait()
        await first.ledger.until(lambda: first.ledger.outcomes["do_nothing"] >= 1)
        await first.crash()
        await second.start(group)
        await second.pass_seconds(12)
        await second.round()
        await second.ledger.until(lambda: sorted(handler.order) == [1, 2])
        await second.stop()
    assert handler.recovered == [(1, "work")]
    assert await shop.pool.fetchval("SELECT count(*) FROM farrier.effects") == 0
    assert await shop.pool.fetchval("SELECT count(*) FROM farrier.marks") == 0, "no marks remain"


class Unable(WidgetIO):
    """Storage that lists resources and loads none."""

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Widget]:
        raise DatabaseUnreachable("the test", "loads nothing")


async def test_a_shard_that_is_given_back_before_it_was_recovered_is_recovered_by_the_next_owner(shop: Shop) -> None:
    await shop.register(1, 2)
    bench, handler = Bench(MADE), Careful()
    first, third = Replica(shop, Scripted({1: bench.script})), Replica(shop, handler)
    second = Replica(shop, io=Unable(shop.pool, toy.WidgetRows()))
    async with at_work() as group:
        await first.start(group)
        await bench.begun.wait()
        await first.crash()
        await second.start(group)
        await second.pass_seconds(12)
        await second.round()
        assert second.shards == ALL
        await second.stop()
        await third.start(group)
        await third.ledger.until(lambda: sorted(handler.order) == [1, 2])
        await third.stop()
    assert handler.recovered == [(1, "work")]


class Acting(Bench):
    """A step that requires the lease before it sends, as every client does."""

    sent = 0

    @override
    async def act(self, services: object) -> Outcome[Shape, Answer]:
        outcome = await super().act(services)
        require_lease()
        self.sent += 1
        return outcome


async def test_a_step_that_goes_on_six_seconds_after_the_last_renewal_sends_nothing_and_is_recovered(
    shop: Shop,
) -> None:
    """The state after SIGSTOP: the clock has moved, and the timers of the process have not fired."""
    await shop.register(1)
    bench, handler = Acting(MADE), Careful()
    handler.scripts[1] = bench.script
    replica = Replica(shop, handler)
    async with at_work(replica):
        await bench.begun.wait()
        assert await shop.marked(1) == "work"
        handler.scripts.clear()
        replica.rounds.cut_off = True
        replica.clock.advance(timedelta(seconds=7))
        bench.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.cut == 1)
        assert (bench.sent, handler.recovered) == (0, [])
        replica.rounds.cut_off = False
        await replica.round()
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
    assert handler.recovered == [(1, "work")]
    assert await shop.marked(1) is None


async def test_a_step_of_a_controller_that_renews_its_lease_sends_its_request(shop: Shop) -> None:
    await shop.register(1)
    bench = Acting(MADE)
    replica = Replica(shop, Scripted({1: bench.script}))
    async with at_work(replica):
        await bench.begun.wait()
        await replica.pass_seconds(20)
        replica.handler.scripts.clear()
        bench.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.moves == [("raw", "made")])
    assert bench.sent == 1


async def test_a_controller_whose_renewals_fail_for_thirty_seconds_gives_its_shards_back(shop: Shop) -> None:
    replica = Replica(shop)
    async with at_work(replica):
        former = replica.id
        replica.rounds.cut_off = True
        replica.clock.advance(timedelta(seconds=31))
        with anyio.fail_after(PATIENCE):
            while replica.own.id == former:
                replica.controller.woken("shards", None)
                await replica.rounds.next()
        await shop.db.until("SELECT count(*) = 64 FROM farrier.shards WHERE owner IS NULL AND kind = 'widget'")
        replica.rounds.cut_off = False
        await replica.round()
        assert replica.shards == ALL and replica.id != former


async def test_a_controller_that_may_not_read_the_table_of_a_kind_takes_none_of_its_shards(
    shop: Shop,
) -> None:
    async with shop.db.connect() as owner:
        await migrate.create_roles(owner)
    async with pg.Database(f"{shop.db.dsn}{'&' if '?' in shop.db.dsn else '?'}role=farrier_controller").pool(2) as pool:
        with capture_logs() as logged:
            replica = Replica(shop, pool=pool)
            async with at_work(replica):
                assert replica.shards == set()
    (line,) = [line for line in logged if line["event"] == "kind.not_run"]
    assert line["kind"] == toy.KIND
    assert "permission denied" in line["error"]


async def test_a_surplus_shard_with_a_step_under_way_is_given_back_when_the_step_has_ended(shop: Shop) -> None:
    ids = range(1, 65)
    await shop.register(*ids)
    benches = {id_: Bench(MADE) for id_ in ids}
    first = Replica(shop, Scripted({id_: bench.script for id_, bench in benches.items()}))
    second = Replica(shop)
    async with at_work(first) as group:
        for bench in benches.values():
            await bench.begun.wait()
        await second.start(group)
        await first.round()
        await second.round()
        assert second.shards == set()
        first.handler.scripts.clear()
        for bench in benches.values():
            bench.let_go.set()
        await until_shared(first, second, sizes=[32, 32])
    assert all([await shop.history(id_) == [("raw", "made")] for id_ in ids])


async def test_without_a_controller_of_the_kind_one_wake_a_resource_is_kept(shop: Shop) -> None:
    node = await shop.pool.fetchval("SELECT farrier.register_node('gpu-1')")
    for _ in range(3):
        await shop.pool.execute("SELECT farrier.enqueue('node', $1)", node)
    replica = Replica(shop)
    async with at_work(replica):
        await replica.round()
        left = await shop.pool.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = 'node'")
    assert left == 1
