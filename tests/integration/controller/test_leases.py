"""Leases: while one lasts nobody else runs the row, when it is lost nothing of the run is left."""

from __future__ import annotations

from datetime import timedelta

import anyio
import msgspec

from farrier.model.outcome import Transition
from farrier.model.runs import Lane
from tests.support import pg, proxy, toy
from tests.support.loop import BRISK, Bench, Ledger, Shop
from tests.support.toy import Answer, Scripted, Shape, State

SECOND = timedelta(seconds=1)
LEASE = BRISK.lease

MADE = Transition[Shape, Answer](to=Shape(State.MADE), reason="it was raw", cause="timer")


async def test_a_run_that_lost_its_lease_commits_nothing_and_publishes_nothing(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    # The loop itself must not be the one that takes its own row over.
    drowsy = msgspec.structs.replace(BRISK, poll_interval=timedelta(minutes=1))
    async with shop.running(Scripted(default=bench.script), config=drowsy) as (_, ledger):
        await bench.begun.wait()
        await shop.db.advance(LEASE + SECOND)
        taken = await shop.io().claim(Lane.WOKEN, 1, None)
        assert [row.id for row in taken.rows] == [1]
        bench.let_go.set()
        await ledger.until(lambda: bool(ledger.verdicts))
        assert (await shop.row(1))["claim_token"] == taken.token
    assert ledger.verdicts == ["lost"]
    assert (ledger.moves, ledger.outcomes.total(), ledger.errors) == ([], 0, [])
    assert (await shop.widget(1))["state"] == "raw"
    assert await shop.history(1) == []


async def test_a_step_whose_row_somebody_else_has_taken_over_is_cut_off_by_the_next_renewal(shop: Shop) -> None:
    await shop.register(1)
    bench, long = Bench(MADE), timedelta(minutes=10)
    config = msgspec.structs.replace(
        BRISK, poll_interval=long, renew_every=timedelta(milliseconds=20), cancel_after=long, lease=2 * long
    )
    async with shop.running(Scripted(default=bench.script), config=config) as (processor, ledger):
        await bench.begun.wait()
        async with shop.db.connect() as somebody:
            await somebody.execute("UPDATE farrier.schedule SET claim_token = 7")
        await ledger.until(lambda: ledger.lost_leases == 1)
        assert processor.in_flight == 0
    assert bench.cancelled == 1
    assert (await shop.row(1))["claim_token"] == 7
    assert (ledger.outcomes.total(), ledger.verdicts, ledger.errors) == (0, [], [])


async def test_a_step_whose_lease_is_not_renewed_is_cut_off_before_it_ends_and_the_row_runs_again(
    shop: Shop,
) -> None:
    """Somebody's lock on the row makes renewals pass it over."""
    await shop.register(1)
    bench = Bench(MADE)
    handler = Scripted(default=bench.script)
    hasty = msgspec.structs.replace(
        BRISK, renew_every=timedelta(milliseconds=20), cancel_after=timedelta(milliseconds=200)
    )
    async with shop.db.connect() as client, shop.running(handler, config=hasty) as (processor, ledger):
        await bench.begun.wait()
        async with client.transaction():
            await client.execute("SELECT FROM farrier.schedule FOR UPDATE")
            await ledger.until(lambda: ledger.lost_leases == 1)
        assert bench.cancelled == 1
        assert (ledger.outcomes.total(), ledger.verdicts, ledger.errors) == (0, [], [])
        assert processor.in_flight == 0
        row = await shop.row(1)
        assert row["claim_token"] is not None
        assert row["ahead"] > timedelta(0)
        handler.default = toy.content
        await shop.db.advance(LEASE + SECOND)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)


async def test_renewals_keep_a_long_step_s_row_from_everybody_else(shop: Shop) -> None:
    await shop.register(1)
    bench = Bench(MADE)
    brisk = msgspec.structs.replace(BRISK, renew_every=timedelta(milliseconds=10))
    other = shop.io()
    async with shop.running(Scripted({1: bench.script}), config=brisk) as (_, ledger):
        await bench.begun.wait()
        for _ in range(4):
            await shop.db.advance(0.7 * LEASE)
            before = (await shop.row(1))["due_at"]
            with anyio.fail_after(20):
                while (await shop.row(1))["due_at"] == before:
                    await anyio.lowlevel.checkpoint()
            assert (await other.claim(Lane.WOKEN, 1, None)).rows == ()
        bench.let_go.set()
        await ledger.until(lambda: ledger.moves == [("raw", "made")])


class JumpingClock:
    """Between any two looks at it, six seconds pass."""

    def __init__(self) -> None:
        self.jump = 6.0
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += self.jump
        return self._seconds


async def test_a_claim_that_arrives_too_late_to_be_used_is_put_back(shop: Shop) -> None:
    """The reply to the claim took so long that a run might outlive the lease."""
    await shop.register(1)
    clock = JumpingClock()
    handler = Scripted()
    ledger, stop = Ledger(), anyio.Event()
    processor = shop.processor(handler, ledger, clock=clock)
    async with anyio.create_task_group() as group:
        group.start_soon(processor.run, stop)
        with anyio.fail_after(20):
            while not (await shop.row(1))["ahead"] > timedelta(0):
                await anyio.lowlevel.checkpoint()
        assert handler.order == []
        clock.jump = 0.0
        await shop.db.advance(2 * SECOND)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 1)
        stop.set()


async def test_a_crashed_process_s_rows_run_elsewhere_when_their_leases_end(shop: Shop) -> None:
    await shop.register(*range(1, 6))
    bench = Bench(MADE)
    async with anyio.create_task_group() as crashing:
        crashing.start_soon(shop.processor(Scripted(default=bench.script), Ledger()).run, anyio.Event())
        await bench.begun.wait()
        crashing.cancel_scope.cancel()
    assert (await shop.row(1))["claim_token"] is not None
    handler = Scripted()
    async with shop.running(handler) as (_, ledger):
        await shop.db.advance(LEASE)
        await ledger.until(lambda: ledger.outcomes["do_nothing"] == 5)
    assert sorted(handler.order) == [1, 2, 3, 4, 5]


async def test_a_process_cancelled_at_any_of_its_messages_to_the_database_leaves_whole_rows(
    shop: Shop,
) -> None:
    """One run that moves a widget and answers a request takes so many messages; cut off at each of them, it has
    happened entirely or not at all, and the next process finishes it."""

    def script(widget: toy.Widget, _now: object) -> toy.Decided:
        answers = toy.answered(widget)
        if not answers:
            return toy.content(widget, widget.entered_at)
        to = State.MADE if widget.state is State.RAW else State.RAW
        return Transition(to=Shape(to), reason="asked", cause="request", writes=answers)

    await shop.register(1)
    cut = 1
    done = False
    async with proxy.before(shop.db.dsn) as between:
        while not done:
            await shop.ask(1)
            async with pg.Database(between.dsn).pool(2) as pool, anyio.create_task_group() as doomed:
                ledger = Ledger()
                processor = shop.processor(Scripted(default=script), ledger, io=shop.io(pool=pool))

                def strike(message: int, at: int = cut, group: anyio.abc.TaskGroup = doomed) -> None:
                    if message == at:
                        group.cancel_scope.cancel()

                between.watch(strike)
                doomed.start_soon(processor.run, anyio.Event())
                await ledger.until(lambda: ledger.outcomes["do_nothing"] > 0)  # noqa: B023 (awaited in this turn)
                done = True
                doomed.cancel_scope.cancel()
            await shop.db.advance(2 * BRISK.period)
            async with shop.running(Scripted(default=script)) as (_, after):
                await after.until(lambda: after.outcomes["do_nothing"] > 0)
            widget = await shop.widget(1)
            history = await shop.history(1)
            assert (await shop.answers()) == [1] * cut
            assert widget["version"] == 1 + len(history) == 1 + cut
            assert history[-1][1] == widget["state"]
            cut += 1
    assert cut > 8
