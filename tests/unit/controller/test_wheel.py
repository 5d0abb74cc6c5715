"""The timing wheel: each due entry is taken once, in the order of time, however much time has passed."""

from __future__ import annotations

from farrier.controller.wheel import NOWHERE, TICK, Wheel

MANY = 1_000_000
YEARS = 1e11


class Timer:
    def __init__(self) -> None:
        self.slot = NOWHERE


def taken(wheel: Wheel[Timer], now: float, limit: int = MANY) -> list[Timer]:
    return wheel.take(now, limit)


def test_due_entries_are_taken_once_and_other_entries_stay() -> None:
    wheel: Wheel[Timer] = Wheel()
    soon, later = Timer(), Timer()
    wheel.put(later, 60.0)
    wheel.put(soon, 1.0)
    assert taken(wheel, 1.0 + 2 * TICK) == [soon]
    assert taken(wheel, 1.0 + 2 * TICK) == []
    assert taken(wheel, 60.0 + 2 * TICK) == [later]


def test_an_entry_that_is_put_again_is_due_only_at_its_new_time() -> None:
    wheel: Wheel[Timer] = Wheel()
    timer = Timer()
    wheel.put(timer, 1.0)
    wheel.put(timer, 60.0)
    assert taken(wheel, 50.0) == []
    assert taken(wheel, 61.0) == [timer]
    assert taken(wheel, 70.0) == []


def test_entries_that_are_put_back_are_due_at_once() -> None:
    wheel: Wheel[Timer] = Wheel()
    timer = Timer()
    wheel.put(timer, 60.0)
    now = 60.0 + 2 * TICK
    wheel.put_back(taken(wheel, now), now)
    assert taken(wheel, now) == [timer]


def test_entries_above_the_limit_wait_for_the_next_call_and_count_as_overdue() -> None:
    wheel: Wheel[Timer] = Wheel()
    timers = [Timer() for _ in range(5)]
    for timer in timers:
        wheel.put(timer, 1.0)
    first = taken(wheel, 11.0, limit=3)
    assert wheel.overdue(11.0) > 9.0
    assert {id(each) for each in first + taken(wheel, 11.0)} == {id(each) for each in timers}
    assert wheel.overdue(11.0) == 0.0


def test_after_years_without_a_call_due_entries_are_taken_in_order() -> None:
    wheel: Wheel[Timer] = Wheel()
    timers = [Timer() for _ in range(100)]
    for second, timer in enumerate(timers):
        wheel.put(timer, float(second))
    never = Timer()
    wheel.put(never, 2 * YEARS)
    assert taken(wheel, YEARS, limit=60) + taken(wheel, YEARS) == timers
    assert taken(wheel, YEARS) == []
    assert taken(wheel, 2 * YEARS + 2 * TICK) == [never]


def test_an_entry_that_is_put_after_years_without_a_call_is_due_at_its_time() -> None:
    wheel: Wheel[Timer] = Wheel()
    wheel.put(Timer(), 2 * YEARS)
    assert taken(wheel, YEARS) == []
    timer = Timer()
    wheel.put(timer, YEARS + 1.0)
    assert taken(wheel, YEARS + 1.0 + 2 * TICK) == [timer]
