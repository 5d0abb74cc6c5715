"""What the web application works on, once the database is there, and what a request may say of pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from farrier.errors import DatabaseUnreachable
from farrier.model.limits import Limits
from farrier.model.views import Wanted
from farrier.protocols import Queries, Requests, ResourceQueries


class Backend(msgspec.Struct, frozen=True):
    """Reads, writes, the limits that differ from the defaults, the token that writes need, and reads of other kinds.
    `token` is None where writing is switched off; else it is asked anew for each write, so that it may be rotated."""

    queries: Queries
    requests: Requests
    limits: Limits
    token: Callable[[], Awaitable[str]] | None
    resources: ResourceQueries


def backend_of(request: Request) -> Backend:
    """Raises DatabaseUnreachable while the daemon starts."""
    backend = getattr(request.app.state, "backend", None)
    if isinstance(backend, Backend):
        return backend
    raise DatabaseUnreachable("the configured server", "it has not been reached yet")


def wanted(request: Request) -> Wanted:
    """Which nodes are asked for: `?status=active&status=offline&site=ams`."""
    given = request.query_params
    return Wanted(
        statuses=tuple(given.getlist("status")),
        managements=tuple(given.getlist("management")),
        sites=tuple(given.getlist("site")),
    )


def limit(request: Request, *, default: int, most: int) -> int:
    """How many rows are asked for."""
    return int(number(request, "limit", default=default, most=most, least=1))


def number(request: Request, name: str, *, default: float, most: float, least: float = 0) -> float:
    """A number of the query string. Raises HTTPException with what was expected."""
    given = request.query_params.get(name)
    if given is None:
        return default
    try:
        value = float(given)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise HTTPException(400, f"{name} is a number from {least:g} to {most:g}, not {given!r}")
    return value
