"""Samples of a kind's own metrics: each is counted once, after its commit has succeeded."""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import DoNothing, Outcome, Step, Transition, Wait
from tests.support.loop import QUIET, Shop
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

PAINT = Sample("paint", {"colour": "red"}, 3)


def paint(widget: Widget, _now: datetime) -> Decided:
    if widget.state is State.RAW:
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="timer", samples=(PAINT,))
    return DoNothing(writes=answered(widget))


async def test_a_run_that_is_committed_counts_its_samples(shop: Shop) -> None:
    await shop.register(1, 2)
    async with shop.running(Scripted(default=paint), config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
    assert ledger.samples == [PAINT, PAINT]


async def test_a_run_that_stays_counts_its_samples_too(shop: Shop) -> None:
    await shop.register(1)
    waits: Decided = Wait(reason="it dries", samples=(PAINT,))
    async with shop.running(Scripted(default=lambda _widget, _now: waits), config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["wait"] == 1)
    assert ledger.samples == [PAINT]


async def test_a_run_whose_commit_fails_counts_no_samples(shop: Shop) -> None:
    await shop.register(1)
    decided = 0

    async def act(_services: object) -> Outcome[Shape, Answer]:
        nonlocal decided
        decided += 1
        if decided == 1:
            await shop.pool.execute("UPDATE farrier_toy.widgets SET version = version + 1")
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="step: paint", samples=(PAINT,))

    def handle(widget: Widget, now: datetime) -> Decided:
        if widget.state is State.RAW:
            return Step(name="paint", act=act, deadline=timedelta(seconds=30), reads_only=False)
        return paint(widget, now)

    async with shop.running(Scripted(default=handle), config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert (decided, ledger.verdicts, ledger.samples) == (2, ["conflict"], [PAINT])


async def test_invalid_samples_make_the_run_an_error(shop: Shop) -> None:
    await shop.register(1)
    wrong: Decided = Wait(reason="it dries", samples=PAINT)  # type: ignore[arg-type] # the comma was forgotten
    async with shop.running(Scripted(default=lambda _widget, _now: wrong), config=QUIET) as (_, ledger):
        await ledger.until(lambda: bool(ledger.errors))
    assert (ledger.errors, ledger.samples) == (["garbage"], [])
