"""Marks name exactly the steps whose ends are not recorded, regardless of failures, delays and interruptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import anyio
from typing_extensions import override

from farrier.errors import DatabaseUnreachable
from farrier.model.loop.runs import Marking
from tests.integration.controller.test_drain import until_one_is_owned
from tests.support import held, pg, toy
from tests.support.loop import PATIENCE, QUIET, Bench, Shop, WidgetIO
from tests.support.replica import Replica, at_work
from tests.support.toy import CUT, MADE, Decided, Scripted, Widget


class Marks(WidgetIO):
    """Storage that delays or fails the statements on marks which the test chooses."""

    def __init__(self, shop: Shop, chosen: Callable[[Marking], bool], *, fail: int = 0) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self._chosen = chosen
        self._fail = fail
        self.held, self.let_go = anyio.Event(), anyio.Event()
        self.interrupts = anyio.Event()
        self.lets_go_when_drained = False
        if fail:
            self.let_go.set()

    @override
    async def mark(self, marking: Marking, controller: UUID) -> frozenset[int]:
        if self._chosen(marking):
            self.held.set()
            await self.let_go.wait()
            if self._fail:
                self._fail -= 1
                raise DatabaseUnreachable("the test", "away")
        return await super().mark(marking, controller)

    @override
    async def interrupted(self, ids: Collection[int]) -> frozenset[int]:
        found = await super().interrupted(ids)
        if found:
            self.interrupts.set()
        return found

    @override
    async def consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        await super().consume(wakes)
        if self.lets_go_when_drained:
            self.let_go.set()


class Redoing(Scripted):
    """A handler whose first `fail` recoveries raise, and whose later ones return its script's decision."""

    def __init__(self, script: toy.Script, *, fail: int = 0) -> None:
        super().__init__(default=script)
        self.recovered: list[str] = []
        self._fail = fail

    @override
    def recover(self, resource: Widget, now: datetime, step: str) -> Decided:
        self.recovered.append(step)
        if len(self.recovered) <= self._fail:
            raise RuntimeError("on purpose")
        return self.default(resource, now)


class Ending(WidgetIO):
    """Storage that ends the process while it marks a step, and returns when the process' other tasks have ended."""

    def __init__(self, shop: Shop, process: anyio.CancelScope) -> None:
        super().__init__(shop.pool, toy.WidgetRows())
        self._process = process

    @override
    async def mark(self, marking: Marking, controller: UUID) -> frozenset[int]:
        marked = await super().mark(marking, controller)
        self._process.cancel()
        with anyio.CancelScope(shield=True):
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
        return marked


async def leave_a_mark(shop: Shop, id_: int, step: str = "other") -> UUID:
    """Insert a mark, as a process that dies in a step leaves it."""
    dead = uuid4()
    await shop.pool.execute(
        "INSERT INTO farrier.marks VALUES ($1, 'widget', 1, jsonb_build_object($2::text, jsonb_build_object("
        "'step', $3::text, 'begun_at', farrier.now())))",
        dead,
        str(id_),
        step,
    )
    return dead


async def steps_of(shop: Shop, id_: int) -> list[str]:
    records = await shop.pool.fetch("SELECT step FROM farrier.effects WHERE kind = 'widget' AND resource = $1", id_)
    return [record["step"] for record in records]


async def until_none(shop: Shop) -> None:
    """Return once there is no mark."""
    await shop.db.until("SELECT NOT EXISTS (SELECT FROM farrier.effects)")


# --- steps that are planned and not begun


async def test_a_process_that_ends_while_it_marks_a_step_does_not_begin_the_step(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench()
    with anyio.CancelScope() as process:
        async with shop.running(Scripted(default=bench.script), io=Ending(shop, process)):
            await anyio.sleep_forever()
    assert not bench.begun.is_set()
    assert await steps_of(shop, 1)


async def test_a_step_that_is_cut_before_it_begins_leaves_no_mark(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(reads_only=True, if_interrupted=CUT)
    handler, io = Scripted(default=bench.script), Marks(shop, lambda marking: bool(marking.begun))
    async with shop.running(handler, io=io) as (controller, ledger):
        await io.held.wait()
        handler.default = toy.content
        await shop.ask(1, urgent=True)
        controller.heard_nothing()
        await io.interrupts.wait()
        io.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] >= 1)
        await until_none(shop)
    assert not bench.begun.is_set()
    assert (await shop.widget(1))["payload"] == ""


async def test_a_step_does_not_begin_after_the_process_has_lost_its_lease(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(if_interrupted=CUT)
    handler, io = Redoing(bench.script), Marks(shop, lambda marking: bool(marking.begun))
    replica = Replica(shop, handler, io=io)
    async with at_work() as group:
        await replica.start(group)
        await io.held.wait()
        replica.rounds.cut_off = True
        replica.clock.advance(timedelta(seconds=7))
        io.let_go.set()
        await until_none(shop)
        assert not bench.begun.is_set()
        handler.default = toy.content
        replica.rounds.cut_off = False
        await replica.ledger.until(lambda: replica.ledger.outcomes["do_nothing"] >= 1)
        await replica.stop()
    assert handler.recovered == []


async def test_a_recovery_whose_step_cannot_be_marked_is_repeated(shop: Shop) -> None:
    await shop.register(1)
    await leave_a_mark(shop, 1)
    bench = Bench(MADE)
    handler, io = Redoing(bench.script), Marks(shop, lambda marking: bool(marking.begun), fail=1)
    async with shop.running(handler, io=io, config=QUIET):
        await bench.begun.wait()
        handler.default = toy.content
        bench.let_go.set()
    assert handler.recovered == ["other", "other"]


async def test_a_recovery_that_a_stop_prevents_is_made_by_the_next_process(shop: Shop) -> None:
    await shop.register(1)
    await leave_a_mark(shop, 1)
    bench = Bench(MADE)
    io, successor = Marks(shop, lambda marking: bool(marking.begun)), Redoing(toy.content)
    async with anyio.create_task_group() as group, shop.running(Redoing(bench.script), io=io, config=QUIET):
        await io.held.wait()

        async def let_go() -> None:
            await until_one_is_owned(shop)
            io.let_go.set()

        group.start_soon(let_go)
    assert not bench.begun.is_set()
    async with shop.running(successor, config=QUIET):
        await until_none(shop)
    assert len(successor.recovered) == 1


async def test_the_mark_of_a_step_replaces_the_mark_that_its_run_recovered_from(shop: Shop) -> None:
    await shop.register(1)
    await leave_a_mark(shop, 1)
    bench = Bench(MADE)
    handler = Redoing(bench.script)
    async with shop.running(handler, config=QUIET):
        await bench.begun.wait()
        assert await steps_of(shop, 1) == ["work"]
        handler.default = toy.content
        bench.let_go.set()
        await until_none(shop)


async def test_a_failed_recovery_is_repeated(shop: Shop) -> None:
    await shop.register(1)
    await leave_a_mark(shop, 1)
    handler = Redoing(toy.content, fail=1)
    async with shop.running(handler, config=QUIET) as (controller, ledger):
        await ledger.until(lambda: ledger.outcomes["error"] == 1)
        assert await steps_of(shop, 1) == ["other"]
        controller.woken(toy.KIND, [1])
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
        await until_none(shop)
    assert handler.recovered == ["other", "other"]


# --- removal


async def test_a_mark_whose_removal_failed_is_removed_later_by_itself(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    handler, io = Scripted(default=bench.script), Marks(shop, lambda marking: bool(marking.ended), fail=2)
    async with shop.running(handler, io=io, config=QUIET):
        await bench.begun.wait()
        handler.default = toy.content
        bench.let_go.set()
        await until_none(shop)


async def test_a_stop_waits_for_the_removal_of_marks_that_is_under_way(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    handler, io = Scripted(default=bench.script), Marks(shop, lambda marking: bool(marking.ended))
    async with shop.running(handler, io=io, config=QUIET) as (_, ledger):
        await bench.begun.wait()
        handler.default = toy.content
        bench.let_go.set()
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
        await io.held.wait()
        io.lets_go_when_drained = True
    assert await shop.marked(1) is None


# --- late statements


async def test_a_statement_delayed_by_a_lock_changes_nothing_after_a_later_one(shop: Shop) -> None:
    """Another transaction locks the mark of a former owner, which the statement has to remove."""
    own = await held.hold(shop, 1, 2, 3)
    dead = await leave_a_mark(shop, 1)
    first = Marking(number=1, begun={3: "late"}, ended={1}, epochs=own.epochs)
    second = Marking(number=2, begun={2: "work"}, ended={3}, epochs=own.epochs)
    done = anyio.Event()

    async def mark_later() -> None:
        await own.io.mark(second, own.owner)
        done.set()

    async with shop.db.connect() as other, anyio.create_task_group() as group, other.transaction():
        await other.execute("SELECT FROM farrier.marks WHERE controller = $1 FOR UPDATE", dead)
        group.start_soon(own.io.mark, first, own.owner)
        await shop.db.until_blocked()
        group.start_soon(mark_later)
        with anyio.move_on_after(PATIENCE):
            while not done.is_set() and await shop.pool.fetchval(pg.BLOCKED) < 2:
                await anyio.lowlevel.checkpoint()
    assert [await steps_of(shop, id_) for id_ in (1, 2, 3)] == [[], ["work"], []]


async def test_a_late_statement_changes_nothing_after_another_controllers_statement(shop: Shop) -> None:
    own = await held.hold(shop, 1, 2)
    other, _ = await held.take(shop)
    await shop.pool.execute("UPDATE farrier.shards SET owner = $1, epoch = epoch + 1 WHERE shard = 2", other)
    epoch = own.epochs.pop(2) + 1
    await leave_a_mark(shop, 2)
    await own.io.mark(Marking(number=2, begun={}, ended={1}, epochs=own.epochs), own.owner)
    await own.io.mark(Marking(number=1, begun={}, ended={2}, epochs={2: epoch}), other)
    assert await steps_of(shop, 2) == []
    await own.io.mark(Marking(number=1, begun={1: "late"}, ended=set(), epochs=own.epochs), own.owner)
    assert await steps_of(shop, 1) == []
