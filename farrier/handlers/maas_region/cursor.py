"""The cursor over a region's events: where to read from, what of a page is news, and what may still come late. Pure.

Ids are given out before they are committed, so a lower one may appear after a higher one was read. Ids that a page
skips are kept as gaps for a while, and reading begins at the lowest of them; what it brings again is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from farrier.model.maas import Event
from farrier.model.maas_region import Cursor, Gap

# An id that is missing for longer was rolled back, or is of a level that is not asked for. The region's own requests
# give up after 90 s of conflicts.
LATE = timedelta(minutes=2)
# Each costs 50 bytes of the region's row; the newest are those that may still be filled.
MOST_GAPS = 100


def start(cursor: Cursor, now: datetime) -> tuple[Cursor, int]:
    """The cursor without what will not come any more, and behind which id to read. The newest event known is read once
    more: a region that does not have it is not the one that it was."""
    assert cursor.newest is not None, "no events are stored to read after"
    gaps = tuple(gap for gap in cursor.gaps if now - gap.at <= LATE)
    first = min((gap.first for gap in gaps), default=cursor.newest)
    return Cursor(newest=cursor.newest, gaps=gaps), max(0, min(first, cursor.newest) - 1)


def onward(cursor: Cursor, read_until: int, known: int) -> int:
    """Behind which id to read on, after a page that ends at `read_until`, of a look that began when `known` was the
    newest: at the next gap, or else behind the newest. What lies between was read before."""
    if read_until >= known:
        return read_until
    ahead = (max(gap.first, read_until + 1) for gap in cursor.gaps if gap.last > read_until)
    return min(min(ahead, default=known), known) - 1


def read(cursor: Cursor, page: Sequence[Event], now: datetime) -> tuple[Cursor, list[Event]]:
    """The cursor behind `page`, which is sorted, and what of the page is news."""
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
