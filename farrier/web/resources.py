"""Resources of registered kinds over HTTP: lists, everything of one resource, its history, and intents for it.

A thin layer over `ResourceQueries` and `Requests`, as `api` is for nodes, with the same rules for pages and the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import wraps
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.errors import MalformedRequest
from farrier.model import ib_partition, network_segment
from farrier.model.edges import NODE
from farrier.model.history import Order
from farrier.model.kinds import CREATE
from farrier.model.limits import Limits
from farrier.model.requests import ResourceRequest
from farrier.model.resource_views import ResourceView, WantedResources, clocks_of
from farrier.web import api
from farrier.web.backend import backend_of
from farrier.web.breaches import clock_as_json
from farrier.web.parameters import OF_HISTORY, Endpoint, after, key_of, limit, takes

_MOST_ROWS = 1000
# SQLSTATE of the database for an unknown kind.
_UNKNOWN = "FR400"


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /api/v1/resource-intents: the columns that an INSERT would have."""

    kind: str
    resource: str
    action: str
    params: Mapping[str, Any] = {}
    idempotency_key: str | None = None
    requested_by: str | None = None


def _of_a_kind(endpoint: Endpoint) -> Endpoint:
    """An unknown kind in the path is 404, in the body of a request 400. A text that the database cannot store is 400
    in both."""

    @wraps(endpoint)
    async def found(request: Request) -> Response:
        try:
            return await endpoint(request)
        except MalformedRequest as error:
            if error.sqlstate != _UNKNOWN:
                raise
            raise HTTPException(404, f"{error.text}. {error.hint}".rstrip(". ")) from error

    return found


@takes()
async def list_kinds(request: Request) -> Response:
    """GET /resources: the registered kinds, the number of resources in each of their states, and their actions."""
    return api.json({"kinds": await backend_of(request).resources.kinds()})


@takes("after", "limit", "state", "site", "ended")
@_of_a_kind
async def list_resources(request: Request) -> Response:
    """GET /resources/{kind}?after=NAME:ID&limit=N&state=…&site=…&ended=true"""
    backend, given = backend_of(request), request.query_params
    wanted = WantedResources(
        kind=request.path_params["kind"],
        states=tuple(given.getlist("state")),
        sites=tuple(given.getlist("site")),
        ended=_flag(request, "ended"),
    )
    most = limit(request, most=_MOST_ROWS)
    page = await backend.resources.resources(wanted, after=after(request), limit=most)
    last = key_of(page.rows[-1]) if len(page.rows) == most else None
    rows = [_as_json(each, page.now, backend.limits) for each in page.rows]
    return api.json({"now": page.now, "resources": rows, "next": last})


@takes()
@_of_a_kind
async def show_resource(request: Request) -> Response:
    """GET /resources/{kind}/{name}: everything of a resource, also of an ended one, with its running clocks."""
    backend, path = backend_of(request), request.path_params
    page = await backend.resources.resource(path["kind"], path["name"])
    (detail,) = page.rows
    resource = _as_json(detail.resource, page.now, backend.limits)
    return api.json({"now": page.now, "resource": resource, "requests": detail.requests})


@takes("before", "limit", *OF_HISTORY)
@_of_a_kind
async def list_history(request: Request) -> Response:
    """GET /resources/{kind}/{name}/history?before=KEY&limit=N, the newest first; narrowed like /history."""
    path = request.path_params
    wanted = msgspec.structs.replace(api.wanted_past(request), resource=(path["kind"], path["name"]))
    return await api.send_history(request, wanted, "before", Order.NEWEST)


@takes()
async def list_addresses(request: Request) -> Response:
    """GET /resources/network_segment/{name}/addresses: the allocated addresses and their owners."""
    page = await backend_of(request).resources.addresses(request.path_params["name"])
    return api.json({"now": page.now, "addresses": page.rows})


@takes()
async def list_members(request: Request) -> Response:
    """GET /resources/ib_partition/{name}/members: the ports in the partition and their nodes."""
    page = await backend_of(request).resources.members(request.path_params["name"])
    return api.json({"now": page.now, "members": page.rows})


@takes("wait")
async def ask(request: Request) -> Response:
    """POST /resource-intents?wait=SECONDS: as POST /intents. The action `create` is answered at once, with 200."""
    backend = backend_of(request)
    await api.authorize(request, backend)
    patience = api.patience(request)
    body = await api.body(request, Ask)
    intent = await backend.requests.ask_resource(
        ResourceRequest(
            kind=body.kind,
            resource=body.resource,
            action=body.action,
            params=body.params,
            key=body.idempotency_key,
            requested_by=body.requested_by,
        )
    )
    looks = patience or body.action == CREATE
    answer = await backend.requests.answer_resource(intent, patience) if looks else None
    if answer is None:
        return api.json({"intent": intent, "status": "pending"}, HTTPStatus.ACCEPTED)
    return api.json(answer)


def _as_json(resource: ResourceView, now: datetime, limits: Limits) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(resource)
    return found | {"clocks": [clock_as_json(clock) for clock in clocks_of(resource, now, limits)]}


def _flag(request: Request, name: str) -> bool:
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise HTTPException(400, f"{name} must be true or false, not {given!r}")
    return given == "true"


ROUTES = [
    Route("/resources", list_kinds),
    Route(f"/resources/{NODE}", api.list_nodes),
    Route(f"/resources/{NODE}/{{node}}", api.show_node),
    Route(f"/resources/{NODE}/{{node}}/history", api.list_history),
    Route("/resources/{kind}", list_resources),
    Route("/resources/{kind}/{name}", show_resource),
    Route("/resources/{kind}/{name}/history", list_history),
    Route(f"/resources/{network_segment.SPEC.name}/{{name}}/addresses", list_addresses),
    Route(f"/resources/{ib_partition.SPEC.name}/{{name}}/members", list_members),
    Route("/resource-intents", ask, methods=["POST"]),
]
