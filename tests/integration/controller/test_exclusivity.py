"""A resource has one run at a time, whichever controller owns it, and no wake is lost. Tested with many controllers at
once, and statement by statement."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from farrier.io.calls.controllers import PostgresControllers
from farrier.model.loop.outcome import Outcome, Step, Transition
from farrier.model.loop.runs import CommitVerdict, Due, Finished, Marking, Move
from tests.support import again, loop, owners, pg, toy
from tests.support.loop import Shop, WidgetIO
from tests.support.replica import Replica, at_work
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

T = TypeVar("T")

SECOND = timedelta(seconds=1)


class Floor:
    """Records the runs of many controllers, and those of one widget that overlap."""

    def __init__(self) -> None:
        self._inside: Counter[int] = Counter()
        self.overlaps: list[int] = []
        self.runs = 0

    async def work(self, widget: Widget) -> Outcome[Shape, Answer]:
        """Take a little time; move the widget if it has a request."""
        self._inside[widget.id] += 1
        if self._inside[widget.id] > 1:
            self.overlaps.append(widget.id)
        try:
            for _ in range(random.randrange(4)):
                await anyio.lowlevel.checkpoint()
        finally:
            self._inside[widget.id] -= 1
        self.runs += 1
        if not widget.requests:
            return toy.content(widget, widget.entered_at)
        to = State.MADE if widget.state is State.RAW else State.RAW
        return Transition(to=Shape(to), reason="asked", cause="request", writes=answered(widget))

    def script(self, widget: Widget, _now: object) -> Decided:
        return Step(name="work", act=lambda _: self.work(widget), deadline=60 * SECOND, reads_only=False)


async def test_controllers_under_wakes_transitions_and_crashes_never_overlap(shop: Shop) -> None:
    """Each run is a step that checks whether another run of its widget is under way. One of three controllers crashes
    again and again and is declared dead; in the end every request is answered exactly once."""
    widgets = range(1, 31)
    await shop.register(*widgets)
    floor = Floor()
    first, second = (Replica(shop, Scripted(default=floor.script)) for _ in range(2))
    async with at_work(first, second) as group:
        for _ in range(5):
            third = Replica(shop, Scripted(default=floor.script))
            await third.start(group)
            for replica in (first, second, third):
                await replica.round()
            for widget in widgets:
                await shop.ask(widget)
            await third.round()
            crashed = third.id
            await third.crash()
            await owners.declared_dead(shop.pool, crashed)
            for replica in (first, second):
                await replica.round()
        with anyio.fail_after(loop.PATIENCE):
            while 0 in await shop.answers():
                await again.later()
                for replica in (first, second):  # a step in a closing shard is deferred for half a second
                    replica.clock.advance(timedelta(milliseconds=5))
    assert floor.overlaps == []
    assert set(await shop.answers()) == {1}
    for id_ in widgets:
        assert (await shop.widget(id_))["version"] == 1 + len(await shop.history(id_))


class Run(msgspec.Struct):
    """A run of the state machine: its owner and epoch, the snapshot that it loaded, and the wakes that it saw."""

    owner: int
    epoch: int
    seen: Widget
    wakes: tuple[UUID, ...]


class Statements(RuleBasedStateMachine):
    """Takes, loads, commits, wakes, marks and expiries in any order, each a statement of its own on a real database.

    The model of a widget is small: which controller owns its shard under which epoch, which requests are unanswered,
    and which version a run has read. After every step the database is compared with the model.
    """

    shop: Shop
    call: Any
    runs: Bundle[Run] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.io: WidgetIO = self.shop.io()
        self.controllers = PostgresControllers(self.shop.pool)
        self.ids = [uuid4() for _ in range(3)]
        self.owners: dict[int, tuple[int | None, int]] = dict.fromkeys((1, 2, 3), (None, 0))
        self.asked: dict[int, set[int]] = {1: set(), 2: set(), 3: set()}
        self.moves: Counter[int] = Counter()
        self.quiet: Counter[int] = Counter()
        self.markings = 0
        self.call(self._start())

    async def _start(self) -> None:
        await self.shop.pool.execute(
            "TRUNCATE farrier_toy.widgets, farrier_toy.requests, farrier.history, farrier.outcomes, farrier.wakes,"
            " farrier.marks, farrier.controllers"
        )
        await self.shop.pool.execute("UPDATE farrier.shards SET owner = NULL, epoch = 0")
        await self.shop.register(1, 2, 3)
        for id_ in self.ids:
            await self.controllers.join(id_, "test", [toy.KIND])

    @rule(owner=strategies.integers(0, 2), widget=strategies.integers(1, 3))
    def take(self, owner: int, widget: int) -> None:
        taken = self.call(self.controllers.take(self.ids[owner], toy.KIND, [widget]))
        before, epoch = self.owners[widget]
        assert bool(taken) == (before in (None, owner))
        if taken:
            assert taken == {widget: epoch + 1}
            self.owners[widget] = owner, epoch + 1

    @rule(owner=strategies.integers(0, 2))
    def die(self, owner: int) -> None:
        """Declare a controller dead, which frees its shards; it joins again under another id."""
        self.call(owners.declared_dead(self.shop.pool, self.ids[owner]))
        self.ids[owner] = uuid4()
        self.call(self.controllers.join(self.ids[owner], "test", [toy.KIND]))
        for widget, (former, epoch) in self.owners.items():
            if former == owner:
                self.owners[widget] = None, epoch

    @rule(widget=strategies.integers(1, 3))
    def give_back(self, widget: int) -> None:
        owner, epoch = self.owners[widget]
        if owner is not None:
            self.call(self.controllers.give_back(self.ids[owner], toy.KIND, {widget: epoch}))
            self.owners[widget] = None, epoch

    @rule(target=runs, owner=strategies.integers(0, 2), widget=strategies.integers(1, 3))
    def load(self, owner: int, widget: int) -> Run:
        loaded = self.call(self.io.load([widget]))
        return Run(owner, self.owners[widget][1], loaded.resources[widget], loaded.wakes.get(widget, ()))

    @rule(run=runs)
    def mark(self, run: Run) -> None:
        self.markings += 1
        epochs = {run.seen.id: run.epoch}
        marking = Marking(number=self.markings, begun={run.seen.id: "work"}, ended=set(), epochs=epochs)
        marked = self.call(self.io.mark(marking, self.ids[run.owner]))
        assert bool(marked) == (self.owners[run.seen.id] == (run.owner, run.epoch))

    @rule(run=consumes(runs), moves=strategies.booleans())
    def commit(self, run: Run, moves: bool) -> None:
        id_, finished = run.seen.id, self._finished(run, moves=moves)
        current = run.seen.version == 1 + self.moves[id_] + self.quiet[id_]
        result = self.call(self.io.commit([finished], self.ids[run.owner]))[id_]
        if self.owners[id_] != (run.owner, run.epoch):
            assert result.verdict is CommitVerdict.LOST
        elif not current:
            assert result.verdict is CommitVerdict.CONFLICT
        else:
            assert result.verdict is CommitVerdict.COMMITTED
            self.asked[id_] -= set(run.seen.requests)
            self.moves[id_] += moves
            self.quiet[id_] += bool(run.seen.requests) and not moves

    @rule(widget=strategies.integers(1, 3))
    def ask(self, widget: int) -> None:
        self.asked[widget].add(self.call(self.shop.ask(widget)))

    @invariant()
    def what_is_not_answered_has_a_wake(self) -> None:
        for id_, requests in self.asked.items():
            if requests:
                assert self.call(self.shop.wakes(id_)) > 0

    @invariant()
    def every_move_has_its_history_and_every_request_at_most_one_answer(self) -> None:
        for id_ in self.asked:
            widget = self.call(self.shop.widget(id_))
            assert widget["version"] == 1 + self.moves[id_] + self.quiet[id_]
            assert self.moves[id_] == len(self.call(self.shop.history(id_)))
        assert set(self.call(self.shop.answers())) <= {0, 1}

    def _finished(self, run: Run, *, moves: bool) -> Finished[Shape, Answer]:
        seen = run.seen
        to = State.MADE if seen.state is State.RAW else State.RAW
        return Finished(
            id=seen.id,
            epoch=run.epoch,
            version=seen.version,
            wakes=run.wakes,
            due=Due.RERUN if moves else Due.PERIODIC,
            outcome="transition" if moves else "do_nothing",
            delay=30 * SECOND,
            to=Shape(to) if moves else None,
            moves=(Move("state", seen.state.value, to.value, seen.entered_at),) if moves else (),
            writes=answered(seen),
        )


@pytest.fixture
def own_loop() -> Iterator[asyncio.Runner]:
    """Hypothesis is synchronous, so the statements run on a separate event loop."""
    with asyncio.Runner() as runner:
        yield runner


def test_statements_in_any_order_keep_the_invariants(own_loop: asyncio.Runner, pg_server: pg.Server) -> None:
    def call(work: Coroutine[Any, Any, T]) -> T:
        return own_loop.run(work)

    database = pg_server.copy()
    shop_of = loop.opened(call(database.__aenter__()))
    try:
        bound = {"shop": call(shop_of.__aenter__()), "call": staticmethod(call)}
        machine = type("Machine", (Statements,), bound)
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
    finally:
        call(shop_of.__aexit__(None, None, None))
        call(database.__aexit__(None, None, None))
