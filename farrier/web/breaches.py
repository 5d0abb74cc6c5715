"""Nodes and other resources above a limit, the worst first, as JSON and for the inventory's page.

Clocks are in seconds. The list has at most a thousand nodes, and the number of further nodes: a longer list helps no
operator, and takes CPU time from the loop. A paused node is listed with the reason of the pause; alerts leave it out.
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.model.clocks import Clock
from farrier.model.details import LISTED
from farrier.model.resource_views import LateResource, late_clock
from farrier.web.backend import Backend, backend_of
from farrier.web.parameters import OF_NODES, known, takes

# With so many nodes a response has half a megabyte, and takes some milliseconds to encode.
MOST_NODES = 1000
MOST_RESOURCES = 1000


@takes(*OF_NODES)
async def list_breaches(request: Request) -> Response:
    """GET /breaches?status=…&management=…&site=…&model=…"""
    backend = backend_of(request)
    chosen = known(request)
    late = await backend.queries.overdue(chosen, backend.limits, limit=MOST_NODES)
    nodes = [
        {
            "node": overdue.node.name,
            **{name: getattr(overdue.node, name) for name in LISTED},
            "paused": overdue.node.paused,
            "clocks": [clock_as_json(clock) for clock in overdue.clocks],
        }
        for overdue in late.rows
    ]
    resources = [
        {"kind": each.kind, "resource": each.name, "site": each.site, "clocks": [clock_as_json(clock)]}
        for each, clock in await late_resources(backend)
        if chosen.fits_site(each.site)
    ]
    content = {"now": late.now, "nodes": nodes, "more_nodes": late.more, "resources": resources}
    return Response(msgspec.json.encode(content), media_type="application/json")


async def late_resources(backend: Backend) -> list[tuple[LateResource, Clock]]:
    """Return at most a thousand resources of other kinds, each with the clock above its limit, the worst first."""
    found = await backend.resources.late(backend.limits, limit=MOST_RESOURCES)
    return [(each, late_clock(each, found.now)) for each in found.rows]


def clock_as_json(clock: Clock) -> dict[str, object]:
    """A clock in the form of the API."""
    return {
        "layer": clock.layer,
        "state": clock.state,
        "since": clock.since,
        "limit_seconds": None if clock.limit is None else clock.limit.total_seconds(),
        "above_seconds": None if clock.above is None else clock.above.total_seconds(),
        "note": clock.note,
    }


ROUTES = [Route("/breaches", list_breaches)]
