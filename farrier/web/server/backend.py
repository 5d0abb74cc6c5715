"""The queries and settings that the web application uses once the database is available."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from starlette.requests import Request

from farrier.clock import MonotonicClock
from farrier.errors import DatabaseUnreachable
from farrier.model.advice.diagnosis import Patience
from farrier.model.node.limits import Limits
from farrier.model.views import sweeps
from farrier.model.views.nodes import Counts, NodeFilter
from farrier.protocols import Clock, MonitorCalls, Requests, ServerQueries

# This is shorter than the interval at which an open page fetches its content again.
_SECONDS = 5.0
# The number of filters that are cached, enough for all open pages; each takes a kilobyte.
_MOST = 100


class RecentCounts:
    """The counts of each filter of the inventory, at most 5 s old: counting reads all nodes, and each open page asks
    repeatedly."""

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


class Backend(msgspec.Struct, frozen=True):
    """The queries and settings that responses need. `limits` has only the limits that differ from the defaults. `token`
    reads the bearer token again for each write, so that it can be rotated; None if writes are disabled. `monitors`
    records reports of monitors. `patience` has the age at which an agent counts as silent. `period` is the period of
    the controllers' sweeps. `bootstrap_ttl` is how long a bootstrap token is valid. `dashboards_url` is the setting.
    `counts` caches counts for pages."""

    queries: ServerQueries
    requests: Requests
    limits: Limits
    token: Callable[[], Awaitable[str]] | None
    monitors: MonitorCalls
    patience: Patience = Patience()
    period: timedelta = sweeps.PERIOD
    bootstrap_ttl: timedelta = timedelta(hours=72)
    dashboards_url: str = ""
    counts: RecentCounts = msgspec.field(default_factory=RecentCounts)


def backend_of(request: Request) -> Backend:
    """Return the backend. Raises DatabaseUnreachable while the daemon starts."""
    backend = getattr(request.app.state, "backend", None)
    if isinstance(backend, Backend):
        return backend
    raise DatabaseUnreachable("the configured server", "farrier has not connected to it yet")
