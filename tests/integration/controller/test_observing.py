"""Steps that only observe: they begin on the snapshot in memory, and what they confirm costs no statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import anyio
import msgspec
import pytest

from farrier.errors import HandlerGarbage
from farrier.model.loop.outcome import Outcome, Step, Update, Wait
from tests.integration.controller.test_snapshots import A_PERIOD, NEVER_AGAIN, Counting
from tests.support.loop import Shop
from tests.support.replica import Replica, at_work
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget


class Observing(Scripted):
    """Rests in the first runs (the one on the loaded snapshot, and the one after its commit), and observes in each
    later one. An observation returns `payload`; it confirms the widget if that is what the widget has."""

    def __init__(self, *, rests: int = 2) -> None:
        super().__init__(default=self._decide)
        self.rests = rests
        self.payload = ""
        self.observes = True
        self.seen: list[str] = []
        self.runs = 0

    def _decide(self, widget: Widget, _now: datetime) -> Decided:
        self.runs += 1
        if self.runs <= self.rests:
            return Wait(reason="for Godot", rests=True, source="here:1")

        async def act(_services: object) -> Outcome[Shape, Answer]:
            self.seen.append(widget.payload)
            to: Any = msgspec.structs.replace(widget, payload=self.payload)
            same = to == widget
            return Update(to=to, reason="as it was", requeue_after=timedelta(seconds=30), quiet=same, confirms=same)

        return Step(name="look", act=act, deadline=timedelta(seconds=5), reads_only=True, observes=self.observes)


async def rested(replica: Replica, runs: int = 2) -> None:
    """Return once the widget is at rest with its snapshot in memory."""
    await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 1)
    for waits in range(2, runs + 1):
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == waits)  # noqa: B023


async def observed(replica: Replica, times: int) -> None:
    await replica.pass_seconds(A_PERIOD)
    await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == times)


def of_the_widget(io: Counting) -> Sequence[str]:
    return [statement for statement in io.statements if statement != "consume"]


@pytest.mark.parametrize("rests", [2, 0])
async def test_an_observation_that_confirms_the_snapshot_loads_and_commits_nothing(shop: Shop, rests: int) -> None:
    await shop.register(1)
    io, handler = Counting(shop), Observing(rests=rests)
    replica = Replica(shop, handler, io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await (rested(replica) if rests else replica.ledger.until(lambda: replica.ledger.outcomes["update"] == 1))
        before, first = of_the_widget(io), len(handler.seen) + 1
        for times in range(first, first + 3):
            await observed(replica, times)
        assert of_the_widget(io) == before
        assert (await shop.widget(1))["version"] == 1
    assert handler.seen == [""] * (first + 2)
    assert await shop.marked(1) is None


async def test_an_observation_is_marked_while_it_runs(shop: Shop) -> None:
    await shop.register(1)
    handler, begun, let_go = Observing(), anyio.Event(), anyio.Event()
    replica = Replica(shop, handler, config=NEVER_AGAIN)

    async def waits(_services: object) -> Outcome[Shape, Answer]:
        begun.set()
        await let_go.wait()
        return Wait(reason="for Godot", rests=True, source="here:1")

    def decide(widget: Widget, now: datetime) -> Decided:
        decided = handler._decide(widget, now)
        return msgspec.structs.replace(decided, act=waits) if isinstance(decided, Step) else decided

    async with at_work(replica):
        await rested(replica)
        handler.default = decide
        await replica.pass_seconds(A_PERIOD)
        await begun.wait()
        assert await shop.marked(1) == "look"
        let_go.set()
        await replica.ledger.until(lambda: replica.ledger.outcomes["wait"] == 3)


async def test_what_an_observation_finds_changed_is_committed(shop: Shop) -> None:
    await shop.register(1)
    io, handler = Counting(shop), Observing()
    replica = Replica(shop, handler, io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await rested(replica)
        handler.payload = "found"
        del io.statements[:]
        await observed(replica, 1)
        assert of_the_widget(io) == ["commit"]
        assert (await shop.widget(1))["payload"] == "found"


async def test_a_change_found_over_an_outdated_snapshot_is_not_committed(shop: Shop) -> None:
    await shop.register(1)
    handler = Observing()
    replica = Replica(shop, handler, config=NEVER_AGAIN)
    async with at_work(replica):
        await rested(replica)
        await shop.pool.execute("UPDATE farrier_toy.widgets SET state = 'made', version = 7")
        handler.payload = "found"
        await replica.pass_seconds(A_PERIOD)
        await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == 1)
        assert replica.ledger.verdicts == ["conflict"]
        stored = await shop.widget(1)
        assert (stored["state"], stored["payload"]) == (State.MADE, "found")
    assert handler.seen == ["", ""]


async def test_a_step_that_does_not_only_observe_begins_on_a_fresh_snapshot(shop: Shop) -> None:
    await shop.register(1)
    io, handler = Counting(shop), Observing()
    handler.observes = False
    replica = Replica(shop, handler, io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await rested(replica)
        del io.statements[:]
        await observed(replica, 1)
        assert of_the_widget(io) == ["load"]


async def test_a_wake_is_read_before_the_next_observation(shop: Shop) -> None:
    await shop.register(1)
    io, handler = Counting(shop), Observing()
    replica = Replica(shop, handler, io=io, config=NEVER_AGAIN)
    async with at_work(replica):
        await rested(replica)
        await observed(replica, 1)
        await shop.pool.execute("UPDATE farrier_toy.widgets SET payload = 'by hand', version = 2")
        del io.statements[:]
        replica.controller.woken("widget", [1])
        handler.payload = "by hand"
        await replica.ledger.until(lambda: replica.ledger.outcomes["update"] == 2)
        assert of_the_widget(io) == ["load"]
    assert handler.seen == ["", "by hand"]


def test_a_step_that_observes_must_only_read() -> None:
    async def act(_services: object) -> Any:
        raise NotImplementedError

    with pytest.raises(HandlerGarbage, match="observes"):
        Step(name="look", act=act, deadline=timedelta(seconds=1), reads_only=False, observes=True)
