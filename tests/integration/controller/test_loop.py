"""The loop as a whole: what is due runs, what moved runs again, what was asked meanwhile is not forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

import msgspec
from typing_extensions import override

from farrier.model.outcome import Deleted, DoNothing, Outcome, Step, Transition, Wait
from farrier.model.runs import Lane, Loaded
from tests.support import toy
from tests.support.loop import BRISK, Bench, Shop, WidgetIO
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

SECOND = timedelta(seconds=1)


def make(widget: Widget, _now: datetime) -> Decided:
    """Raw becomes made, and that is it."""
    if widget.state is State.RAW:
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="timer", writes=answered(widget))
    return DoNothing(writes=answered(widget))


def there_and_back(widget: Widget, _now: datetime) -> Decided:
    """Never at rest."""
    to = State.MADE if widget.state is State.RAW else State.RAW
    return Transition(to=Shape(to), reason="it cannot sit still", cause="timer")


async def test_every_due_row_runs_once_and_is_due_again_a_period_later(shop: Shop) -> None:
    await shop.register(*range(1, 101))
    handler = Scripted()
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 100)
    assert sorted(handler.order) == list(range(1, 101))
    row = await shop.row(7)
    assert row["lane"] == Lane.PERIODIC
    assert row["claim_token"] is None
    assert 26 * SECOND < row["ahead"] < 34 * SECOND


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


async def test_a_wake_during_a_run_is_not_lost_and_runs_at_once_without_a_poll(shop: Shop) -> None:
    """The notification finds the row claimed and passes by; the end of the run has to look."""
    await shop.register(1)
    bench = Bench()
    handler = Scripted(default=bench.script)
    patient = msgspec.structs.replace(BRISK, poll_interval=60 * SECOND)
    async with shop.running(handler, config=patient) as (controller, ledger):
        await bench.begun.wait()
        await shop.ask(1)
        controller.heard_nothing()
        handler.default = toy.content
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
    assert handler.order == [1, 1]
    assert await shop.answers() == [1]


class WokenWhileClaimed(WidgetIO):
    """Storage through which a wake slips in between the first claim and its load."""

    wake: Callable[[], Awaitable[object]] | None = None

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Widget]:
        if self.wake is not None:
            await self.wake()
            self.wake = None
        return await super().load(ids)


async def test_a_wake_between_claim_and_load_is_answered_by_that_run_and_only_once(shop: Shop) -> None:
    await shop.register(1)
    io = WokenWhileClaimed(shop.pool, toy.WidgetRows(), owner=uuid4(), lease=BRISK.lease)
    io.wake = lambda: shop.ask(1)
    async with shop.running(Scripted(), io=io) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
    assert await shop.answers() == [1]


async def test_a_woken_row_runs_before_the_periodic_ones_that_are_due(shop: Shop) -> None:
    await shop.register(*range(1, 2001))
    small = msgspec.structs.replace(BRISK, batch=10, passes=1)
    handler = Scripted()
    await shop.ask(2000)
    async with shop.running(handler, config=small) as (_, ledger):
        await ledger.until(lambda: 2000 in handler.order)
    assert handler.order.index(2000) < 100


async def test_woken_rows_run_in_the_order_of_waking(shop: Shop) -> None:
    await shop.register(*range(1, 21))
    await shop.pool.execute("UPDATE farrier.schedule SET due_at = farrier.now() + interval '30 s'")
    order = [13, 2, 20, 7, 1]
    for id_ in order:
        await shop.ask(id_)
    handler = Scripted()
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: len(handler.order) >= len(order))
    assert handler.order == order


async def test_a_storm_of_wakes_starves_neither_the_sweep_nor_other_woken_rows(shop: Shop) -> None:
    """Widget 1 asks for another run with each of its runs: it is always due, always woken."""
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
    assert await shop.pool.fetchval("SELECT answers FROM farrier_toy.requests WHERE widget = 300") == 1


async def test_the_sweep_of_a_large_fleet_does_not_hold_up_a_wake(shop: Shop) -> None:
    """All of 3,000 are overdue, the wake comes last: it runs before a tenth of them have."""
    await shop.register(*range(1, 3001))
    handler = Scripted()
    small = msgspec.structs.replace(BRISK, batch=20, passes=1, poll_interval=60 * SECOND)
    async with shop.running(handler, config=small) as (controller, ledger):
        await ledger.until(lambda: len(handler.order) >= 20)
        await shop.ask(3000)
        controller.heard_nothing()
        before = len(handler.order)
        await ledger.until(lambda: 3000 in handler.order)
        assert handler.order.index(3000) - before < 300


async def test_wakes_faster_than_handling_leave_every_row_its_turn_in_order(shop: Shop) -> None:
    """Every widget is woken again by its own run, so the woken lane is never empty; turns still go round."""
    await shop.register(*range(1, 41))
    for id_ in range(1, 41):
        await shop.ask(id_)
    small = msgspec.structs.replace(BRISK, batch=4, passes=1)

    async def again(widget: int) -> Outcome[Shape, Answer]:
        await shop.ask(widget)
        return DoNothing(source="again:1")

    def woken_again(widget: Widget, _now: datetime) -> Decided:
        return Step(name="again", act=lambda _: again(widget.id), deadline=60 * SECOND, reads_only=False)

    handler = Scripted(default=woken_again)
    async with shop.running(handler, config=small) as (_, ledger):
        await ledger.until(lambda: len(handler.order) >= 200)
    runs = [handler.order[:200].count(id_) for id_ in range(1, 41)]
    assert max(runs) - min(runs) <= 2
    assert handler.order[:40] == list(range(1, 41))


async def test_after_fifty_reruns_a_resource_takes_its_turn_in_the_sweep_once_and_is_counted(
    shop: Shop,
) -> None:
    await shop.register(1)
    handler = Scripted()

    def restless(widget: Widget, now: datetime) -> Decided:
        return there_and_back(widget, now) if len(handler.order) <= 2 * BRISK.rerun_limit else DoNothing()

    handler.default = restless
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert ledger.limited == 1
    # The first run, the fifty that followed it at once, and then the one of the sweep.
    assert len(ledger.waits["periodic"]) == 2


async def test_whoever_always_wants_to_look_at_once_is_counted_and_left_for_a_second(shop: Shop) -> None:
    await shop.register(1)
    handler = Scripted(default=lambda _widget, _now: DoNothing(look_again=timedelta(0)))
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.limited == 1)
        row = await shop.given_back(1)
        assert len(handler.order) == BRISK.rerun_limit + 1
        assert timedelta(0) < row["ahead"] <= SECOND
        await shop.db.advance(2 * SECOND)
        await ledger.until(lambda: ledger.limited == 2)


async def test_a_rerun_too_many_waits_in_the_periodic_lane_due_now(shop: Shop) -> None:
    await shop.register(1)
    await shop.pool.execute("UPDATE farrier.schedule SET reruns = $1", BRISK.rerun_limit)
    handler = Scripted({1: there_and_back})
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.limited == 1)
        handler.scripts.clear()
    row = await shop.row(1)
    assert row["reruns"] == 0
    assert ledger.waits["periodic"]


async def test_look_again_brings_the_next_run_nearer_and_never_puts_it_off(shop: Shop) -> None:
    await shop.register(1, 2)

    def wait(seconds: int) -> toy.Script:
        return lambda _widget, _now: Wait(reason="a while", look_again=timedelta(seconds=seconds))

    async with shop.running(Scripted({1: wait(5), 2: wait(3600)})) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["wait"] == 2)
    assert (await shop.row(1))["ahead"] <= 5 * SECOND
    assert (await shop.row(2))["ahead"] <= 33 * SECOND


async def test_a_terminal_widget_leaves_the_schedule_unless_it_was_woken(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench()

    async def sell(services: object) -> Outcome[Shape, Answer]:
        await bench.act(services)
        return Deleted()

    handler = Scripted(default=lambda _w, _n: Step(name="sell", act=sell, deadline=60 * SECOND, reads_only=False))
    async with shop.running(handler) as (_, ledger):
        await bench.begun.wait()
        await shop.ask(1)
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["deleted"] == 1)
        handler.default = lambda widget, _now: Deleted(writes=answered(widget))
        await ledger.until(lambda: ledger.outcomes["deleted"] == 2)
    assert await shop.row(1) is None
    assert await shop.answers() == [1]


async def test_an_undecodable_row_is_that_row_s_outcome_and_the_others_run(shop: Shop) -> None:
    await shop.register(1, 2, 3)
    await shop.pool.execute("UPDATE farrier_toy.widgets SET state = 'molten' WHERE id = 2")
    handler = Scripted()
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() == 3)
    assert sorted(handler.order) == [1, 3]
    assert ledger.errors == ["undecodable_state"]
    assert (await shop.outcome(2))["error"] == "undecodable_state"
    assert (await shop.row(2))["lane"] == Lane.PERIODIC


async def test_a_schedule_row_without_a_resource_says_so(shop: Shop) -> None:
    await shop.register(1)
    await shop.pool.execute("DELETE FROM farrier_toy.widgets")
    async with shop.running(Scripted()) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() == 1)
    assert "no such resource" in (await shop.outcome(1))["reason"]


async def test_when_all_slots_are_taken_steps_are_put_off_and_healthy_widgets_go_on(shop: Shop) -> None:
    await shop.register(1, 2, 3, 4)
    bench = Bench()
    handler = Scripted({1: bench.script, 2: bench.script})
    one = msgspec.structs.replace(BRISK, max_in_flight=1)
    async with shop.running(handler, config=one) as (_, ledger):
        await bench.begun.wait()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
        assert handler.order[:4] == [1, 2, 3, 4]
        row = await shop.given_back(2)
        assert row["lane"] == Lane.PERIODIC
        assert timedelta(0) < row["ahead"] <= SECOND
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 3)
        await shop.db.advance(2 * SECOND)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 4)


async def test_an_urgent_request_cuts_a_reading_step_short_and_is_answered(shop: Shop) -> None:
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
