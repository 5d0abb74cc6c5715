"""One run of a resource at a time, whoever claims, and no wake forgotten: many at once, and step by step."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from farrier.model.outcome import Outcome, Step, Transition
from farrier.model.runs import Due, Finished, Lane, Move, Verdict, new_token
from tests.support import loop, pg, toy
from tests.support.loop import BRISK, Ledger, Shop, WidgetIO
from tests.support.toy import Answer, Decided, Scripted, Shape, State, Widget, answered

T = TypeVar("T")

LEASE = BRISK.lease
SECOND = timedelta(seconds=1)


async def test_claimers_side_by_side_take_each_row_once(shop: Shop) -> None:
    await shop.register(*range(1, 1001))
    taken: list[int] = []

    async def claim_all() -> None:
        io = shop.io()
        while rows := (await io.claim(Lane.PERIODIC, 7, None)).rows:
            taken.extend(row.id for row in rows)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(claim_all)
    # A claim may pass over what another is just taking and find nothing: the rest is taken afterwards.
    await claim_all()
    assert sorted(taken) == list(range(1, 1001))


class Floor:
    """Where the runs of many processors take place, and where it is seen if two of one widget meet."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._inside: Counter[int] = Counter()
        self.overlaps: list[int] = []
        self.runs = 0

    async def work(self, widget: Widget) -> Outcome[Shape, Answer]:
        """Dawdle a little; move the widget if that was asked for."""
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

    async def crash_over_and_over(self, stop: anyio.Event) -> None:
        """A processor that is cut off in mid-work; then its leases, and only its, have run out."""
        while not stop.is_set():
            ledger, io = Ledger(), self._shop.io()
            async with anyio.create_task_group() as doomed:
                processor = self._shop.processor(Scripted(default=self.script), ledger, io=io)
                doomed.start_soon(processor.run, anyio.Event())
                await ledger.until(lambda: stop.is_set() or ledger.outcomes.total() > 10)  # noqa: B023 (awaited here)
                doomed.cancel_scope.cancel()
            await self._shop.pool.execute(
                "UPDATE farrier.schedule SET due_at = farrier.now() WHERE owner = $1", io.owner
            )


async def test_eight_processors_under_wakes_transitions_and_crashes_never_overlap(shop: Shop) -> None:
    """Each run is a step that looks whether another is inside. Two of the eight crash over and over; every
    request is answered exactly once in the end."""
    widgets = range(1, 31)
    await shop.register(*widgets)
    floor, stop = Floor(shop), anyio.Event()
    async with anyio.create_task_group() as group:
        for _ in range(6):
            processor = shop.processor(Scripted(default=floor.script), Ledger())
            group.start_soon(processor.run, stop)
        for _ in range(2):
            group.start_soon(floor.crash_over_and_over, stop)
        for _ in range(10):
            for widget in widgets:
                await shop.ask(widget)
        with anyio.fail_after(loop.PATIENCE):
            while 0 in await shop.answers():
                await anyio.lowlevel.checkpoint()
        stop.set()
    assert floor.overlaps == []
    assert set(await shop.answers()) == {1}
    for id_ in widgets:
        assert (await shop.widget(id_))["version"] == 1 + len(await shop.history(id_))


class Run(msgspec.Struct):
    """A run of the state machine: what its owner believes to hold, and what it has read."""

    owner: int
    lane: Lane
    token: int
    id: int
    snapshot: Widget | None = None


class Statements(RuleBasedStateMachine):
    """Claims, loads, commits, wakes and expiries in any order, each a statement of its own on a real
    database.

    The model of a row is small: who may commit (the last to have claimed it), which requests are unanswered,
    and which of those the run that holds it has seen. What the database says is compared with it after every
    step.
    """

    shop: Shop
    call: Any
    runs: Bundle[Run] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.ios: list[WidgetIO] = [self.shop.io() for _ in range(3)]
        self.holders: dict[int, int] = {}
        self.expired: set[int] = set()
        self.asked: dict[int, set[int]] = {1: set(), 2: set(), 3: set()}
        self.moves: Counter[int] = Counter()
        self.call(self._start())

    async def _start(self) -> None:
        await self.shop.pool.execute(
            "TRUNCATE farrier_toy.widgets, farrier_toy.requests, farrier.schedule, farrier.history, farrier.outcomes"
        )
        await self.shop.register(1, 2, 3)

    @rule(target=runs, owner=strategies.integers(0, 2), lane=strategies.sampled_from(Lane))
    def claim(self, owner: int, lane: Lane) -> Any:
        claim = self.call(self.ios[owner].claim(lane, 2, None))
        for row in claim.rows:
            assert row.id not in self.holders or row.id in self.expired, "claimed while another holds it"
            self.holders[row.id] = claim.token
            self.expired.discard(row.id)
        return multiple(*(Run(owner, lane, claim.token, row.id) for row in claim.rows))

    @rule(run=runs)
    def load(self, run: Run) -> None:
        run.snapshot = self.call(self.ios[run.owner].load([run.id])).resources[run.id]

    @rule(target=runs, run=consumes(runs), moves=strategies.booleans(), keeps=strategies.booleans())
    def commit(self, run: Run, moves: bool, keeps: bool) -> Any:
        seen = run.snapshot
        if seen is None:
            return multiple()
        finished, token = self._finished(run, seen, moves=moves), new_token()
        result = self.call(self.ios[run.owner].commit([finished], keep=token if keeps else None))[run.id]
        if self.holders.get(run.id) != run.token:
            assert result.verdict is Verdict.LOST
            return multiple()
        assert result.verdict is Verdict.COMMITTED
        self.asked[run.id] -= set(seen.requests)
        self.moves[run.id] += moves
        self._free(run.id)
        if moves and keeps:
            assert result.kept is not None, "it moved, and does not go on"
            self.holders[run.id] = token
            return Run(run.owner, Lane.WOKEN, token, run.id)
        if self.asked[run.id]:
            assert result.again, "asked since it was loaded, and not due"
        return multiple()

    @rule(run=consumes(runs))
    def give_back(self, run: Run) -> None:
        self.call(self.ios[run.owner].give_back({run.id: run.token}, timedelta(0), run.lane))
        if self.holders.get(run.id) == run.token:
            self._free(run.id)

    @rule(run=runs)
    def renew(self, run: Run) -> None:
        renewed = self.call(self.ios[run.owner].renew({run.id: run.token}))
        assert (run.id in renewed) == (self.holders.get(run.id) == run.token)
        if renewed:
            self.expired.discard(run.id)

    @rule(widget=strategies.integers(1, 3))
    def ask(self, widget: int) -> None:
        self.asked[widget].add(self.call(self.shop.ask(widget)))

    @rule()
    def expire(self) -> None:
        self.call(self.shop.db.advance(LEASE + SECOND))
        self.expired |= set(self.holders)

    @invariant()
    def nothing_asked_is_forgotten(self) -> None:
        """An unanswered request's row is held, or due now in the woken lane."""
        for id_, requests in self.asked.items():
            row = self.call(self.shop.row(id_))
            held = id_ in self.holders
            assert (row["claim_token"] is not None) == held
            if requests and not held:
                assert row["lane"] == Lane.WOKEN
                assert row["ahead"] <= timedelta(0)

    @invariant()
    def every_version_has_its_history_and_every_request_at_most_one_answer(self) -> None:
        for id_ in self.asked:
            widget = self.call(self.shop.widget(id_))
            assert widget["version"] == 1 + self.moves[id_] == 1 + len(self.call(self.shop.history(id_)))
        assert set(self.call(self.shop.answers())) <= {0, 1}

    def _free(self, id_: int) -> None:
        del self.holders[id_]
        self.expired.discard(id_)

    def _finished(self, run: Run, seen: Widget, *, moves: bool) -> Finished[Shape, Answer]:
        to = State.MADE if seen.state is State.RAW else State.RAW
        return Finished(
            id=run.id,
            token=run.token,
            version=seen.version,
            due=Due.RERUN if moves else Due.PERIODIC,
            outcome="transition" if moves else "do_nothing",
            delay=30 * SECOND,
            to=Shape(to) if moves else None,
            moves=(Move("state", seen.state.value, to.value, seen.entered_at),) if moves else (),
            writes=answered(seen),
        )


@pytest.fixture
def own_loop() -> Iterator[asyncio.Runner]:
    """Hypothesis is synchronous: its statements run on a loop of their own."""
    with asyncio.Runner() as runner:
        yield runner


def test_statements_in_any_order_keep_every_promise(own_loop: asyncio.Runner, pg_server: pg.Server) -> None:
    def call(work: Coroutine[Any, Any, T]) -> T:
        return own_loop.run(work)

    database = pg_server.database()
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
