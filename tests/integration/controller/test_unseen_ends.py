"""Steps whose end was not recorded: their `if_interrupted` is committed, and the next run of the resource recovers."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from farrier.model.loop.outcome import Update, Wait
from tests.support import toy
from tests.support.loop import BRISK, QUIET, Bench, Shop
from tests.support.owners import declared_dead
from tests.support.replica import Replica, at_work
from tests.support.toy import CUT, MADE, Careful, Scripted, Shape

SECOND = timedelta(seconds=1)

MARK = '{"1": {"step": "work", "begun_at": "2026-01-01T00:00:00Z"}}'


async def crash(shop: Shop, *widgets: int) -> None:
    """Start steps of these widgets in a controller that crashes, and declare it dead."""
    await shop.register(*widgets)
    bench = Bench(MADE)
    doomed = Replica(shop, Scripted(default=bench.script))
    async with at_work() as group:
        await doomed.start(group)
        await bench.begun.wait()
        await shop.db.until("SELECT count(*) = $1 FROM farrier.effects", len(widgets))
        id_ = doomed.id
        await doomed.crash()
    await declared_dead(shop.pool, id_)


# --- the next run accounts for it


async def test_a_widget_whose_process_died_is_recovered_once_and_then_handled_like_any_other(shop: Shop) -> None:
    await crash(shop, 1, 2, 3)
    handler = Careful()
    async with shop.running(handler, config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 3)
    assert sorted(handler.recovered) == [(1, "work"), (2, "work"), (3, "work")]
    assert sorted(handler.order) == [1, 2, 3]
    assert (await shop.widget(1))["payload"] == "recovered"
    assert await shop.marked(1) is None


async def test_a_handler_without_a_recovery_decides_as_usual(shop: Shop) -> None:
    await crash(shop, 1)
    handler = Scripted()
    async with shop.running(handler, config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert handler.order == [1]
    assert await shop.marked(1) is None


async def test_a_mark_without_a_step_is_recovered_although_its_shard_was_given_back(shop: Shop) -> None:
    """A statement whose reply was lost may leave such a mark."""
    await shop.register(1, 2)
    await shop.pool.execute(f"INSERT INTO farrier.marks VALUES (gen_random_uuid(), 'widget', 1, '{MARK}')")
    handler = Careful()
    async with shop.running(handler, config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 2)
    assert handler.recovered == [(1, "work")]
    assert await shop.marked(1) is None


async def test_a_widget_is_not_recovered_after_a_commit_an_interruption_or_a_stop_between_steps(shop: Shop) -> None:
    await shop.register(1)
    handler = Careful()
    bench = Bench(reads_only=True)
    async with shop.running(handler) as (controller, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 1)
        handler.default = bench.script
        await shop.ask(1)
        await bench.begun.wait()
        handler.default = toy.content
        before = ledger.outcomes["do_nothing"]
        await shop.ask(1, urgent=True)
        controller.heard_nothing()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] > before)
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 1)
    assert bench.cancelled == 1
    assert handler.recovered == []


async def test_a_step_that_the_stop_cut_is_recovered_by_the_next_process(shop: Shop) -> None:
    await shop.register(1)
    bench, handler = Bench(MADE), Careful()
    hasty = msgspec.structs.replace(BRISK, drain_timeout=timedelta(0))
    async with shop.running(Scripted(default=bench.script), config=hasty):
        await bench.begun.wait()
    assert bench.cancelled == 1
    async with shop.running(handler) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 1)
    assert handler.recovered == [(1, "work")]


# --- what a step keeps when it is interrupted


async def test_if_interrupted_is_committed_when_an_intent_interrupts_the_step(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE, reads_only=True, if_interrupted=CUT)
    handler = Scripted(default=bench.script)
    async with shop.running(handler) as (controller, ledger):
        await bench.begun.wait()
        handler.default = toy.content
        await shop.ask(1, urgent=True)
        controller.heard_nothing()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert bench.cancelled == 1
    assert ledger.outcomes["update"] == 1
    assert (await shop.widget(1))["payload"] == "cut"
    assert await shop.answers() == [1]
    assert (ledger.errors, ledger.verdicts) == ([], [])


async def test_if_interrupted_is_committed_when_the_process_stops(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE, if_interrupted=CUT)
    hasty = msgspec.structs.replace(BRISK, drain_timeout=timedelta(milliseconds=50))
    async with shop.running(Scripted(default=bench.script), config=hasty) as (controller, ledger):
        await bench.begun.wait()
    assert controller.in_flight == 0
    assert (ledger.outcomes, ledger.errors) == ({"update": 1}, [])
    assert (await shop.widget(1))["payload"] == "cut"
    assert await shop.marked(1) is None


@pytest.mark.parametrize("ends", ["by its deadline", "by an error"])
async def test_if_interrupted_is_committed_when_the_step_fails_and_the_error_is_reported(shop: Shop, ends: str) -> None:
    await shop.register(1)
    bench = Bench(
        MADE, if_interrupted=CUT, deadline=timedelta(milliseconds=20 if ends == "by its deadline" else 60_000)
    )
    handler = Scripted({1: bench.script})
    async with shop.running(handler) as (_, ledger):
        if ends == "by an error":
            bench.raises = ValueError("of all things")
            bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes.total() == 1)
        stored = await shop.outcome(1)
        handler.scripts.clear()
        await shop.ask(1)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 1)
    label = "timeout" if ends == "by its deadline" else "internal"
    assert (stored["outcome"], stored["error"]) == ("error", label)
    assert set(ledger.errors) == {label}
    assert (await shop.widget(1))["payload"] == "cut"
    assert (await shop.widget(1))["state"] == "raw"


async def test_if_interrupted_is_not_committed_when_the_step_ends(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE, if_interrupted=CUT)
    handler = Scripted({1: bench.script})
    async with shop.running(handler) as (_, ledger):
        await bench.begun.wait()
        handler.scripts.clear()
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert ledger.moves == [("raw", "made")]
    assert (await shop.widget(1))["payload"] == ""


# --- updates that leave the outcome alone


async def test_a_quiet_update_is_stored_and_keeps_the_outcome_of_the_last_run(shop: Shop) -> None:
    await shop.register(1)
    handler = Scripted(default=lambda w, _: Wait(reason="waits for paint", writes=toy.answered(w)))
    async with shop.running(handler, config=QUIET) as (controller, ledger):
        await ledger.until(lambda: ledger.outcomes["wait"] == 1)
        handler.scripts[1] = lambda w, _: Update(
            to=Shape(w.state, "dusted"), reason="dusted", quiet=True, writes=toy.answered(w)
        )
        await shop.ask(1)
        controller.woken(toy.KIND, [1])
        await ledger.until(lambda: ledger.outcomes["update"] == 1)
        assert (await shop.outcome(1))["reason"] == "waits for paint"
        assert (await shop.widget(1))["payload"] == "dusted"
        before = await shop.pool.fetchval("SELECT at FROM farrier.outcomes WHERE kind = 'widget' AND id = 1")
        handler.scripts.clear()
        await shop.db.advance(SECOND)
        await shop.ask(1)
        controller.woken(toy.KIND, [1])
        await ledger.until(lambda: ledger.outcomes["wait"] == 2)
    after = await shop.pool.fetchval("SELECT at FROM farrier.outcomes WHERE kind = 'widget' AND id = 1")
    assert after == before, "the outcome keeps the time since which it waits"
