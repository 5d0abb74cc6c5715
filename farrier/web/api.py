"""The JSON API: nodes, their history, and intents. A thin layer over `Queries` and `Requests`, with the same names.

Lists are paged: `next` of one response is `after` (`before` in a node's history) of the next request, and null at the
end. With a filter, a page of history may be short or empty before the end. Durations are seconds, times ISO 8601.
Intents require the bearer token; reading requires none.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.model import clocks, duration
from farrier.model import requests as asked
from farrier.model.actions import API_MAX
from farrier.model.edges import NODE
from farrier.model.history import HistoryFilter, Order, parse_bound, parse_key, parse_resource
from farrier.web.backend import Backend, backend_of
from farrier.web.breaches import clock_as_json
from farrier.web.parameters import OF_HISTORY, OF_NODES, known, limit, number, takes

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_MOST_ROWS = 1000
_LARGEST_BODY = 64 * 1024
_LONGEST_WAIT_SECONDS = 30


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /api/v1/intents: the columns that an INSERT would have."""

    node: str
    action: str
    params: Mapping[str, Any] = {}
    idempotency_key: str | None = None
    requested_by: str | None = None
    api_version: int = API_MAX


@takes("after", "limit", *OF_NODES)
async def list_nodes(request: Request) -> Response:
    """GET /nodes?after=NAME&limit=N&status=…&management=…&site=…&model=…"""
    most = limit(request, most=_MOST_ROWS)
    found = await backend_of(request).queries.inventory(
        known(request), after=request.query_params.get("after", ""), limit=most
    )
    last = found.rows[-1].name if len(found.rows) == most else None
    return json({"now": found.now, "nodes": found.rows, "next": last})


@takes()
async def show_node(request: Request) -> Response:
    """GET /nodes/{name}: everything of one node, and the clocks that run for it."""
    backend = backend_of(request)
    found = await backend.queries.node(request.path_params["node"])
    (node,) = found.rows
    running = clocks.running(node, found.now, backend.limits)
    return json({"now": found.now, "node": node, "clocks": [clock_as_json(clock) for clock in running]})


@takes("before", "limit", *OF_HISTORY)
async def list_history(request: Request) -> Response:
    """GET /nodes/{name}/history?before=KEY&limit=N&layer=…, the newest first; narrowed like /history."""
    wanted_ = msgspec.structs.replace(wanted_past(request), resource=(NODE, request.path_params["node"]))
    return await send_history(request, wanted_, "before", Order.NEWEST)


@takes("order", "after", "limit", "resource", *OF_HISTORY)
async def list_all_history(request: Request) -> Response:
    """GET /history?order=newest|oldest&after=KEY&limit=N&since=…&until=…&resource=KIND/NAME&kind=…&layer=…&from=…&to=…&
    cause=…&requested_by=…&reason=…&at_least=…"""
    given = request.query_params
    wanted_ = msgspec.structs.replace(wanted_past(request), resource=_parsed(request, "resource", parse_resource))
    order = given.get("order", Order.NEWEST)
    if order not in (Order.NEWEST, Order.OLDEST):
        raise HTTPException(400, f"order must be newest or oldest, not {order!r}")
    return await send_history(request, wanted_, "after", Order(order))


async def send_history(request: Request, wanted_: HistoryFilter, name: str, order: Order) -> Response:
    """Send a page of history; `name` is the parameter with the key after which the page begins."""
    most = limit(request, most=_MOST_ROWS)
    key = _parsed(request, name, parse_key, f"{name} must be the `next` of an earlier response")
    page = await backend_of(request).queries.history(wanted_, order=order, after=key, limit=most)
    return json({"changes": page.changes, "next": None if page.following is None else page.following.text})


def wanted_past(request: Request) -> HistoryFilter:
    """The filter of history in the query string, for any resource."""
    given = request.query_params
    return HistoryFilter(
        since=_parsed(request, "since", parse_bound),
        until=_parsed(request, "until", parse_bound),
        kinds=tuple(given.getlist("kind")),
        layers=tuple(given.getlist("layer")),
        sources=tuple(given.getlist("from")),
        targets=tuple(given.getlist("to")),
        causes=tuple(given.getlist("cause")),
        requested_by=tuple(given.getlist("requested_by")),
        reason=given.get("reason", ""),
        at_least=_parsed(request, "at_least", duration.parse),
    )


def _parsed(request: Request, name: str, parse: Callable[[str], T], expected: str = "") -> T | None:
    """A parameter of the query string. Raises HTTPException with what was expected."""
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        return parse(given)
    except ValueError as wrong:
        raise HTTPException(400, f"{expected}, not {given!r}" if expected else f"{name}: {wrong}") from None


@takes("wait")
async def ask(request: Request) -> Response:
    """POST /intents?wait=SECONDS: 202 once the intent is stored; with `wait`, 200 and the answer if there is one in
    that time."""
    backend = backend_of(request)
    await authorize(request, backend)
    waits = patience(request)
    given = await body(request, Ask)
    intent = await backend.requests.ask(
        asked.Request(
            node=given.node,
            action=given.action,
            params=given.params,
            key=given.idempotency_key,
            requested_by=given.requested_by,
            api_version=given.api_version,
        )
    )
    answer = await backend.requests.answer(intent, waits) if waits else None
    if answer is None:
        return json({"intent": intent, "status": "pending"}, HTTPStatus.ACCEPTED)
    return json(answer)


async def authorize(request: Request, backend: Backend) -> None:
    """Raises HTTPException unless the request has the token."""
    if backend.token is None:
        raise HTTPException(403, "intents over HTTP are disabled; set http.bearer_token to enable them")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    expected = await backend.token()
    if scheme.lower() != "bearer" or not secrets.compare_digest(given.encode(), expected.encode()):
        raise HTTPException(401, "expected the header Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})


def patience(request: Request) -> timedelta:
    """How long to wait for the response to an intent."""
    return timedelta(seconds=number(request, "wait", default=0, most=_LONGEST_WAIT_SECONDS))


async def body(request: Request, type_: type[S]) -> S:
    """The decoded body. Raises HTTPException if it is invalid or too long."""
    given = b""
    async for chunk in request.stream():
        given += chunk
        if len(given) > _LARGEST_BODY:
            raise HTTPException(413, f"a request body has at most {_LARGEST_BODY} bytes")
    try:
        return msgspec.json.decode(given, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        why = "it is nested too deeply" if isinstance(wrong, RecursionError) else wrong
        fields = ", ".join(type_.__struct_fields__)
        raise HTTPException(400, f"{why}; a request body is a JSON object with these fields: {fields}") from wrong


def json(content: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """An answer of the API."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


ROUTES = [
    Route("/nodes", list_nodes),
    Route("/nodes/{node}", show_node),
    Route("/nodes/{node}/history", list_history),
    Route("/history", list_all_history),
    Route("/intents", ask, methods=["POST"]),
]
