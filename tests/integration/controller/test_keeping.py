"""A run that moved goes on at once under a claim that its own commit made: no other may come between, nothing that was
asked for is passed over, and whoever crashes gives it up like any other claim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import assert_never
from uuid import uuid4

import anyio
from typing_extensions import override

from farrier.model.outcome import DoNothing, Step, Transition, Update
from farrier.model.runs import Claim, Finished, Lane, Loaded, Result, Verdict, new_token
from tests.support import pg, proxy, toy
from tests.support.clock import HandClock
from tests.support.held import Held, hold
from tests.support.loop import BRISK, Bench, Shop, WidgetIO
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget

SECOND = timedelta(seconds=1)

MADE = Transition[Shape, Answer](to=Shape(State.MADE), reason="it was raw", cause="timer")
SOLD = Transition[Shape, Answer](to=Shape(State.SOLD), reason="a buyer", cause="timer")


async def test_the_row_of_a_transition_stays_claimed_by_the_same_controller_for_a_lease(shop: Shop) -> None:
    held, token = await hold(shop, 1), new_token()
    result = (await held.io.commit([held.finish(1, MADE)], keep=token))[1]
    row = await shop.row(1)
    assert (row["owner"], row["claim_token"], row["lane"], row["reruns"]) == (held.io.owner, token, Lane.WOKEN, 1)
    assert 10 * SECOND < row["ahead"] <= BRISK.lease
    assert result.verdict is Verdict.COMMITTED and not result.again
    assert result.kept is not None
    assert (result.kept.id, result.kept.reruns, result.kept.taken_over) == (1, 1, False)
    assert result.kept.outcome_key == row["outcome_key"]


async def test_nobody_else_gets_it_until_the_lease_ends_and_then_it_is_known_to_be_taken_over(shop: Shop) -> None:
    held = await hold(shop, 1)
    await held.io.commit([held.finish(1, MADE)], keep=new_token())
    other = shop.io()
    assert (await other.claim(Lane.WOKEN, 10, None)).rows == ()
    await shop.db.advance(BRISK.lease + SECOND)
    (row,) = (await other.claim(Lane.WOKEN, 10, None)).rows
    assert (row.id, row.taken_over) == (1, True)


async def test_only_what_runs_again_at_once_is_kept(shop: Shop) -> None:
    held = await hold(shop, 1, 2, 3)
    runs = (
        held.finish(1, MADE),
        held.finish(2, Update(to=Shape(State.RAW, "later"), reason="a new deadline")),
        held.finish(3, DoNothing()),
    )
    results = await held.io.commit(runs, keep=new_token())
    assert [id_ for id_, result in results.items() if result.kept is not None] == [1]
    assert [(await shop.row(id_))["claim_token"] is None for id_ in (1, 2, 3)] == [False, True, True]


async def test_what_woke_it_during_the_run_is_seen_by_the_next_and_does_not_cost_one_more(shop: Shop) -> None:
    held, token = await hold(shop, 1), new_token()
    asked = await shop.ask(1)
    result = (await held.io.commit([held.finish(1, MADE)], keep=token))[1]
    assert result.kept is not None
    widget = (await held.io.load([1])).resources[1]
    assert widget.requests == (asked,)
    again = Held(held.io, Claim(token, Lane.WOKEN, (result.kept,), held.claim.floor), {1: widget})
    answered = again.finish(1, DoNothing(writes=(Answer(asked),)))
    assert not (await held.io.commit([answered]))[1].again


async def test_what_wakes_it_after_the_commit_makes_it_due_when_the_next_run_ends(shop: Shop) -> None:
    held, token = await hold(shop, 1), new_token()
    result = (await held.io.commit([held.finish(1, MADE)], keep=token))[1]
    assert result.kept is not None
    widget = (await held.io.load([1])).resources[1]
    await shop.ask(1)
    again = Held(held.io, Claim(token, Lane.WOKEN, (result.kept,), held.claim.floor), {1: widget})
    assert (await held.io.commit([again.finish(1, DoNothing())]))[1].again


async def test_a_row_that_is_another_s_by_now_is_neither_committed_nor_kept(shop: Shop) -> None:
    held, token = await hold(shop, 1), new_token()
    await shop.db.advance(BRISK.lease + SECOND)
    theirs = await shop.io().claim(Lane.WOKEN, 10, None)
    result = (await held.io.commit([held.finish(1, MADE)], keep=token))[1]
    assert (result.verdict, result.kept) == (Verdict.LOST, None)
    assert (await shop.row(1))["claim_token"] == theirs.token


async def test_a_commit_whose_reply_is_lost_is_known_to_have_kept_the_row(shop: Shop) -> None:
    async with proxy.before(shop.db.dsn) as between, pg.Database(between.dsn).pool(2) as pool:
        held, token = await hold(shop, 1, io=shop.io(pool=pool)), new_token()
        between.cut_after(b"it was raw")
        result = (await held.io.commit([held.finish(1, MADE)], keep=token))[1]
        assert between.cuts == 1
    assert result.verdict is Verdict.COMMITTED
    assert result.kept is not None and result.kept.reruns == 1
    assert (await shop.row(1))["claim_token"] == token


async def test_nor_is_one_that_moved_nothing_but_looks_again_at_once(shop: Shop) -> None:
    async with proxy.before(shop.db.dsn) as between, pg.Database(between.dsn).pool(2) as pool:
        held, token = await hold(shop, 1, io=shop.io(pool=pool)), new_token()
        between.cut_after(b"a new deadline")
        later = Update[Shape, Answer](to=Shape(State.RAW, "later"), reason="a new deadline", look_again=timedelta(0))
        result = (await held.io.commit([held.finish(1, later)], keep=token))[1]
        assert between.cuts == 1
    assert result.verdict is Verdict.COMMITTED
    assert result.kept is not None
    assert (await shop.row(1))["claim_token"] == token


class Counting(WidgetIO):
    """Storage that notes what the loop asks for, in order."""

    asked: list[str]

    @override
    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        claim = await super().claim(lane, limit, floor)
        if claim.rows:
            self.asked.append("claim")
        return claim

    @override
    async def renew(self, tokens: Mapping[int, int]) -> frozenset[int]:
        self.asked.append("renew")
        return await super().renew(tokens)


def through_its_life(widget: Widget, _now: datetime) -> Decided:
    """Raw, made, sold; the last by a step."""

    async def sell(_services: object) -> Transition[Shape, Answer]:
        return SOLD

    match widget.state:
        case State.RAW:
            return MADE
        case State.MADE:
            return Step(name="sell", act=sell, deadline=10 * SECOND, reads_only=False)
        case State.SOLD:
            return DoNothing()
        case _ as never:
            assert_never(never)


async def test_a_widget_goes_through_its_life_under_one_claim_and_its_steps_need_no_other_proof_of_it(
    shop: Shop,
) -> None:
    await shop.register(1)
    io = Counting(shop.pool, toy.WidgetRows(), owner=uuid4(), lease=BRISK.lease)
    io.asked = []
    async with shop.running(Scripted(default=through_its_life), io=io) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert await shop.history(1) == [("raw", "made"), ("made", "sold")]
    assert io.asked == ["claim"]


class Hanging(WidgetIO):
    """Storage whose second commit of several takes longer than a lease, by this process's clock."""

    clock: HandClock
    commits = 0

    @override
    async def commit(
        self, runs: Sequence[Finished[Shape, Answer]], *, patient: bool = False, keep: int | None = None
    ) -> Mapping[int, Result]:
        self.commits += 1
        if self.commits == 2:
            self.clock.advance(BRISK.lease + SECOND)
        return await super().commit(runs, patient=patient, keep=keep)


async def test_a_step_does_not_begin_on_a_lease_that_ran_out_while_others_were_committed(shop: Shop) -> None:
    """Decided in one pass: the first widget is sold, the second waits for a step; the commit of the first hangs."""
    await shop.register(1, 2)
    clock, bench = HandClock(), Bench(SOLD)
    io = Hanging(shop.pool, toy.WidgetRows(), owner=uuid4(), lease=BRISK.lease)
    io.clock = clock

    def script(widget: Widget, now: datetime) -> Decided:
        if widget.state is State.MADE:
            return SOLD if widget.id == 1 else bench.script(widget, now)
        return MADE if widget.state is State.RAW else DoNothing()

    async with shop.running(Scripted(default=script), io=io, clock=clock) as (_, ledger):
        await ledger.until(lambda: ("made", "sold") in ledger.moves)
        row = await shop.given_back(2)
        assert not bench.begun.is_set()
        assert row["ahead"] > timedelta(0)
        await shop.db.advance(2 * SECOND)
        await bench.begun.wait()
        bench.let_go.set()
        await ledger.until(lambda: ledger.moves.count(("made", "sold")) == 2)


class OneLocked(WidgetIO):
    """Storage in which somebody locks widget 1's row after the first claim, until the others are through."""

    others: anyio.Event
    lock: Callable[[], Awaitable[object]]
    loads = 0
    was_last = False

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Widget]:
        self.loads += 1
        if self.loads == 1:
            await self.lock()
        return await super().load(ids)

    @override
    async def commit(
        self, runs: Sequence[Finished[Shape, Answer]], *, patient: bool = False, keep: int | None = None
    ) -> Mapping[int, Result]:
        if patient:
            await self.others.wait()  # cut off, with the commit, after its ten seconds
            self.was_last = True
        return await super().commit(runs, patient=patient, keep=keep)


async def test_a_large_pass_goes_on_without_the_row_that_somebody_holds(shop: Shop) -> None:
    many = 200
    await shop.register(*range(1, many + 1))
    io = OneLocked(shop.pool, toy.WidgetRows(), owner=uuid4(), lease=BRISK.lease)
    io.others = anyio.Event()

    def script(widget: Widget, _now: datetime) -> Decided:
        return MADE if widget.state is State.RAW else DoNothing()

    async with shop.db.connect() as somebody:
        held = somebody.transaction()
        await held.start()
        io.lock = lambda: somebody.execute("SELECT FROM farrier.schedule WHERE id = 1 FOR UPDATE")
        async with shop.running(Scripted(default=script), io=io) as (_, ledger):
            await ledger.until(lambda: ledger.outcomes["do_nothing"] == many - 1)
            await held.rollback()
            io.others.set()
            await ledger.until(lambda: ledger.outcomes["do_nothing"] == many)
    assert io.was_last, "the others waited for it"
    assert ledger.moves == [("raw", "made")] * many
