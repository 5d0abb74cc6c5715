"""Wraps operations and pages with a kind in their path, so that the path of an unregistered kind does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeVar

from starlette.responses import Response

from farrier.errors import MalformedRequest, RefusedByModel

# SQLSTATEs of the database: for an unknown kind, and for a resource that does not exist.
_MALFORMED = "FR400"
_NOT_FOUND = "FR404"

A = TypeVar("A")


def of_a_kind(respond: Callable[[A], Awaitable[Response]]) -> Callable[[A], Awaitable[Response]]:
    """Make `respond` return 404 for an unknown kind. A text that the database cannot store still results in 400."""

    @wraps(respond)
    async def found(asked: A) -> Response:
        try:
            return await respond(asked)
        except MalformedRequest as error:
            if error.sqlstate != _MALFORMED:
                raise
            raise RefusedByModel(error.text, hint=error.hint, sqlstate=_NOT_FOUND) from error

    return found
