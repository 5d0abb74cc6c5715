"""Commits that happened although their replies were lost: the controller settles them, and goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import anyio
from typing_extensions import override

from farrier.model.loop.outcome import Transition
from farrier.model.loop.runs import CommitResult, CommitVerdict, Finished, Settled
from tests.integration.controller.test_marks import Redoing, leave_a_mark, until_none
from tests.support import pg, proxy, toy
from tests.support.loop import QUIET, Bench, Shop, WidgetIO
from tests.support.toy import MADE, Answer, Decided, Scripted, Shape, State, Widget

SOLD = Transition[Shape, Answer](to=Shape(State.SOLD), reason="it was made", cause="timer")


class Losing(WidgetIO):
    """Storage that makes every commit, and loses the replies to the first `lose` commits that hold a run with this
    outcome. After a lost reply, the commits have also changed the widgets if `changed` is set."""

    def __init__(self, shop: Shop, outcome: str, *, lose: int, changed: bool = False) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self._outcome = outcome
        self._lose = lose
        self._changed = changed
        self.holds: set[int] = set()  # the widgets whose settling waits until `let_go` is set
        self.held, self.let_go = anyio.Event(), anyio.Event()

    @override
    async def commit(self, runs: Sequence[Finished[Shape, Answer]], controller: UUID) -> Mapping[int, CommitResult]:
        results = await super().commit(runs, controller)
        if self._lose == 0 or all(run.outcome != self._outcome for run in runs):
            return results
        self._lose -= 1
        if self._changed:
            for run in runs:
                await self._pool.execute(
                    "UPDATE farrier_toy.widgets SET commit_id = $2 WHERE id = $1", run.id, run.commit_id
                )
        return {run.id: CommitResult(CommitVerdict.UNKNOWN) for run in runs}

    @override
    async def settle(self, runs: Sequence[Finished[Shape, Answer]]) -> Mapping[int, Settled]:
        if self.holds & {run.id for run in runs}:
            self.held.set()
            await self.let_go.wait()
        return await super().settle(runs)


def goes_on(widget: Widget, now: datetime) -> Decided:
    """Make a raw widget, sell a made one, and leave a sold one alone."""
    return {State.RAW: MADE, State.MADE: SOLD}.get(widget.state) or toy.content(widget, now)


# --- steps


async def test_a_step_whose_commit_happened_is_not_recovered_although_the_reply_was_lost(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    handler = Redoing(bench.script)
    async with (
        proxy.before(shop.db.dsn) as between,
        pg.Database(between.dsn).pool(2) as pool,
        shop.running(handler, io=shop.io(pool=pool), config=QUIET) as (_, ledger),
    ):
        await bench.begun.wait()
        handler.default = toy.content
        between.cut_after(b"it was raw")
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
        await until_none(shop)
    assert between.cuts == 1
    assert ledger.moves == [("raw", "made")]
    assert handler.recovered == []


async def test_a_failed_recovery_is_repeated_although_it_was_committed_without_a_reply(shop: Shop) -> None:
    """A commit of a failure does not change the widget, so the test writes into the widget that the commit happened."""
    await shop.register(1)
    await leave_a_mark(shop, 1)
    handler, io = Redoing(toy.content, fail=1), Losing(shop, "error", lose=1, changed=True)
    async with shop.running(handler, io=io, config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
        await until_none(shop)
    assert handler.recovered == ["other", "other"]


# --- publication


async def test_a_settled_run_is_published_once_although_the_next_reply_is_lost_as_well(shop: Shop) -> None:
    await shop.register(1)
    io = Losing(shop, "transition", lose=2)
    async with shop.running(Scripted(default=goes_on), io=io, config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert ledger.moves == [("raw", "made"), ("made", "sold")]


async def test_a_reply_that_is_lost_while_others_are_settled_is_settled_next(shop: Shop) -> None:
    await shop.register(1)
    io = Losing(shop, "transition", lose=2)
    io.holds = {1}
    async with shop.running(Scripted(default=goes_on), io=io, config=QUIET) as (controller, ledger):
        await io.held.wait()
        await shop.register(2)
        controller.woken(toy.KIND, [2])
        await ledger.until(lambda: ledger.verdicts.count("unknown") == 2)
        io.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
    assert sorted(ledger.moves) == sorted([("raw", "made"), ("made", "sold")] * 2)
