"""A snapshot in memory can only show that nothing is to be done; a resync finds changes that had no wake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import anyio
import msgspec
import pytest
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.model.loop.controllers import SHARDS, ListedResources
from farrier.model.loop.outcome import DoNothing, Outcome, Step, Transition, Wait
from farrier.model.loop.runs import CommitResult, Finished, Loaded
from tests.support import pg, proxy, toy
from tests.support.loop import QUIET, Bench, Shop, WidgetIO
from tests.support.replica import Replica, at_work
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

A_PERIOD = 34.0
NEVER_AGAIN = msgspec.structs.replace(QUIET, resync=timedelta(days=1))
# Shorter than the time without a renewal after which a controller gives its shards back.
BRIEF = msgspec.structs.replace(QUIET, resync=timedelta(seconds=20))


class Counting(WidgetIO):
    """Storage that records its statements."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self.statements: list[str] = []

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Widget]:
        self.statements.append("load")
        return await super().load(ids)

    @override
    async def commit(self, runs: Sequence[Finished[Shape, Answer]], controller: UUID) -> Mapping[int, CommitResult]:
        self.statements.append("commit")
        return await super().commit(runs, controller)

    @override
    async def consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        self.statements.append("consume")
        await super().consume(wakes)


class Unlisted(WidgetIO):
    """Storage that records the shards that it lists. While `fail` is positive, a listing fails."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self.fail = 0
        self.shards: set[int] = set()

    @override
    async def listing(self, shards: Sequence[int]) -> ListedResources:
        if self.fail:
            self.fail -= 1
            raise DatabaseUnreachable("the test", "away")
        self.shards |= set(shards)
        return await super().listing(shards)


def rests(_widget: Widget, _now: datetime) -> Decided:
    return Wait(reason="for Godot", rests=True, source="here:1")


async def test_a_resource_at_rest_is_run_each_period_without_a_statement(shop: Shop) -> None:
    await shop.register(*range(1, 101))
    io, handler = Counting(shop), Scripted(default=rests)
    replica = Replica(shop, handler, io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 100)
        await replica.pass_seconds(A_PERIOD)  # each widget whose outcome was written is loaded once more
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 200)
        before = len(io.statements), await shop.pool.fetchval("SELECT max(at) FROM farrier.outcomes")
        for sweep in (3, 4, 5):
            await replica.pass_seconds(A_PERIOD)
            await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 100 * sweep)  # noqa: B023
        assert (len(io.statements), await shop.pool.fetchval("SELECT max(at) FROM farrier.outcomes")) == before
    assert len(handler.order) == 500


async def test_a_decision_over_memory_is_replaced_by_one_over_a_fresh_snapshot(shop: Shop) -> None:
    """The row was changed by hand: by the snapshot in memory the widget would be made, by the fresh one it is sold."""
    await shop.register(1)
    replica = Replica(shop, Scripted(default=rests), config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 1)
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 2)
        await shop.pool.execute("UPDATE farrier_toy.widgets SET state = 'made', version = 7")
        seen: list[State] = []

        def act_on_it(widget: Widget, now: datetime) -> Decided:
            seen.append(widget.state)
            if widget.state is State.SOLD:
                return rests(widget, now)
            to = State.MADE if widget.state is State.RAW else State.SOLD
            return Transition(to=Shape(to), reason="r", cause="c")

        replica.handler.default = act_on_it
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: bool(replica.ledger.moves))
    assert seen[:2] == [State.RAW, State.MADE]
    assert await shop.history(1) == [("made", "sold")]


async def test_an_invalid_outcome_over_memory_affects_only_its_run(shop: Shop) -> None:
    """Both outcomes come from the same line and differ only in the delay, which is invalid the second time."""
    await shop.register(1)
    delay: list[Any] = [None]

    def soon(_widget: Widget, _now: datetime) -> Decided:
        return DoNothing(requeue_after=delay[0])

    replica = Replica(shop, Scripted(default=soon), config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
        delay[0] = 5
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["error"] == 1)
    assert replica.ledger.errors == ["internal"]


async def test_a_step_that_memory_decides_does_not_begin_before_a_load(shop: Shop) -> None:
    await shop.register(1)
    io = Counting(shop)
    replica, bench = Replica(shop, Scripted(default=rests), io=io, config=NEVER_AGAIN), Bench()
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 1)
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 2)
        loads = io.statements.count("load")
        replica.handler.default = bench.script
        await replica.pass_seconds(A_PERIOD)
        await bench.begun.wait()
        assert io.statements.count("load") == loads + 1
        replica.handler.default = rests
        bench.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)


async def test_a_reading_step_with_an_unchanged_outcome_runs_each_period(shop: Shop) -> None:
    await shop.register(1)

    async def look(_services: object) -> Outcome[Shape, Answer]:
        return DoNothing(source="look:1")

    step = Step[Shape, Answer, object](name="look", act=look, deadline=timedelta(seconds=9), reads_only=True)
    replica = Replica(shop, Scripted(default=lambda _widget, _now: step), config=NEVER_AGAIN)
    async with at_work(replica):
        for runs in range(1, 5):
            await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == runs)  # noqa: B023
            await replica.pass_seconds(A_PERIOD)
    assert replica.controller.in_flight == 0


async def test_a_wake_during_a_step_outlives_its_commit_and_leads_to_another_run(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench()
    replica = Replica(shop, Scripted({1: bench.script}), config=NEVER_AGAIN)
    async with at_work(replica):
        await bench.begun.wait()
        await shop.ask(1)
        replica.handler.scripts.clear()
        bench.let_go.set()
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
        assert await shop.wakes(1) == 1
        replica.controller.heard_nothing()
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 2)
    assert await shop.answers() == [1]
    assert await shop.wakes(1) == 0


async def test_rows_inserted_or_changed_by_hand_are_found_by_the_resync(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 2)
        await shop.pool.execute("INSERT INTO farrier_toy.widgets (id) VALUES (2)")
        await shop.pool.execute("INSERT INTO farrier_toy.requests (widget) VALUES (1)")
        await shop.pool.execute("DELETE FROM farrier.wakes")
        replica.clock.advance(QUIET.resync)
        await replica.round()
        await replica.ledger.until(lambda: 2 in replica.handler.order and replica.ledger.outcomes.total() >= 4)
    assert await shop.answers() == [1]


async def test_a_resync_whose_listing_failed_is_repeated_by_the_next_round(shop: Shop) -> None:
    io = Unlisted(shop)
    replica = Replica(shop, config=BRIEF, io=io)
    async with at_work(replica):
        await shop.pool.execute("INSERT INTO farrier_toy.widgets (id) VALUES (2)")
        io.shards.clear()
        io.fail = 1
        replica.clock.advance(BRIEF.resync)
        while io.fail:
            await replica.round()
        await replica.round()
        assert io.shards == set(range(SHARDS))
        await replica.ledger.until(lambda: replica.handler.order == [2])


async def test_requests_whose_wakes_a_server_crash_lost_are_found_after_its_restart(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, config=NEVER_AGAIN)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
        await replica.poll()
        assert replica.rounds.floors[-1] != "0"
        await shop.ask(1)
        await shop.pool.execute("DELETE FROM farrier.wakes")
        replica.rounds.restarts += 1
        await replica.round()
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 2)
        asked = len(replica.rounds.floors)
        await replica.poll()
    assert await shop.answers() == [1]
    assert replica.rounds.floors[asked] == "0"


async def test_a_resource_that_was_deleted_by_hand_is_forgotten(shop: Shop) -> None:
    await shop.register(1)
    replica = Replica(shop, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 1)
        await shop.ask(1)
        await shop.pool.execute("DELETE FROM farrier_toy.widgets")
        replica.controller.heard_nothing()
        with anyio.fail_after(20):
            while len(replica.loop.agenda) or await shop.wakes(1):
                await anyio.lowlevel.checkpoint()
    assert replica.ledger.errors == []


async def test_every_step_is_marked_from_before_its_begin_until_its_end_is_recorded(
    shop: Shop,
) -> None:
    await shop.register(1, 2)
    marked: dict[int, str | None] = {}

    def script(widget: Widget, now: datetime) -> Decided:
        async def act(_services: object) -> Outcome[Shape, Answer]:
            marked[widget.id] = await shop.marked(widget.id)
            return DoNothing(writes=answered(widget))

        if widget.id in marked:
            return rests(widget, now)
        return Step(name="work", act=act, deadline=timedelta(seconds=9), reads_only=widget.id == 2)

    replica = Replica(shop, Scripted(default=script), config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] == 2)
        assert marked == {1: "work", 2: "work"}
        await shop.db.until("SELECT NOT EXISTS (SELECT FROM farrier.effects)")


async def test_a_snapshot_that_cannot_be_decoded_stops_only_its_own_resource(shop: Shop) -> None:
    await shop.register(1, 2)
    await shop.pool.execute("UPDATE farrier_toy.widgets SET state = 'molten' WHERE id = 2")
    replica = Replica(shop, config=QUIET)
    async with at_work(replica):
        await replica.ledger.until(lambda: replica.ledger.outcomes.total() == 2)
        assert (replica.handler.order, replica.ledger.errors) == ([1], ["undecodable_state"])
        await shop.pool.execute("UPDATE farrier_toy.widgets SET state = 'raw' WHERE id = 2")
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: 2 in replica.handler.order)


@pytest.mark.parametrize("executed", [True, False])
async def test_a_resource_whose_commit_got_no_reply_does_not_run_until_it_is_settled(
    shop: Shop, executed: bool
) -> None:
    await shop.register(1)

    def make(widget: Widget, now: datetime) -> Decided:
        if widget.state is not State.RAW:
            return rests(widget, now)
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="timer")

    async with proxy.before(shop.db.dsn) as between, pg.Database(between.dsn).pool(2) as pool:
        between.cut_after(b"it was raw" if executed else b"farrier.begin_commit")
        handler = Scripted(default=make)
        replica = Replica(shop, handler, io=shop.io(pool=pool), config=QUIET)
        async with at_work(replica):
            await replica.ledger.until(lambda: replica.ledger.verdicts == ["unknown"])
            assert handler.order == [1]
            await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 1)
        assert between.cuts == 1
    assert await shop.history(1) == [("raw", "made")]
    assert replica.ledger.moves == [("raw", "made")]
    assert handler.order == ([1, 1] if executed else [1, 1, 1])
