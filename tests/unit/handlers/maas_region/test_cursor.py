"""The cursor of events: no event is lost or reported twice, in any order of MAAS's commits."""

from __future__ import annotations

from datetime import timedelta

from farrier.handlers.maas_region import cursor as cursors
from farrier.model.maas.reading import Event
from farrier.model.maas.region import Cursor, Gap
from tests.support.nodes import NOW

MINUTE = timedelta(minutes=1)


def events(*ids: int) -> list[Event]:
    return [Event(id=number, node="x00001", type="Node changed status") for number in ids]


def test_only_events_that_were_not_read_before_are_new() -> None:
    cursor, news = cursors.read(Cursor(newest=7), events(6, 7, 8, 9), NOW)
    assert [event.id for event in news] == [8, 9]
    assert cursor == Cursor(newest=9)


def test_without_gaps_the_newest_event_alone_is_read_again() -> None:
    assert cursors.start(Cursor(newest=7), NOW) == (Cursor(newest=7), 6)
    assert cursors.start(Cursor(newest=0), NOW) == (Cursor(newest=0), 0)


def test_an_event_with_a_lower_id_that_is_committed_late_is_new_once() -> None:
    cursor, _ = cursors.read(Cursor(newest=7), events(7, 10), NOW)
    assert cursor.gaps == (Gap(8, 9, NOW),)
    cursor, after = cursors.start(cursor, NOW)
    assert after == 7
    cursor, news = cursors.read(cursor, events(9, 10, 11), NOW)
    assert [event.id for event in news] == [9, 11]
    assert cursor.gaps == (Gap(8, 8, NOW),)
    assert cursors.read(cursor, events(9, 10, 11), NOW)[1] == []


def test_an_event_inside_a_gap_splits_the_gap_in_two() -> None:
    cursor, _ = cursors.read(Cursor(newest=1), events(10), NOW)
    cursor, news = cursors.read(cursor, events(5, 10), NOW)
    assert [event.id for event in news] == [5]
    assert cursor.gaps == (Gap(2, 4, NOW), Gap(6, 9, NOW))


def test_a_gap_that_is_missing_for_long_is_dropped() -> None:
    cursor = Cursor(newest=20, gaps=(Gap(3, 4, NOW - 3 * MINUTE), Gap(11, 12, NOW - MINUTE)))
    assert cursors.start(cursor, NOW) == (Cursor(newest=20, gaps=(Gap(11, 12, NOW - MINUTE),)), 10)


def test_gaps_are_bounded_and_the_newest_are_kept() -> None:
    cursor, news = cursors.read(Cursor(newest=0), events(*range(2, 1000, 2)), NOW)
    assert len(news) == 499
    assert len(cursor.gaps) == cursors.MOST_GAPS
    assert cursor.gaps[-1] == Gap(997, 997, NOW)


def test_reading_continues_at_each_gap_and_then_after_the_newest_event() -> None:
    cursor = Cursor(newest=9000, gaps=(Gap(100, 101, NOW), Gap(4000, 4001, NOW)))
    assert cursors.onward(cursor, 1099, 9000) == 3999
    assert cursors.onward(cursor, 4000, 9000) == 4000
    assert cursors.onward(cursor, 4998, 9000) == 8999
    assert cursors.onward(cursor, 9998, 9000) == 9998
