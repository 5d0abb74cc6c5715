"""Wraps API operations with a kind in their path, so that the path of an unregistered kind does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from starlette.responses import Response

from farrier.errors import MalformedRequest, RefusedByModel
from farrier.web.operation import Call

# SQLSTATEs of the database: for an unknown kind, and for a resource that does not exist.
_MALFORMED = "FR400"
_NOT_FOUND = "FR404"

Respond = Callable[[Call[Any, Any]], Awaitable[Response]]


def of_a_kind(respond: Respond) -> Respond:
    """Make `respond` return 404 for an unknown kind. A text that the database cannot store still results in 400."""

    @wraps(respond)
    async def found(call: Call[Any, Any]) -> Response:
        try:
            return await respond(call)
        except MalformedRequest as error:
            if error.sqlstate != _MALFORMED:
                raise
            raise RefusedByModel(error.text, hint=error.hint, sqlstate=_NOT_FOUND) from error

    return found
