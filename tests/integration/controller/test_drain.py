"""Stopping: no new claims, what runs is finished or given back, and the log says in what order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import anyio
import msgspec
from structlog.testing import capture_logs

from farrier.model.outcome import Transition
from farrier.model.runs import Lane
from tests.support.loop import BRISK, PATIENCE, Bench, Ledger, Shop
from tests.support.toy import Answer, Scripted, Shape, State

MADE = Transition[Shape, Answer](to=Shape(State.MADE), reason="it was raw", cause="timer")


async def drains(logs: Sequence[Mapping[str, object]]) -> None:
    """Return once the streams have ended; until then a claim that was under way may still take what it finds."""
    with anyio.fail_after(PATIENCE):
        while not any(line["event"] == "drain.begun" for line in logs):
            await anyio.lowlevel.checkpoint()


async def test_a_step_that_runs_is_finished_and_committed_before_the_end(shop: Shop) -> None:
    await shop.register(1)
    bench, ledger, stop = Bench(MADE), Ledger(), anyio.Event()
    processor = shop.processor(Scripted(default=bench.script), ledger)
    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            group.start_soon(processor.run, stop)
            await bench.begun.wait()
            stop.set()
            await drains(logs)
            assert ledger.moves == []
            bench.let_go.set()
    events = [line["event"] for line in logs]
    phases = [event for event in events if event.startswith(("drain", "state"))]
    assert phases == ["drain.begun", "state.moved", "drain.done"]
    assert ledger.moves == [("raw", "made")]
    assert processor.in_flight == 0
    row = await shop.row(1)
    assert (row["claim_token"], row["lane"]) == (None, Lane.WOKEN)
    assert row["ahead"] <= timedelta(0), "it goes on elsewhere at once"


async def test_a_step_that_does_not_end_is_cut_off_and_its_row_given_back_without_an_error(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    hasty = msgspec.structs.replace(BRISK, drain_timeout=timedelta(milliseconds=50))
    with capture_logs() as logs:
        async with shop.running(Scripted(default=bench.script), config=hasty) as (processor, ledger):
            await bench.begun.wait()
    assert [line["event"] for line in logs] == ["drain.begun", "drain.cut_off", "drain.done"]
    assert bench.cancelled == 1
    assert processor.in_flight == 0
    assert (ledger.outcomes.total(), ledger.errors, ledger.verdicts, ledger.lost_leases) == (0, [], [], 0)
    row = await shop.row(1)
    assert (row["claim_token"], row["lane"]) == (None, Lane.WOKEN)
    assert row["ahead"] <= timedelta(0)


async def test_after_the_stop_nothing_more_is_claimed(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    handler = Scripted({1: bench.script})
    stop = anyio.Event()
    processor = shop.processor(handler, Ledger())
    with capture_logs() as logs:
        async with anyio.create_task_group() as group:
            group.start_soon(processor.run, stop)
            await bench.begun.wait()
            stop.set()
            await drains(logs)
            await shop.register(2)
            await shop.ask(2)
            processor.wake()
            bench.let_go.set()
    assert handler.order == [1]
    assert (await shop.row(2))["claim_token"] is None
