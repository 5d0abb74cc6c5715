"""Caches the counts of the inventory for some seconds, because counting reads all nodes, and each open page requests
counts repeatedly."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from farrier.clock import MonotonicClock
from farrier.model.views.nodes import Counts, NodeFilter
from farrier.protocols import Clock, ServerQueries

# This is shorter than the interval at which an open page fetches its content again.
_SECONDS = 5.0
# The number of filters that are cached, enough for all open pages; each takes a kilobyte.
_MOST = 100


class RecentCounts:
    """The counts of each filter, at most 5 s old."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._kept: OrderedDict[bytes, tuple[float, Counts]] = OrderedDict()

    async def of(self, queries: ServerQueries, wanted: NodeFilter) -> Counts:
        """Return the counts of a filter."""
        key = msgspec.json.encode(wanted)
        now = self._clock.monotonic()
        if key in self._kept and now - self._kept[key][0] < _SECONDS:
            return self._kept[key][1]
        counts = await queries.counts(wanted)
        self._kept[key] = (now, counts)
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return counts
