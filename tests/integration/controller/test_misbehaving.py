"""A misbehaving handler costs only its own run: the outcome has the error, other runs go on, writes stay atomic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import anyio
import msgspec
import pytest
from typing_extensions import override

from farrier.errors import FarrierError, ServiceError
from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import DoNothing, Step, Transition, Update
from tests.support import toy
from tests.support.loop import QUIET, Shop
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

SOLD = Transition[Shape, Answer](to=Shape(State.SOLD), reason="in a hurry", cause="timer")


def raise_one(_widget: Widget, _now: datetime) -> Decided:
    raise ValueError("of all things")


def recurse(widget: Widget, now: datetime) -> Decided:
    return recurse(widget, now)


def leave(_widget: Widget, _now: datetime) -> Decided:
    raise SystemExit(3)


def pretend_to_be_cancelled(_widget: Widget, _now: datetime) -> Decided:
    raise asyncio.CancelledError


def returning(value: Any) -> Callable[[Widget, datetime], Any]:
    return lambda _widget, _now: value


def stepping(act: Callable[[object], Awaitable[Any]]) -> Callable[[Widget, datetime], Decided]:
    step = Step[Shape, Answer, object](name="work", act=act, deadline=timedelta(milliseconds=50), reads_only=False)
    return returning(step)


async def crash(_services: object) -> Any:
    raise ValueError("of all things")


async def fail_outside(_services: object) -> Any:
    raise ServiceError(service="bmc", operation="probe", detail="no answer")


async def hang(_services: object) -> Any:
    await anyio.sleep_forever()


async def cancel_itself(_services: object) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.sleep_forever()


async def raise_cancelled(_services: object) -> Any:
    raise asyncio.CancelledError


async def cancel_a_scope_of_its_own(_services: object) -> Any:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.sleep_forever()
    return "garbage after all"


async def crash_in_a_group(_services: object) -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(crash, None)
        await anyio.sleep_forever()


async def leave_from_a_step(_services: object) -> Any:
    raise SystemExit(3)


async def fail_with_a_text_of_the_file_system(_services: object) -> Any:
    raise ServiceError(service="nfs", operation="stat", detail="no caf\udce9.img\0")


class Unreadable(FarrierError):
    """An error of a service of another package, whose text cannot be read."""

    @override
    def __str__(self) -> str:
        raise ValueError("of all things")


async def fail_unreadably(_services: object) -> Any:
    raise Unreadable


def stepping_for(deadline: Any, name: Any = "work") -> Callable[[Widget, datetime], Decided]:
    return lambda _widget, _now: Step(name=name, act=hang, deadline=deadline, reads_only=False)


def sampling(*sample: Any) -> Callable[[Widget, datetime], Decided]:
    return lambda _widget, _now: DoNothing(samples=(Sample(*sample),))


async def one_more_step(_services: object) -> Any:
    return stepping(hang)(None, None)  # type: ignore[arg-type] # unused


async def oversell(_services: object) -> Any:
    return SOLD


MISBEHAVIOUR = [
    pytest.param(raise_one, "internal", id="raises"),
    pytest.param(recurse, "internal", id="recurses"),
    pytest.param(leave, "internal", id="exits"),
    pytest.param(pretend_to_be_cancelled, "internal", id="raises a cancellation"),
    pytest.param(returning(None), "garbage", id="returns nothing"),
    pytest.param(returning("done"), "garbage", id="returns a string"),
    pytest.param(returning(DoNothing), "garbage", id="returns a class"),
    pytest.param(returning(SOLD), "illegal_edge", id="takes an edge that is not there"),
    pytest.param(
        returning(Update[Shape, Answer](to=Shape(State.MADE), reason="r")), "garbage", id="moves by an update"
    ),
    pytest.param(
        returning(Transition[Shape, Answer](to=Shape(State.RAW), reason="r", cause="c")),
        "garbage",
        id="transits to where it is",
    ),
    pytest.param(stepping_for(5), "garbage", id="step has a number as its deadline"),
    pytest.param(stepping_for(timedelta(1), name="\0"), "garbage", id="step has a name that cannot be stored"),
    pytest.param(sampling("mib", None), "garbage", id="sample has no labels"),
    pytest.param(sampling(["mib"], {"what": "made"}), "garbage", id="sample has no name"),
    pytest.param(sampling("mib", {"what": "made"}, "1"), "garbage", id="sample has a text as its value"),
    pytest.param(stepping(fail_with_a_text_of_the_file_system), "service", id="step fails with bytes in its text"),
    pytest.param(stepping(fail_unreadably), "internal", id="step fails with an unreadable text"),
    pytest.param(stepping(crash), "internal", id="step raises"),
    pytest.param(stepping(fail_outside), "service", id="step fails outside"),
    pytest.param(stepping(hang), "timeout", id="step hangs"),
    pytest.param(stepping(cancel_itself), "internal", id="step cancels its task"),
    pytest.param(stepping(raise_cancelled), "internal", id="step raises a cancellation"),
    pytest.param(stepping(cancel_a_scope_of_its_own), "garbage", id="step cancels a scope of its own"),
    pytest.param(stepping(crash_in_a_group), "internal", id="step crashes in a group"),
    pytest.param(stepping(leave_from_a_step), "internal", id="step exits"),
    pytest.param(stepping(one_more_step), "garbage", id="step returns a step"),
    pytest.param(stepping(oversell), "illegal_edge", id="step takes an edge that is not there"),
]


@pytest.mark.matrix(keep=5)
@pytest.mark.parametrize(("script", "label"), MISBEHAVIOUR)
async def test_misbehaviour_affects_only_its_run(
    shop: Shop, script: Callable[[Widget, datetime], Any], label: str
) -> None:
    await shop.register(1, 2, 3)
    handler = Scripted({2: script})
    async with shop.running(handler, config=QUIET) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() == 3)
        assert ledger.outcomes == {"do_nothing": 2, "error": 1}
    assert ledger.errors == [label]
    assert ledger.moves == []
    assert (await shop.outcome(2))["error"] == label
    assert (await shop.widget(2))["version"] == 1
    assert (await shop.wakes(2), await shop.marked(2)) == (0, None)


async def test_the_text_of_an_unexpected_exception_is_only_in_the_log(shop: Shop) -> None:
    await shop.register(1)
    async with shop.running(Scripted({1: raise_one})) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() == 1)
    stored = await shop.outcome(1)
    assert "of all things" not in str(stored)
    assert stored["reason"] == "see the log"


async def test_a_step_is_ended_at_the_limit_of_the_loop_regardless_of_its_own_timeout(shop: Shop) -> None:
    await shop.register(1)
    brief = msgspec.structs.replace(QUIET, max_handling_time=timedelta(milliseconds=50))

    def patient(_widget: Widget, _now: datetime) -> Decided:
        return Step(name="work", act=hang, deadline=timedelta(hours=1), reads_only=False)

    async with shop.running(Scripted({1: patient}), config=brief) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() == 1)
    assert ledger.errors == ["timeout"]
    assert "0.05 s" in (await shop.outcome(1))["reason"]


async def test_after_an_error_the_next_run_can_succeed(shop: Shop) -> None:
    await shop.register(1)
    handler = Scripted({1: raise_one})
    async with shop.running(handler, config=QUIET) as (controller, ledger):
        await ledger.until(lambda: ledger.outcomes["error"] == 1)
        handler.scripts.clear()
        await shop.ask(1)
        controller.woken(toy.KIND, [1])
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
    assert await shop.answers() == [1]
    assert (await shop.outcome(1))["outcome"] == "do_nothing"


@pytest.mark.parametrize("point", range(4))
async def test_a_step_cancelled_at_any_of_its_awaits_writes_nothing_and_keeps_its_wakes(shop: Shop, point: int) -> None:
    await shop.register(1)
    await shop.ask(1)
    reached = anyio.Event()

    async def work(widget: Widget) -> Transition[Shape, Answer]:
        for here in range(4):
            if here == point:
                reached.set()
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()
        raise AssertionError("cancelled before")

    def script(widget: Widget, _now: datetime) -> Decided:
        return Step(name="work", act=lambda _: work(widget), deadline=timedelta(hours=1), reads_only=False)

    hasty = msgspec.structs.replace(QUIET, drain_timeout=timedelta(0))
    async with shop.running(Scripted({1: script}), config=hasty) as (_, ledger):
        await reached.wait()
    assert (ledger.outcomes.total(), ledger.errors, ledger.verdicts) == (0, [], [])
    assert await shop.answers() == [0]
    assert await shop.wakes(1) == 2
    async with shop.running(Scripted(default=lambda w, _: DoNothing(writes=answered(w)))) as (_, ledger):
        await ledger.until(lambda: ledger.outcomes.total() >= 1)
    assert await shop.answers() == [1]
