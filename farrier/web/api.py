"""The HTTP API: all operations in one table, from which its routes and its OpenAPI document are made.

Lists are paged: `next` of one response is `after` (or `before`) of the next request, and null at the end. Durations are
seconds, times ISO 8601. docs/http-api.md describes the API.
"""

from __future__ import annotations

from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.web import breaches, controllers, fleet, given, history, intents, nodes, openapi, operation, resources

# A path with a name in it comes after the paths that it would match, too.
OPERATIONS = (
    *nodes.OPERATIONS,
    *intents.OPERATIONS,
    *history.OPERATIONS,
    *resources.OPERATIONS,
    *breaches.OPERATIONS,
    *controllers.OPERATIONS,
    *fleet.OPERATIONS,
)


@cache
def document() -> bytes:
    """The OpenAPI document of the API."""
    return openapi.document(OPERATIONS)


async def describe(request: Request) -> Response:
    """GET /openapi.json."""
    given.refuse_unknown(request, ())
    return Response(document(), media_type="application/json")


ROUTES = [Route("/openapi.json", describe), *operation.routes(OPERATIONS)]
