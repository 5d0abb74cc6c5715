"""The pages for operators: their paths, and the pages of kinds, controllers and monitors. The server renders all pages,
and they need no script; `live.js` updates an open page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from farrier.model.node.layers import NODE
from farrier.web.pages import actions, brakes, bulk, history, lists, login, render, resource
from farrier.web.server.backend import backend_of


async def kinds(request: Request) -> Response:
    """GET /resources: all kinds, and how many resources each state has."""
    found = await backend_of(request).queries.kinds()
    return render.page(request, "kinds.html", {"at": "resources", "every": lists.LIVE_SECONDS, "kinds": found})


async def controllers(request: Request) -> Response:
    """GET /controllers: the controllers with their shards, the shards without a controller, and the brakes."""
    queries = backend_of(request).queries
    held = await queries.brakes()
    values = {
        "found": await queries.controllers(),
        "brakes": held.rows,
        "now": held.now,
        "may_lift": await actions.client_of(request) is not None,
    }
    return render.page(request, "controllers.html", {"at": "controllers", "every": lists.LIVE_SECONDS, **values})


async def monitors(request: Request) -> Response:
    """GET /monitors: the monitors, and the reports that were not taken."""
    queries = backend_of(request).queries
    found, refused = await queries.monitors(), await queries.refusals(limit=100)
    values = {"at": "monitors", "every": lists.LIVE_SECONDS, "monitors": found.rows, "refusals": refused.rows}
    return render.page(request, "monitors.html", {**values, "now": found.now})


async def style(_request: Request) -> Response:
    return FileResponse(render.TEMPLATES / "style.css", media_type="text/css")


async def live(_request: Request) -> Response:
    return FileResponse(render.TEMPLATES / "live.js", media_type="text/javascript")


ROUTES = [
    Route("/", lists.inventory),
    Route("/nodes", lists.nodes),
    Route("/nodes/{node}", resource.node),
    Route("/resources", kinds),
    Route(f"/resources/{NODE}", lists.nodes),
    Route(f"/resources/{NODE}/{{node}}", resource.node),
    Route("/resources/{kind}", lists.resources),
    Route("/resources/{kind}/{name}", resource.resource),
    *actions.ROUTES,
    *bulk.ROUTES,
    *brakes.ROUTES,
    *login.ROUTES,
    Route("/controllers", controllers),
    Route("/monitors", monitors),
    Route("/history", history.history),
    Route("/style.css", style),
    Route("/live.js", live),
]
