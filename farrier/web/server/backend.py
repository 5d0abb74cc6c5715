"""The queries and settings that the web application uses once the database is available."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from starlette.requests import Request

from farrier.errors import DatabaseUnreachable
from farrier.model.advice.diagnosis import Patience
from farrier.model.node.limits import Limits
from farrier.model.views import sweeps
from farrier.protocols import MonitorCalls, Requests, ServerQueries
from farrier.web.pages.recent_counts import RecentCounts


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
