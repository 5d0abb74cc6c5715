"""The views for operators: the inventory, with late nodes on top; the resources of a kind; and a single resource.

Plain HTML without scripts; each view makes one or two queries. The views are read-only.
"""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from farrier.model import details, resource_why, why
from farrier.model.clocks import worst
from farrier.model.edges import NODE
from farrier.model.history import HistoryEntry, HistoryFilter
from farrier.model.resource_views import WantedResources, clocks_of
from farrier.model.status import NodeStatus
from farrier.web import render
from farrier.web.backend import Backend, backend_of
from farrier.web.breaches import late_resources
from farrier.web.parameters import after, key_of, wanted

_ROWS = 200
_MOST_LATE = 20
_TIMELINE = 50


async def inventory(request: Request) -> Response:
    """GET /: coarse status only; nodes above a limit first."""
    backend = backend_of(request)
    chosen = wanted(request)
    found = await backend.queries.inventory(chosen, after=request.query_params.get("after", ""), limit=_ROWS)
    late = await backend.queries.overdue(chosen, backend.limits, limit=_MOST_LATE)
    following = [(key, value) for key, value in request.query_params.multi_items() if key != "after"]
    if len(found.rows) == _ROWS:
        following.append(("after", found.rows[-1].name))
    values = {
        "now": found.now,
        "nodes": found.rows,
        "late": late.rows,
        "more_late": late.more,
        "late_resources": [
            (each, clock) for each, clock in await late_resources(backend) if chosen.fits_site(each.site)
        ][:_MOST_LATE],
        "kinds": await backend.resources.kinds(),
        "figures": await backend.queries.figures(),
        "statuses": tuple(status.value for status in NodeStatus if status is not NodeStatus.DELETED),
        "chosen": chosen,
        "listed": details.LISTED,
        "next": f"?{urlencode(following)}" if len(found.rows) == _ROWS else None,
    }
    return render.page("inventory.html", values)


async def lifecycle(request: Request) -> Response:
    """GET /nodes/{name}: the node's state in each layer, what it waits for, what to do, and its newest history."""
    backend = backend_of(request)
    found = await backend.queries.node(request.path_params["node"])
    (node,) = found.rows
    values = {
        "now": found.now,
        "resource": node,
        "details": details.shown(node),
        "requests": node.requests,
        "why": why.explain(node, found.now, backend.limits, backend.patience, period=backend.period),
        "timeline": await _timeline(backend, NODE, node.id),
    }
    return render.page("node.html", values)


async def resources(request: Request) -> Response:
    """GET /resources/{kind}: the resources that have not ended, by name."""
    backend, kind = backend_of(request), request.path_params["kind"]
    found = await backend.resources.resources(WantedResources(kind=kind), after=after(request), limit=_ROWS)
    values = {
        "now": found.now,
        "kind": kind,
        "rows": [(each, worst(clocks_of(each, found.now, backend.limits))) for each in found.rows],
        "next": f"?{urlencode({'after': key_of(found.rows[-1])})}" if len(found.rows) == _ROWS else None,
    }
    return render.page("resources.html", values)


async def resource(request: Request) -> Response:
    """GET /resources/{kind}/{name}: the same as `lifecycle` for any other kind."""
    backend = backend_of(request)
    found = await backend.resources.resource(request.path_params["kind"], request.path_params["name"])
    (detail,) = found.rows
    values = {
        "now": found.now,
        "resource": detail.resource,
        "requests": detail.requests,
        "why": resource_why.explain(detail, found.now, backend.limits, period=backend.period),
        "timeline": await _timeline(backend, detail.resource.kind, detail.resource.id),
    }
    return render.page("resource.html", values)


async def _timeline(backend: Backend, kind: str, id_: int) -> tuple[HistoryEntry, ...]:
    wanted_ = HistoryFilter(resource=(kind, str(id_)))
    return (await backend.queries.history(wanted_, limit=_TIMELINE)).changes


async def style(_request: Request) -> Response:
    return FileResponse(render.TEMPLATES / "style.css", media_type="text/css")


ROUTES = [
    Route("/", inventory),
    Route("/nodes/{node}", lifecycle),
    Route(f"/resources/{NODE}", inventory),
    Route(f"/resources/{NODE}/{{node}}", lifecycle),
    Route("/resources/{kind}", resources),
    Route("/resources/{kind}/{name}", resource),
    Route("/style.css", style),
]
