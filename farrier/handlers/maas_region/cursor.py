"""The position of farrier in a region's events: where to read next, which events are new, and which events may still
appear. Pure.

MAAS assigns IDs before commits, so a lower ID may appear after a higher one was read. If a page skips IDs, farrier
records these IDs as gaps for a while, and begins the next read at the lowest gap. farrier ignores events that it has
already read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from farrier.model.maas.reading import Event
from farrier.model.maas.region import Cursor, Gap

# If an ID is missing for longer, its transaction was rolled back, or its event has a level that farrier does not read.
# A transaction of MAAS lasts at most 90 s, including its retries after conflicts.
LATE = timedelta(minutes=2)
# Each gap takes 50 bytes of the region's row. The newest gaps are kept, because their events may still appear.
MOST_GAPS = 100


def start(cursor: Cursor, now: datetime) -> tuple[Cursor, int]:
    """Return the cursor without expired gaps, and the ID after which to read. The newest known event is read again,
    because a region without this event was replaced or restored."""
    assert cursor.newest is not None, "the caller begins a cursor first"
    gaps = tuple(gap for gap in cursor.gaps if now - gap.at <= LATE)
    first = min((gap.first for gap in gaps), default=cursor.newest)
    return Cursor(newest=cursor.newest, gaps=gaps), max(0, min(first, cursor.newest) - 1)


def onward(cursor: Cursor, read_until: int, known: int) -> int:
    """Return the ID after which the next page begins, if the last page ended at `read_until`. `known` was the newest ID
    when the read began. The next page begins at the next gap or, without a gap, at `known`, because all other events
    before `known` have already been read."""
    if read_until >= known:
        return read_until
    ahead = (max(gap.first, read_until + 1) for gap in cursor.gaps if gap.last > read_until)
    return min(min(ahead, default=known), known) - 1


def read(cursor: Cursor, page: Sequence[Event], now: datetime) -> tuple[Cursor, list[Event]]:
    """Return the cursor after `page`, and the new events of the page. The page must be sorted."""
    assert cursor.newest is not None, "a cursor must begin before it moves"
    newest, gaps = cursor.newest, cursor.gaps
    news: list[Event] = []
    for event in page:
        if event.id > newest:
            if event.id > newest + 1:
                gaps = (*gaps, Gap(newest + 1, event.id - 1, now))
            newest = event.id
        elif any(gap.first <= event.id <= gap.last for gap in gaps):
            gaps = _without(gaps, event.id)
        else:
            continue
        news.append(event)
    return Cursor(newest=newest, gaps=gaps[-MOST_GAPS:]), news


def _without(gaps: tuple[Gap, ...], number: int) -> tuple[Gap, ...]:
    left: list[Gap] = []
    for gap in gaps:
        if not gap.first <= number <= gap.last:
            left.append(gap)
            continue
        if gap.first < number:
            left.append(Gap(gap.first, number - 1, gap.at))
        if number < gap.last:
            left.append(Gap(number + 1, gap.last, gap.at))
    return tuple(left)
