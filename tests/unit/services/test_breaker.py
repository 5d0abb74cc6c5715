"""The circuit breaker: for how long a failure opens it, which request is the trial afterwards, and what closes it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.services.http.breaker import Breaker
from tests.support.clock import HandClock

PAUSE, LONGEST = timedelta(seconds=5), timedelta(seconds=30)
MOMENT = timedelta(milliseconds=1)
FIRST = MaasError(MaasFailure.UNREACHABLE, "the region closed the connection")
SECOND = MaasError(MaasFailure.AUTH, "the region refuses the key")


@pytest.fixture
def clock() -> HandClock:
    return HandClock(now=1000.0)


def opened(clock: HandClock, *, longest: timedelta | None = None, one_tries: bool = False) -> Breaker[MaasError]:
    breaker: Breaker[MaasError] = Breaker(clock, pause=PAUSE, longest=longest, one_tries=one_tries)
    breaker.open(FIRST)
    return breaker


def left(breaker: Breaker[MaasError]) -> timedelta:
    trouble = breaker.trouble()
    assert trouble is not None, "a request would be sent"
    return trouble.left


def test_before_any_failure_every_request_is_sent(clock: HandClock) -> None:
    breaker: Breaker[MaasError] = Breaker(clock, pause=PAUSE)
    assert breaker.trouble() is None and breaker.last is None


def test_one_failure_refuses_all_requests_until_the_pause_is_over(clock: HandClock) -> None:
    breaker = opened(clock)
    clock.advance(PAUSE - MOMENT)
    for _ in range(3):
        trouble = breaker.trouble()
        assert trouble is not None
        assert trouble.error is FIRST
        assert (trouble.left, trouble.pause) == (MOMENT, PAUSE)
    clock.advance(MOMENT)
    assert [breaker.trouble() for _ in range(3)] == [None] * 3


def test_after_each_pause_one_trial_is_sent_and_other_requests_wait_one_more_pause(clock: HandClock) -> None:
    breaker = opened(clock, one_tries=True)
    for _ in range(3):
        clock.advance(PAUSE)
        assert breaker.trouble() is None
        assert [left(breaker) for _ in range(3)] == [PAUSE] * 3


def test_a_success_lets_all_requests_through_at_once(clock: HandClock) -> None:
    breaker = opened(clock, longest=LONGEST, one_tries=True)
    breaker.close()
    assert [breaker.trouble() for _ in range(3)] == [None] * 3
    assert breaker.last is None


def test_each_failure_in_a_row_doubles_the_pause_up_to_the_longest(clock: HandClock) -> None:
    breaker = opened(clock, longest=LONGEST)
    pauses = [left(breaker)]
    for _ in range(4):
        clock.advance(pauses[-1])
        breaker.open(SECOND)
        pauses.append(left(breaker))
    assert [pause.total_seconds() for pause in pauses] == [5, 10, 20, 30, 30]


def test_without_a_longest_pause_the_pause_does_not_grow(clock: HandClock) -> None:
    breaker = opened(clock)
    for _ in range(3):
        clock.advance(PAUSE)
        breaker.open(FIRST)
        assert left(breaker) == PAUSE


def test_the_first_failure_after_a_success_has_the_first_pause_again(clock: HandClock) -> None:
    breaker = opened(clock, longest=LONGEST)
    breaker.open(FIRST)
    assert left(breaker) == 2 * PAUSE
    breaker.close()
    breaker.open(FIRST)
    assert left(breaker) == PAUSE


def test_a_failed_trial_opens_the_breaker_with_its_failure_for_twice_as_long(clock: HandClock) -> None:
    breaker = opened(clock, longest=LONGEST, one_tries=True)
    clock.advance(PAUSE)
    assert breaker.trouble() is None
    breaker.open(SECOND, began=clock.monotonic())
    trouble = breaker.trouble()
    assert trouble is not None
    assert (trouble.error, trouble.left) == (SECOND, 2 * PAUSE)


def test_failures_of_concurrent_requests_count_once(clock: HandClock) -> None:
    """Four requests that were sent together and fail for the same cause count as one failure."""
    breaker: Breaker[MaasError] = Breaker(clock, pause=PAUSE, longest=LONGEST)
    began = clock.monotonic()
    clock.advance(MOMENT)
    breaker.open(FIRST, began=began)
    clock.advance(timedelta(seconds=1))
    for _ in range(3):
        breaker.open(SECOND, began=began)
    assert left(breaker) == PAUSE - timedelta(seconds=1)
    assert breaker.last is FIRST


def test_the_failure_is_known_after_its_pause_until_a_success(clock: HandClock) -> None:
    breaker = opened(clock)
    clock.advance(10 * PAUSE)
    assert breaker.trouble() is None and breaker.last is FIRST
    breaker.close()
    assert breaker.last is None
