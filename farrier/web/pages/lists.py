"""The pages with lists: the inventory, which begins with late nodes or shows groups, and the resources of a kind.

Each list has a search, a filter for each column, an order, and pages. A page begins after the key of the previous page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from farrier.model.intents.actions import Action
from farrier.model.node import details
from farrier.model.node.clocks import above, worst
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.views.nodes import BY_NAME, GROUPS, ORDERS, NodeFilter, NodeView, Page, SortKey
from farrier.model.views.resources import KindView, clocks_of
from farrier.web.api import decoding as reading
from farrier.web.api.fleet import late_resources
from farrier.web.api.parameter_types import Nodes, narrowed
from farrier.web.api.resources import ResourceQuery, key_of, parse_after
from farrier.web.pages import actions, render
from farrier.web.pages.query import Address, searched, without_blanks
from farrier.web.pages.runs import runs_of
from farrier.web.server.backend import Backend, backend_of

# Interval at which an open page fetches its content again.
LIVE_SECONDS = 10
_ROWS = 100
_MOST_LATE = 20
# Enough for the racks of a large site; a filter by site shows the racks of another.
_MOST_GROUPS = 1000
_STATUSES = tuple(status.value for status in NodeStatus if status is not NodeStatus.DELETED)
_MANAGEMENTS = tuple(management.value for management in Management)
_NODES = narrowed(Nodes)
# What `_rows` and `_groups` replace.
_NO_ROWS = {"groups": (), "nodes": (), "late_resources": (), "more_late": 0, "next": None}
# Parameters of the inventory that select nodes, in the order in which the page shows them.
_FILTERS = ("q", "name", "label", "status", "management", *details.LISTED, "failed")


@without_blanks
async def inventory(request: Request) -> Response:
    """GET /?q=…&label=…&status=…&management=…&site=…&failed=1&group=…&sort=…&after=…"""
    backend, given = backend_of(request), request.query_params
    chosen = selection(request)
    address = Address(given.multi_items())
    brakes = await backend.queries.brakes()
    values = {
        "at": "nodes",
        "every": LIVE_SECONDS,
        "now": brakes.now,
        "brakes": brakes.rows,
        "figures": await backend.queries.figures(),
        "counts": await backend.counts.of(backend.queries, chosen),
        "statuses": _STATUSES,
        "managements": _MANAGEMENTS,
        "chosen": chosen,
        "given": given,
        "active": _active(request),
        "listed": details.LISTED,
        "fields": GROUPS,
        "group": given.get("group", ""),
        "order": given.get("sort", BY_NAME),
        "address": address,
        "is_first": "after" not in given,
        "runs": runs_of(request).current,
        "actions": tuple(map(str, Action)) if await actions.client_of(request) is not None else (),
        "kept": [pair for pair in address.pairs if pair[0] in _FILTERS],
    }
    group = given.get("group", "")
    rows = await _groups(backend, chosen, group) if group else await _rows(request, backend, chosen)
    return render.page(request, "inventory.html", values | _NO_ROWS | rows)


async def _groups(backend: Backend, chosen: NodeFilter, field: str) -> dict[str, Any]:
    if field not in GROUPS:
        raise HTTPException(400, f"group must be one of {', '.join(GROUPS)}, not {field!r}")
    return {"groups": await backend.queries.groups(chosen, field, limit=_MOST_GROUPS)}


async def _rows(request: Request, backend: Backend, chosen: NodeFilter) -> dict[str, Any]:
    """Return a page of nodes. By name, the first begins with the nodes above a limit, and no page repeats them."""
    given = request.query_params
    order, after_ = given.get("sort", BY_NAME), given.get("after", "")
    found, following = await _page(backend, chosen, order, after_)
    late = None if order != BY_NAME else await backend.queries.overdue(chosen, backend.limits, limit=_MOST_LATE)
    first = () if late is None else tuple(each.node for each in late.rows)
    before = {node.id for node in first}
    rows = (*(() if after_ else first), *(node for node in found.rows if node.id not in before))
    others = [(each, clock) for each, clock in await late_resources(backend) if chosen.fits_site(each.site)]
    return {
        "nodes": [(node, worst(above(node, found.now, backend.limits))) for node in rows],
        "more_late": 0 if late is None else late.more,
        "late_resources": others[:_MOST_LATE],
        "next": None if following is None else Address(given.multi_items()).page(following),
    }


async def nodes(request: Request) -> Response:
    """GET /resources/node?state=…: the inventory. `state` is a state of any layer, as in the list of any other kind."""
    given = request.query_params.multi_items()
    kept = [(_layer_of(value) if name == "state" else name, value) for name, value in given]
    if kept == given:
        return await inventory(request)
    return RedirectResponse(f"?{urlencode(kept)}", HTTPStatus.SEE_OTHER)


def _layer_of(state: str) -> str:
    return "management" if state in _MANAGEMENTS else "status"


def selection(request: Request) -> NodeFilter:
    """Return the filter of the inventory. It has the parameters of the API, and a search."""
    given = reading.parameters(request, _NODES, reading.fields(_NODES, "/"))
    names, labels = searched(request)
    return replace(given, name=(*names, *given.name), label=(*labels, *given.label)).wanted()


def _active(request: Request) -> list[tuple[str, str]]:
    """Return the filters of the page that are set."""
    return [(name, value) for name in _FILTERS for value in request.query_params.getlist(name)]


async def _page(backend: Backend, chosen: NodeFilter, order: str, after_: str) -> tuple[Page[NodeView], str | None]:
    """Return a page of nodes, and the key of the next page; None after the last page."""
    if order == BY_NAME:
        found = await backend.queries.inventory(chosen, after=after_, limit=_ROWS)
        return found, found.rows[-1].name if len(found.rows) == _ROWS else None
    if order not in ORDERS:
        raise HTTPException(400, f"sort must be one of {', '.join(ORDERS)}, not {order!r}")
    try:
        key = msgspec.json.decode(after_, type=SortKey) if after_ else None
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise HTTPException(
            400, f"parameter after: expected the key from a page's link to the next page, got {after_!r}"
        ) from None
    ordered = await backend.queries.ordered(chosen, order, after=key, limit=_ROWS)
    following = None if ordered.following is None else msgspec.json.encode(ordered.following).decode()
    return ordered.page, following


@without_blanks
async def resources(request: Request) -> Response:
    """GET /resources/{kind}?q=…&state=…&site=…&ended=1&after=…: the resources, by name. Resources that have ended are
    included only with `ended`."""
    backend, given, kind = backend_of(request), request.query_params, request.path_params["kind"]
    filter_ = reading.parameters(request, ResourceQuery, reading.fields(ResourceQuery, "/resources/{kind}"))
    names, _ = searched(request)
    chosen = replace(filter_, name=(*names, *filter_.name)).wanted()
    found = await backend.queries.resources(chosen, after=parse_after(filter_.after), limit=_ROWS)
    address = Address(given.multi_items())
    values = {
        "at": "resources",
        "every": LIVE_SECONDS,
        "now": found.now,
        "kind": kind,
        "layers": list(_layers(await backend.queries.kinds(kind))),
        "chosen": chosen,
        "given": given,
        "address": address,
        "rows": [(each, worst(clocks_of(each, found.now, backend.limits))) for each in found.rows],
        "create": await actions.of_kind(request, kind),
        "next": address.page(key_of(found.rows[-1])) if len(found.rows) == _ROWS else None,
        "is_first": "after" not in given,
    }
    return render.page(request, "resources.html", values)


def _layers(known: Iterable[KindView]) -> Iterator[tuple[str, list[tuple[str, int | None]]]]:
    """Return the layers of a kind with the number of resources in each state; None in a state that ends them."""
    for kind in known:
        for layer in dict.fromkeys(state.layer for state in kind.states):
            yield layer, [(state.state, state.count) for state in kind.states if state.layer == layer]
