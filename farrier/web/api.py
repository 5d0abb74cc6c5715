"""The HTTP API. One table lists all operations; the routes and the OpenAPI document are made from it.

Lists are paged: `next` of one response is `after` (or `before`) of the next request, and null at the end. Durations are
in seconds, and times in ISO 8601. docs/http-api.md describes the API.
"""

from __future__ import annotations

from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.web import breaches, fleet, given, history, intents, nodes, openapi, operation, resources

# If a path with a parameter also matches other paths, it is after them in the table.
OPERATIONS = (
    *nodes.OPERATIONS,
    *intents.OPERATIONS,
    *history.OPERATIONS,
    *resources.OPERATIONS,
    *breaches.OPERATIONS,
    *fleet.OPERATIONS,
)


@cache
def document() -> bytes:
    """Return the OpenAPI document of the API."""
    return openapi.document(OPERATIONS)


async def describe(request: Request) -> Response:
    """GET /openapi.json."""
    given.refuse_unknown(request, ())
    return Response(document(), media_type="application/json")


ROUTES = [Route("/openapi.json", describe), *operation.routes(OPERATIONS)]
