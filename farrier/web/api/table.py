"""The HTTP API. One table lists all operations; the routes and the OpenAPI document are made from it.

Lists are paged: `next` of one response is `after` (or `before`) of the next request, and null at the end. Durations are
in seconds, and times in ISO 8601. docs/integrate/http.md describes the API.
"""

from __future__ import annotations

from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.web.api import decoding, fleet, history, intents, monitors, nodes, openapi, operation, resources

# If a path with a parameter also matches other paths, it is after them in the table.
OPERATIONS = (
    *nodes.OPERATIONS,
    *intents.OPERATIONS,
    *history.OPERATIONS,
    *resources.OPERATIONS,
    *fleet.OPERATIONS,
    *monitors.OPERATIONS,
)

_API = openapi.Api(
    title="farrier",
    description="Nodes and other resources, their intents and their history.",
    prefix="/api/v1",
    refusals={
        400: "A parameter or the body is wrong.",
        401: "The request has no valid token.",
        403: "The token does not have the required scope.",
        404: "The path, or a resource that it names, does not exist.",
        429: "Too many requests from this address had an invalid token. `Retry-After` is the number of seconds to "
        "wait.",
        503: "The database cannot be reached now.",
    },
)


@cache
def document() -> bytes:
    """Return the OpenAPI document of the API."""
    return openapi.document(OPERATIONS, _API)


async def describe(request: Request) -> Response:
    """GET /openapi.json."""
    decoding.refuse_unknown(request, ())
    return Response(document(), media_type="application/json")


ROUTES = [Route("/openapi.json", describe), *operation.routes(OPERATIONS)]
