"""What the log says of a run: each change, each answer and each error, with constant names and ids, and once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from structlog.testing import capture_logs

from farrier.errors import ServiceError
from farrier.model.outcome import DoNothing, Step, Transition
from tests.support.loop import Shop
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

COUNTED = {"kind": "widget", "action": "count", "verdict": "accepted", "reason": "", "requested_by": None}


async def no_answer(_services: object) -> Any:
    raise ServiceError(service="bmc", operation="probe", detail="no answer")


def fail(_widget: Widget, _now: datetime) -> Decided:
    return Step[Shape, Answer, object](name="probe", act=no_answer, deadline=timedelta(seconds=9), reads_only=True)


async def test_a_change_is_one_line_with_what_caused_it(shop: Shop) -> None:
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
    assert (line["kind"], line["id"], line["layer"]) == ("widget", 1, "state")
    assert (line["source"], line["target"], line["reason"], line["cause"]) == ("raw", "made", "it was raw", "timer")


async def test_an_error_is_one_line_with_its_label_and_its_text(shop: Shop) -> None:
    with capture_logs() as logged:
        async with shop.running(Scripted(default=fail)) as (_, ledger):
            await shop.register(1)
            await ledger.until(lambda: bool(ledger.errors))
    (line,) = [line for line in logged if line["event"] == "run.failed"]
    assert (line["log_level"], line["kind"], line["id"], line["label"]) == ("warning", "widget", 1, "service")
    assert "no answer" in line["error"]


async def test_an_answer_is_one_line_though_nothing_changes(shop: Shop) -> None:
    await shop.register(1)
    request = await shop.ask(1)
    with capture_logs() as logged:
        async with shop.running(Scripted(default=lambda widget, _: DoNothing(writes=answered(widget)))) as (_, ledger):
            await ledger.until(lambda: ledger.outcomes.total() > 0)
    (line,) = [line for line in logged if line["event"] == "intent.answered"]
    assert {key: line[key] for key in COUNTED} == COUNTED
    assert (line["log_level"], line["id"], line["intent"]) == ("info", 1, request)
