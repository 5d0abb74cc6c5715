"""Two clocks: the process's own decides which resources are due, and the database's, which may be moved, dates what
is stored."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from typing_extensions import override

from farrier.model.loop.outcome import Transition
from tests.support.loop import QUIET, Bench, Shop
from tests.support.replica import Replica, at_work
from tests.support.toy import Decided, Scripted, Shape, State, Widget

WIDGETS = range(1, 6)


@pytest.mark.parametrize("hour", [-1, 1])
async def test_a_moved_clock_neither_stops_a_sweep_nor_begins_one(shop: Shop, hour: int) -> None:
    await shop.register(*WIDGETS)
    replica = Replica(shop, config=QUIET)
    outcomes, order = replica.ledger.outcomes, replica.handler.order
    async with at_work(replica):
        await replica.ledger.until(lambda: outcomes.total() == len(WIDGETS))
        await shop.db.advance(timedelta(hours=hour))
        await replica.pass_seconds(20)
        assert len(order) == len(WIDGETS)
        await replica.pass_seconds(14)
        await replica.ledger.until(lambda: outcomes.total() == 2 * len(WIDGETS))
    assert sorted(order[len(WIDGETS) :]) == list(WIDGETS)


class Dated(Scripted):
    """Records the time of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[datetime] = []

    @override
    def handle(self, resource: Widget, now: datetime) -> Decided:
        self.times.append(now)
        return super().handle(resource, now)


async def test_a_run_over_memory_uses_the_new_time_after_the_clock_was_set_ahead(shop: Shop) -> None:
    await shop.register(1)
    handler = Dated()
    replica = Replica(shop, handler, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes.total() == 1)
        await replica.pass_seconds(34)  # the second run loads the outcome of the first
        await replica.ledger.until(lambda: replica.ledger.outcomes.total() == 2)
        await shop.db.advance(timedelta(hours=1))
        await replica.poll()
        await replica.pass_seconds(34)
        await replica.ledger.until(lambda: replica.ledger.outcomes.total() == 3)
    assert handler.times[-1] - handler.times[0] >= timedelta(hours=1)


async def test_the_next_run_is_not_delayed_when_the_clock_is_set_back(shop: Shop) -> None:
    """The loop remembers the outcome's time by the former clock; the next run is not delayed until that time."""
    await shop.register(1)
    replica = Replica(shop, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes.total() == 1)
        await shop.db.advance(-timedelta(hours=1))
        asked = await shop.ask(1)
        replica.controller.woken("widget", [1])
        await replica.ledger.until(lambda: replica.ledger.outcomes.total() == 2)
    assert asked and await shop.answers() == [1]
    assert min(replica.ledger.waits) >= 0


async def test_the_time_in_a_state_includes_the_step_that_ended_it(shop: Shop) -> None:
    await shop.register(1)
    step = timedelta(seconds=8)
    bench = Bench(Transition(to=Shape(State.MADE), reason="it was raw", cause="timer"))
    async with shop.running(Scripted(default=bench.script)) as (_, ledger):
        await bench.begun.wait()
        entered = (await shop.widget(1))["entered_at"]
        await shop.db.advance(step)
        bench.let_go.set()
        await ledger.until(lambda: bool(ledger.moves))
    (record,) = await shop.pool.fetch("SELECT * FROM farrier.history WHERE kind = 'widget' AND from_value IS NOT NULL")
    whole = (record["at"] - entered).total_seconds()
    assert whole >= step.total_seconds()
    assert record["seconds_in_source"] == whole
    assert ledger.seconds_in_source == [whole]
