"""The log of a run: each change, each answer and each error once, with constant event names, ids and names."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from farrier.controller import loop, runner
from farrier.errors import ServiceError
from farrier.model.loop.outcome import DoNothing, Step, Transition
from tests.support.loop import PATIENCE, Shop
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

COUNTED = {"kind": "widget", "action": "count", "verdict": "accepted", "reason": "", "requested_by": None}


async def no_answer(_services: object) -> Any:
    raise ServiceError(service="bmc", operation="probe", detail="no answer")


def fail(_widget: Widget, _now: datetime) -> Decided:
    return Step[Shape, Answer, object](name="probe", act=no_answer, deadline=timedelta(seconds=9), reads_only=True)


async def test_a_transition_is_logged_in_one_line_with_its_cause(shop: Shop) -> None:
    def make(widget: Widget, _now: datetime) -> Decided:
        if widget.state is not State.RAW:
            return DoNothing()
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="timer")

    with capture_logs() as logged:
        async with shop.running(Scripted(default=make)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: bool(ledger.moves))
    (line,) = [line for line in logged if line["event"] == "state.moved"]
    assert line["log_level"] == "info"
    assert (line["kind"], line["id"], line["name"], line["layer"]) == ("widget", 1, "widget-1", "state")
    assert (line["source"], line["target"], line["reason"], line["cause"]) == ("raw", "made", "it was raw", "timer")


async def test_a_decision_during_which_the_process_stood_still_is_logged_with_its_resource(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "BLOCKED", 0.0)
    with capture_logs() as logged:
        async with shop.running(Scripted()) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: ledger.outcomes.total() >= 1)
    line = next(line for line in logged if line["event"] == "handler.blocked")
    assert (line["log_level"], line["kind"], line["id"], line["name"]) == ("warning", "widget", 1, "widget-1")


async def test_a_step_during_which_the_process_stood_still_is_logged_with_its_resource(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BLOCKED", 0.0)
    with capture_logs() as logged:
        async with shop.running(Scripted(default=fail)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: bool(ledger.errors))
    line = next(line for line in logged if line["event"] == "step.blocked")
    assert (line["log_level"], line["kind"], line["id"], line["name"]) == ("warning", "widget", 1, "widget-1")
    assert line["step"] == "probe"


async def test_only_a_step_that_ignores_its_deadline_is_logged_as_overdue(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_ENDS_WITHIN", 0.0)
    reported = anyio.Event()

    async def ignore(_services: object) -> Any:
        with anyio.CancelScope(shield=True):
            while not any(line["event"] == "step.overdue" for line in logged):
                await anyio.lowlevel.checkpoint()
        reported.set()
        await anyio.sleep_forever()

    async def end_at_once(_services: object) -> Any:
        return DoNothing()

    def act(widget: Widget, _now: datetime) -> Decided:
        do = ignore if widget.id == 2 else end_at_once
        return Step[Shape, Answer, object](name="deaf", act=do, deadline=timedelta(0, 0.05), reads_only=True)

    with capture_logs() as logged:
        async with shop.running(Scripted(default=act)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: ledger.outcomes.total() >= 1)
            await shop.register(2)
            with anyio.fail_after(PATIENCE):
                await reported.wait()
    (line,) = [line for line in logged if line["event"] == "step.overdue"]
    assert (line["kind"], line["id"], line["name"], line["step"]) == ("widget", 2, "widget-2", "deaf")


async def test_a_step_that_cancels_itself_is_logged_with_its_resource(shop: Shop) -> None:
    async def cancel(_services: object) -> Any:
        raise asyncio.CancelledError

    step = Step[Shape, Answer, object](name="odd", act=cancel, deadline=timedelta(seconds=9), reads_only=True)
    with capture_logs() as logged:
        async with shop.running(Scripted(default=lambda _widget, _now: step)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: bool(ledger.errors))
    line = next(line for line in logged if line["event"] == "handler.crashed")
    assert (line["id"], line["name"], str(line["exc_info"])) == (1, "widget-1", "the step cancelled itself")


async def test_each_error_is_logged_in_one_line_with_its_label_and_text(shop: Shop) -> None:
    with capture_logs() as logged:
        async with shop.running(Scripted(default=fail)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: bool(ledger.errors))
            await shop.pool.execute("SELECT farrier.enqueue('widget', 1)")
            await ledger.until(lambda: len(ledger.errors) > 1)
    lines = [line for line in logged if line["event"] == "run.failed"]
    assert len(lines) == len(ledger.errors) > 1
    for line in lines:
        assert (line["log_level"], line["kind"], line["id"], line["name"]) == ("warning", "widget", 1, "widget-1")
        assert line["label"] == "service"
        assert "no answer" in line["error"]


async def test_log_lines_during_a_step_have_the_kind_id_and_name_of_its_resource(shop: Shop) -> None:
    found: dict[str, Any] = {}

    async def look(_services: object) -> Any:
        found.update(structlog.contextvars.get_contextvars())
        return DoNothing()

    step = Step[Shape, Answer, object](name="probe", act=look, deadline=timedelta(seconds=9), reads_only=True)
    async with shop.running(Scripted(default=lambda _widget, _now: step)) as (_, ledger):
        await shop.register(1)
        await ledger.until(lambda: ledger.outcomes.total() > 0)
    assert found == {"kind": "widget", "id": 1, "name": "widget-1"}


async def test_a_version_conflict_is_logged_as_information_and_not_as_an_error(shop: Shop) -> None:
    async def beaten(_services: object) -> Any:
        await shop.pool.execute("UPDATE farrier_toy.widgets SET version = version + 1")
        return Transition(to=Shape(State.MADE), reason="it was raw", cause="timer")

    step = Step[Shape, Answer, object](name="probe", act=beaten, deadline=timedelta(seconds=9), reads_only=True)
    with capture_logs() as logged:
        async with shop.running(Scripted(default=lambda _widget, _now: step)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: "conflict" in ledger.verdicts)
    line = next(line for line in logged if line["event"] == "commit.not_won")
    told = {"kind": "widget", "id": 1, "name": "widget-1", "verdict": "conflict"}
    assert line == {"event": "commit.not_won", "log_level": "info"} | told


async def test_an_answer_is_logged_in_one_line_even_without_a_transition(shop: Shop) -> None:
    await shop.register(1)
    request = await shop.ask(1)
    with capture_logs() as logged:
        async with shop.running(Scripted(default=lambda widget, _: DoNothing(writes=answered(widget)))) as (_, ledger):
            await ledger.until(lambda: ledger.outcomes.total() > 0)
    (line,) = [line for line in logged if line["event"] == "intent.answered"]
    assert {key: line[key] for key in COUNTED} == COUNTED
    assert (line["log_level"], line["id"], line["name"], line["intent"]) == ("info", 1, "widget-1", request)
