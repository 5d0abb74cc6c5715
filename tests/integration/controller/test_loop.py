"""The loop as a whole: it runs due resources, runs moved ones again, and loses no request that comes during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import anyio
import msgspec
from typing_extensions import override

from farrier.io.connections.pool import Pool
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.outcome import Change, Deleted, DoNothing, Outcome, Step, Transition, Wait
from farrier.model.loop.runs import CommitResult, Finished
from tests.integration.controller.test_snapshots import A_PERIOD, NEVER_AGAIN, Counting
from tests.support import toy
from tests.support.loop import BRISK, PATIENCE, QUIET, Bench, Shop
from tests.support.replica import Replica, at_work
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

SECOND = timedelta(seconds=1)


class SlowCommits(PostgresStateIO[Widget, Shape, Answer]):
    """Storage whose replies to commits wait until a test sets `let_go`."""

    def __init__(self, connections: Pool, rows: toy.WidgetRows) -> None:
        super().__init__(connections, rows)
        self.committed, self.let_go = anyio.Event(), anyio.Event()

    @override
    async def commit(self, runs: Sequence[Finished[Shape, Answer]], controller: UUID) -> Mapping[int, CommitResult]:
        results = await super().commit(runs, controller)
        self.committed.set()
        await self.let_go.wait()
        return results


def make(widget: Widget, _now: datetime) -> Decided:
    """A script that makes a raw widget, and then does nothing."""
    if widget.state is State.RAW:
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="timer", writes=answered(widget))
    return DoNothing(writes=answered(widget))


def there_and_back(widget: Widget, _now: datetime) -> Decided:
    """A script that moves the widget in every run."""
    to = State.MADE if widget.state is State.RAW else State.RAW
    return Transition(to=Shape(to), reason="it cannot sit still", cause="timer")


async def test_every_resource_runs_once_when_its_shard_is_taken_and_once_a_period_from_then_on(shop: Shop) -> None:
    await shop.register(*range(1, 101))
    replica = Replica(shop, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 100)
        assert sorted(replica.handler.order) == list(range(1, 101))
        await replica.pass_seconds(26)
        assert len(replica.handler.order) == 100
        await replica.pass_seconds(8)
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 200)


class Knowing(Scripted):
    """A handler that computes the snapshot after a transition: the new state, without the answered requests."""

    @override
    def after(self, resource: Widget, changed: Change[Shape, Answer], now: datetime) -> Widget | None:
        done = {write.request for write in changed.writes}
        return msgspec.structs.replace(
            resource,
            version=resource.version + 1,
            state=changed.to.state,
            entered_at=now,
            requests=tuple(request for request in resource.requests if request not in done),
        )


class Lost(Knowing):
    """A handler whose computation of the snapshot after a transition raises."""

    @override
    def after(self, resource: Widget, changed: Change[Shape, Answer], now: datetime) -> Widget | None:
        raise RuntimeError("on purpose")


async def test_a_resource_at_rest_after_a_transition_is_not_loaded_again(shop: Shop) -> None:
    await shop.register(1)
    io = Counting(shop)
    replica = Replica(shop, Knowing(default=make), io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["transition"] == 1)
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
    assert [each for each in io.statements if each != "consume"] == ["load", "commit"]
    assert await shop.history(1) == [("raw", "made")]
    assert (await shop.outcome(1))["outcome"] == "do_nothing"
    assert await shop.wakes(1) == 0


async def test_a_wake_that_is_heard_while_a_transition_is_committed_is_loaded_at_once(shop: Shop) -> None:
    await shop.register(1)
    io = SlowCommits(shop.pool, toy.WidgetRows())
    replica = Replica(shop, Knowing(default=make), io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await io.committed.wait()
        await shop.ask(1)
        replica.controller.woken("widget", [1])
        io.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
    assert await shop.answers() == [1]


async def test_a_new_resource_is_run_after_its_notification_without_a_regular_poll(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
        await shop.register(2)
        replica.controller.woken("widget", [2])
        await replica.ledger.until(lambda: 2 in replica.handler.order)


async def test_a_resource_that_does_not_rest_after_a_transition_runs_again_at_once(shop: Shop) -> None:
    await shop.register(1)
    config = msgspec.structs.replace(QUIET, rerun_limit=3)
    replica = Replica(shop, Knowing(default=there_and_back), config=config)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["transition"] == 4)
    assert replica.ledger.limited == 1


async def test_a_transition_is_committed_although_the_handler_cannot_compute_its_result(shop: Shop) -> None:
    await shop.register(1)
    async with shop.running(Lost(default=make)) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert ledger.errors == []
    assert await shop.history(1) == [("raw", "made")]


async def test_a_transition_is_committed_with_its_history_and_runs_again_at_once(shop: Shop) -> None:
    await shop.register(1)
    handler = Scripted(default=make)
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert handler.order == [1, 1]
    assert ledger.moves == [("raw", "made")]
    assert (await shop.widget(1))["state"] == "made"
    assert await shop.history(1) == [("raw", "made")]
    (stored,) = await shop.pool.fetch("SELECT * FROM farrier.history")
    assert (stored["cause"], stored["reason"], stored["version"]) == ("timer", "it was raw", 2)
    assert stored["source"].startswith("tests/integration/controller/test_loop.py:")


async def test_a_resource_with_a_wake_runs_before_resources_without_one(shop: Shop) -> None:
    of_one_shard = range(SHARDS, 2001 * SHARDS, SHARDS)  # shards are taken one after another
    await shop.register(*of_one_shard)
    await shop.pool.execute("DELETE FROM farrier.wakes")
    small = msgspec.structs.replace(BRISK, batch=10, passes=1)
    handler = Scripted()
    woken = of_one_shard[-1]
    await shop.ask(woken)
    async with shop.running(handler, config=small) as (_, ledger):
        await ledger.until(lambda: woken in handler.order)
    assert handler.order.index(woken) < 100


async def test_resources_with_wakes_run_in_the_order_of_their_wakes(shop: Shop) -> None:
    await shop.register(*range(1, 21))
    handler = Scripted()
    async with shop.running(handler, config=QUIET) as (controller, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 20)
        order = [13, 2, 20, 7, 1]
        controller.woken("widget", order)
        await ledger.until(lambda: len(handler.order) >= 25)
    assert handler.order[20:] == order


async def test_a_storm_of_wakes_starves_neither_the_sweep_nor_other_wakes(shop: Shop) -> None:
    """Each run of widget 1 inserts a request for another run, so this widget always has a wake."""
    await shop.register(*range(1, 301))
    small = msgspec.structs.replace(BRISK, batch=5, passes=1)

    async def storm(seen: Widget) -> Outcome[Shape, Answer]:
        await shop.ask(1)
        return DoNothing(source="storm:1", writes=answered(seen))

    def stormy(widget: Widget, _now: datetime) -> Decided:
        return Step(name="storm", act=lambda _: storm(widget), deadline=60 * SECOND, reads_only=False)

    handler = Scripted({1: stormy})
    async with shop.running(handler, config=small) as (controller, ledger):
        await ledger.until(lambda: handler.order.count(1) > 3)
        await shop.ask(300)
        controller.heard_nothing()
        await ledger.until(lambda: set(handler.order) == set(range(1, 301)))
        await shop.db.until("SELECT answers = 1 FROM farrier_toy.requests WHERE widget = 300")


async def test_the_sweep_of_a_large_fleet_does_not_hold_up_a_wake(shop: Shop) -> None:
    """While 3,000 widgets wait for their first run, a widget with a wake runs before a tenth of them have run."""
    await shop.register(*range(1, 3001))
    await shop.pool.execute("DELETE FROM farrier.wakes")
    handler = Scripted()
    small = msgspec.structs.replace(BRISK, batch=20, passes=1, poll_interval=60 * SECOND)
    async with shop.running(handler, config=small) as (controller, ledger):
        await ledger.until(lambda: len(handler.order) >= 20)
        await shop.ask(3000)
        controller.heard_nothing()
        before = len(handler.order)
        await ledger.until(lambda: 3000 in handler.order)
        assert handler.order.index(3000) - before < 300


async def test_a_resource_that_always_requeues_at_once_is_counted_and_pauses_for_a_second(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, Scripted(default=lambda _widget, _now: DoNothing(requeue_after=timedelta(0))), config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.limited == 1)
        await replica.round()
        assert len(replica.handler.order) == BRISK.rerun_limit + 1
        replica.clock.advance(2 * SECOND)
        await replica.ledger.until(lambda: replica.ledger.limited == 2)


async def test_a_slow_commit_does_not_delay_the_next_run(shop: Shop) -> None:
    await shop.register(1)
    io = SlowCommits(shop.pool, toy.WidgetRows())
    script = Scripted(default=lambda _widget, _now: Wait(reason="a while", requeue_after=5 * SECOND))
    replica = Replica(shop, script, config=QUIET, io=io)
    async with at_work(replica):
        with anyio.fail_after(PATIENCE):
            await io.committed.wait()
        await replica.pass_seconds(6)
        io.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 2)


async def test_requeue_after_makes_the_next_run_earlier_and_never_later(shop: Shop) -> None:
    await shop.register(1, 2)

    def wait(seconds: int) -> toy.Script:
        return lambda _widget, _now: Wait(reason="a while", requeue_after=timedelta(seconds=seconds))

    replica = Replica(shop, Scripted({1: wait(5), 2: wait(3600)}), config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 2)
        await replica.pass_seconds(6)
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 3)
        assert replica.handler.order[2:] == [1]
        await replica.pass_seconds(28)
        await replica.ledger.until(lambda: 2 in replica.handler.order[2:])


async def test_an_ended_resource_runs_once_more_for_a_late_wake_and_is_then_forgotten(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench()

    async def sell(services: object) -> Outcome[Shape, Answer]:
        await bench.act(services)
        return Deleted()

    handler = Scripted(default=lambda _w, _n: Step(name="sell", act=sell, deadline=60 * SECOND, reads_only=False))
    replica = Replica(shop, handler)
    async with at_work(replica):
        await bench.begun.wait()
        await shop.ask(1)
        replica.controller.woken("widget", [1])
        handler.default = lambda widget, _now: Deleted(writes=answered(widget))
        bench.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.outcomes["deleted"] >= 2)
        with anyio.fail_after(20):
            while len(replica.loop.agenda):
                await anyio.lowlevel.checkpoint()
    assert await shop.answers() == [1]
    assert await shop.wakes(1) == 0


async def test_a_step_without_a_slot_begins_when_one_is_free_and_other_widgets_go_on(shop: Shop) -> None:
    await shop.register(1, 2, 3, 4)
    bench = Bench()
    one = msgspec.structs.replace(QUIET, max_in_flight=1)
    replica = Replica(shop, Scripted({1: bench.script, 2: bench.script}), config=one)
    ledger = replica.ledger
    async with at_work(replica):
        await bench.begun.wait()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
        await ledger.until(lambda: set(replica.handler.order) == {1, 2, 3, 4})
        assert replica.controller.in_flight == 1
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 4)


async def test_an_urgent_intent_cuts_a_reading_step_short_and_is_answered(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(reads_only=True)
    handler = Scripted(default=bench.script)
    async with shop.running(handler) as (controller, ledger):
        await bench.begun.wait()
        handler.default = toy.content
        await shop.ask(1, urgent=True)
        controller.heard_nothing()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert bench.cancelled == 1
    assert await shop.answers() == [1]
    assert ledger.errors == []


async def test_a_step_that_sends_a_mutation_is_never_interrupted(shop: Shop) -> None:
    await shop.register(1, 2)
    bench, probe = Bench(), Bench(reads_only=True)
    handler = Scripted({1: bench.script, 2: probe.script})
    async with shop.running(handler) as (controller, ledger):
        await bench.begun.wait()
        await probe.begun.wait()
        handler.scripts.clear()
        await shop.ask(1, urgent=True)
        await shop.ask(2, urgent=True)
        controller.heard_nothing()
        await ledger.until(lambda: probe.cancelled == 1 and 2 in handler.order[2:])
        assert bench.cancelled == 0
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 3)
    assert await shop.answers() == [1, 1]
