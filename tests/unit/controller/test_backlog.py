"""Runs that found no slot are requeued for the time when one may be free, and not every second."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.controller.backlog import LATEST, SOONEST, Backlog
from tests.support.clock import HandClock

SECOND = timedelta(seconds=1)


def served(backlog: Backlog, clock: HandClock, times: int, each: timedelta, *, together: int = 1) -> None:
    """Let pass this time and let in so many runs together, so many times."""
    for _ in range(times):
        clock.advance(each)
        backlog.let_in(together)


def test_the_first_come_again_soon() -> None:
    assert Backlog(HandClock()).defer(3) == SOONEST


@pytest.mark.parametrize("together", [1, 7, 100])
def test_whoever_comes_behind_many_comes_later_as_others_are_let_in(together: int) -> None:
    clock = HandClock()
    backlog = Backlog(clock)
    backlog.defer(1)
    served(backlog, clock, 200, together * SECOND / 10, together=together)
    first = backlog.defer(50)
    second = backlog.defer(1)
    assert first == SOONEST
    assert abs(second - first - 5 * SECOND) < SECOND / 2


def test_where_no_slot_becomes_free_they_come_seldom() -> None:
    clock = HandClock()
    backlog = Backlog(clock)
    backlog.defer(1)
    clock.advance(60 * SECOND)
    backlog.defer(1)
    assert backlog.defer(1) == LATEST


def test_nobody_waits_for_longer_than_half_a_period_however_many_there_are() -> None:
    backlog = Backlog(HandClock())
    assert max(backlog.defer(100_000) for _ in range(10)) == LATEST


def test_once_there_is_room_for_all_nothing_is_promised_any_more() -> None:
    clock = HandClock()
    backlog = Backlog(clock)
    backlog.defer(100_000)
    backlog.over()
    clock.advance(3600 * SECOND)
    assert backlog.defer(1) == SOONEST
    assert backlog.defer(1) < 2 * SECOND, "an hour without demand is no measure of the rate"
