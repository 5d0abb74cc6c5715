"""The two views for operators: the inventory, with what is late on top, and one node's life.

Plain HTML that works without scripts; each view is one question or two to `Queries`. Shows, and asks for
nothing.
"""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from farrier.model import why
from farrier.model.edges import NODE
from farrier.model.history import HistoryFilter
from farrier.model.status import NodeStatus
from farrier.web import render
from farrier.web.backend import backend_of
from farrier.web.breaches import late_resources
from farrier.web.parameters import wanted

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
            (each, clock)
            for each, clock in await late_resources(backend)
            if not chosen.sites or each.site in chosen.sites
        ][:_MOST_LATE],
        "kinds": await backend.resources.kinds(),
        "figures": await backend.queries.figures(),
        "statuses": tuple(status.value for status in NodeStatus if status is not NodeStatus.DELETED),
        "chosen": chosen,
        "next": f"?{urlencode(following)}" if len(found.rows) == _ROWS else None,
    }
    return render.page("inventory.html", values)


async def lifecycle(request: Request) -> Response:
    """GET /nodes/{name}: where the node is in each layer, what it waits for, what to do, and how it came
    there."""
    backend = backend_of(request)
    found = await backend.queries.node(request.path_params["node"])
    (node,) = found.rows
    values = {
        "now": found.now,
        "node": node,
        "why": why.explain(node, found.now, backend.limits, backend.patience, period=backend.period),
        "timeline": (
            await backend.queries.history(HistoryFilter(resource=(NODE, str(node.id))), limit=_TIMELINE)
        ).changes,
    }
    return render.page("node.html", values)


async def style(_request: Request) -> Response:
    return FileResponse(render.TEMPLATES / "style.css", media_type="text/css")


ROUTES = [
    Route("/", inventory),
    Route("/nodes/{node}", lifecycle),
    Route("/style.css", style),
]
