"""What a process believes to hold: counted from before the claim was sent, by id and token, and never past its end."""

from __future__ import annotations

from datetime import timedelta

import anyio

from farrier.controller.lease import Leases
from tests.support.clock import HandClock


def held(clock: HandClock) -> Leases:
    return Leases(
        clock,
        lease=timedelta(seconds=15),
        start_margin=timedelta(seconds=10),
        cancel_after=timedelta(seconds=12),
    )


def test_a_run_may_start_only_while_ten_of_fifteen_seconds_are_left() -> None:
    clock = HandClock(100.0)
    leases = held(clock)
    leases.take([1], token=7, sent_at=clock.now)
    clock.now += 5
    assert leases.may_start(1, 7)
    clock.now += 0.1
    assert not leases.may_start(1, 7)


def test_a_lease_counts_from_before_the_claim_was_sent() -> None:
    clock = HandClock(100.0)
    leases = held(clock)
    leases.take([1], token=7, sent_at=clock.now - 6)
    assert not leases.may_start(1, 7)


def test_another_token_is_another_claim() -> None:
    leases = held(HandClock(100.0))
    leases.take([1], token=7, sent_at=100)
    assert not leases.may_start(1, 8)
    leases.drop([(1, 8)])
    assert leases.tokens() == {1: 7}
    leases.drop([(1, 7), (2, 7)])
    assert len(leases) == 0


async def test_while_an_old_step_is_dying_the_row_s_next_claim_may_not_start() -> None:
    leases = held(HandClock(100.0))
    leases.take([1], token=7, sent_at=100)
    scope = anyio.CancelScope()
    leases.enter(1, 7, scope, limit=timedelta(seconds=60), reads_only=False)
    leases.take([1], token=8, sent_at=100)
    assert not leases.may_start(1, 8)
    leases.leave(1, 7)
    leases.take([1], token=9, sent_at=100)
    assert leases.may_start(1, 9)


async def test_a_step_s_deadline_is_its_limit_or_its_lease_whichever_is_sooner() -> None:
    clock = HandClock(100.0)
    leases = held(clock)
    leases.take([1, 2], token=7, sent_at=100)
    long, short = anyio.CancelScope(), anyio.CancelScope()
    leases.enter(1, 7, long, limit=timedelta(seconds=60), reads_only=False)
    leases.enter(2, 7, short, limit=timedelta(seconds=3), reads_only=False)
    assert 11.9 < long.deadline - anyio.current_time() <= 12
    assert 2.9 < short.deadline - anyio.current_time() <= 3
    assert leases.expired(1, 7)
    assert not leases.expired(2, 7)


async def test_a_renewal_moves_the_deadline_but_never_past_the_step_s_own_limit() -> None:
    clock = HandClock(100.0)
    leases = held(clock)
    leases.take([1], token=7, sent_at=100)
    scope = anyio.CancelScope()
    leases.enter(1, 7, scope, limit=timedelta(seconds=20), reads_only=False)
    clock.now += 5
    leases.renewed([1, 404], sent_at=105)
    assert 11.9 < scope.deadline - anyio.current_time() <= 12
    clock.now += 5
    leases.renewed([1], sent_at=110)
    assert 9.9 < scope.deadline - anyio.current_time() <= 10
    assert not leases.expired(1, 7)


def test_only_leases_that_have_aged_are_renewed() -> None:
    clock = HandClock(100.0)
    leases = held(clock)
    leases.take([1], token=7, sent_at=100)
    clock.now += 1
    leases.take([2], token=8, sent_at=101)
    assert leases.ageing(timedelta(seconds=1)) == {1: 7}
    leases.renewed([1], sent_at=101)
    assert leases.ageing(timedelta(seconds=1)) == {}


async def test_a_renewal_that_answers_late_takes_nothing_back() -> None:
    clock = HandClock(100.0)
    leases = held(clock)
    leases.take([1], token=7, sent_at=100)
    leases.renewed([1], sent_at=90)
    assert leases.may_start(1, 7)


async def test_only_reading_steps_are_interrupted_and_all_are_when_the_process_stops() -> None:
    leases = held(HandClock(100.0))
    leases.take([1, 2, 3], token=7, sent_at=100)
    reading, writing, late = anyio.CancelScope(), anyio.CancelScope(), anyio.CancelScope()
    leases.enter(1, 7, reading, limit=timedelta(seconds=60), reads_only=True)
    leases.enter(2, 7, writing, limit=timedelta(seconds=60), reads_only=False)
    assert leases.reading() == [1]
    leases.interrupt([1, 2])
    assert (reading.cancel_called, writing.cancel_called) == (True, False)
    assert leases.interrupted(1, 7)
    leases.cancel_steps()
    assert writing.cancel_called
    leases.enter(3, 7, late, limit=timedelta(seconds=60), reads_only=False)
    assert late.cancel_called
