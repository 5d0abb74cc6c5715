"""What the web application uses once the database is available."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from starlette.requests import Request

from farrier.errors import DatabaseUnreachable
from farrier.model import sweeps
from farrier.model.diagnosis import Patience
from farrier.model.limits import Limits
from farrier.protocols import Queries, Requests, ResourceQueries


class Backend(msgspec.Struct, frozen=True):
    """Reads, writes, the limits that differ from the defaults, the token for writes, reads of other kinds, after how
    long an agent counts as silent, and the period of the controllers. `token` is None if writing is switched off;
    otherwise it is read for each write, so that it may be rotated."""

    queries: Queries
    requests: Requests
    limits: Limits
    token: Callable[[], Awaitable[str]] | None
    resources: ResourceQueries
    patience: Patience = Patience()
    period: timedelta = sweeps.PERIOD


def backend_of(request: Request) -> Backend:
    """Raises DatabaseUnreachable while the daemon starts."""
    backend = getattr(request.app.state, "backend", None)
    if isinstance(backend, Backend):
        return backend
    raise DatabaseUnreachable("the configured server", "it has not been reached yet")
