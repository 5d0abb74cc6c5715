"""Steps get slots in the order in which they asked for one, and no slot stays free while a step waits."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from farrier.controller.agenda import AgendaEntry
from farrier.controller.steps import Slots


def entries(*ids: int) -> list[AgendaEntry[Any]]:
    return [AgendaEntry(id=id_, shard=id_) for id_ in ids]


def ids(found: list[AgendaEntry[Any]]) -> list[int]:
    return [entry.id for entry in found]


def test_a_step_takes_a_free_slot_at_once() -> None:
    slots: Slots[Any] = Slots()
    assert ids(slots.take(entries(1, 2, 3), entries(1, 3), free=2)) == [1, 3]


def test_a_freed_slot_is_promised_to_the_first_in_the_queue() -> None:
    slots: Slots[Any] = Slots()
    first, second, third = entries(1, 2, 3)
    slots.take([first], [first], free=1)
    slots.take([second], [second], free=0)
    slots.take([third], [third], free=0)
    assert slots.promise(0) == []
    assert slots.promise(1) == [second]
    assert slots.take([second], [second], free=1) == [second]


def test_a_newcomer_does_not_overtake_the_queue() -> None:
    slots: Slots[Any] = Slots()
    first, second, newcomer = entries(1, 2, 3)
    slots.take([first, second], [first, second], free=1)
    assert slots.take([newcomer], [newcomer], free=1) == []
    assert slots.promise(1) == [second]
    assert slots.take([newcomer, second], [newcomer, second], free=1) == [second]


def test_a_run_in_the_queue_keeps_its_place_or_leaves_it_without_a_step() -> None:
    slots: Slots[Any] = Slots()
    first, second, third = entries(1, 2, 3)
    slots.take([first, second, third], [first, second, third], free=1)
    slots.take([third], [third], free=0)
    slots.take([second], [], free=0)
    assert slots.promise(1) == [third]


def test_a_promise_that_is_not_needed_goes_to_the_next() -> None:
    slots: Slots[Any] = Slots()
    first, second, third = entries(1, 2, 3)
    slots.take([first, second, third], [first, second, third], free=1)
    assert slots.promise(1) == [second]
    assert slots.take([second], [], free=1) == []
    assert slots.promise(1) == [third]


def test_a_lost_resource_keeps_no_slot() -> None:
    slots: Slots[Any] = Slots()
    first, second, third = entries(1, 2, 3)
    slots.take([first, second, third], [first, second, third], free=1)
    assert slots.promise(1) == [second]
    slots.forget(second.shard)
    assert slots.promise(1) == [third]


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from(["run", "rest", "end", "lose"]), st.integers(0, 5))))
def test_no_slot_is_given_twice_or_stays_free_while_a_step_waits(number: int, events: list[tuple[str, int]]) -> None:
    slots: Slots[Any] = Slots()
    known = entries(*range(6))
    acting: set[int] = set()
    waiting: set[int] = set()
    called: set[int] = set()
    for event, id_ in events:
        entry = known[id_]
        if event in ("run", "rest") and id_ not in acting:
            wanting = [entry] if event == "run" else []
            waiting.discard(id_)
            called.discard(id_)
            acting |= set(ids(slots.take([entry], wanting, free=number - len(acting))))
            waiting |= set(ids(wanting)) - acting
        elif event == "end" and id_ in acting:
            acting.remove(id_)
        elif event == "lose":
            slots.forget(entry.shard)
            waiting.discard(id_)
            called.discard(id_)
        now = set(ids(slots.promise(number - len(acting))))
        waiting -= now
        called |= now
        assert len(acting) + len(called) <= number
        assert not waiting or len(acting) + len(called) == number
        assert set(slots.waiting) == waiting | called
