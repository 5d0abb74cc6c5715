"""Describes the requests of the API as data: path, parameters, body, and type of the response."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar, assert_never
from urllib.parse import quote
from uuid import uuid4

import msgspec

from farrier.errors import MalformedRequest
from farrier.model.intents.actions import API_MAX
from farrier.model.intents.requests import IntentRequest
from farrier.model.monitors.monitor import Report, ReportAnswer
from farrier.model.node.details import Details
from farrier.model.node.layers import NODE
from farrier.model.views.intents import IntentView
from farrier.model.views.responses import (
    LONGEST_WAIT_SECONDS,
    MOST_ROWS,
    Intents,
    NodeList,
    RegisteredNodes,
    ResourceList,
    ShownNode,
    ShownResource,
)

T = TypeVar("T")

# A loaded database takes some seconds for a thousand nodes.
_REGISTRATION_SECONDS = 50.0

Query = tuple[tuple[str, str], ...]

Value: TypeAlias = str | int | datetime | timedelta
Filter: TypeAlias = Value | Collection[Value]
"""One value of a parameter of the API, or several values; the API returns the rows that match at least one of them. A
timedelta is an age or duration. The request of each page sends the values again, so an iterator is not accepted."""


class ApiCall(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request. `again` is set if repeating the request has no further effect. `waits` is how many seconds the
    server may take to respond, in addition to the usual time."""

    path: str
    type: type[T]
    method: str = "GET"
    query: Query = ()
    body: Any = None
    headers: Mapping[str, str] = {}
    again: bool = True
    waits: float = 0.0


class Nothing(msgspec.Struct, frozen=True):
    """The type of a response without a body."""


class NewNode(Details, frozen=True, kw_only=True, omit_defaults=True):
    """A node to register. With `bootstrap`, the response contains a token for the node's agent."""

    name: str
    bmc_address: str | None = None
    bmc_credential: str | None = None
    bootstrap: bool = False


def quoted(name: str) -> str:
    """Return a name as one part of a path. Raises MalformedRequest for a name that would lead to another path."""
    if name in ("", ".", ".."):
        raise MalformedRequest(f"expected a name or an ID, got {name!r}")
    return quote(name, safe="")


def nodes(filters: Mapping[str, Filter], after: str, limit: int = MOST_ROWS) -> ApiCall[NodeList]:
    """Return the request that reads a page of nodes. `filters` are parameters of the API."""
    return ApiCall(path="/nodes", type=NodeList, query=_page(filters, after, limit))


def node(name: str) -> ApiCall[ShownNode]:
    """Return the request that reads one node."""
    return ApiCall(path=f"/nodes/{quoted(name)}", type=ShownNode)


def register(new: Sequence[NewNode]) -> ApiCall[RegisteredNodes]:
    """Return the request that registers either all of these nodes or none of them."""
    return ApiCall(
        method="POST",
        path="/nodes",
        type=RegisteredNodes,
        body=list(new),
        headers=_version(API_MAX),
        again=False,
        waits=_REGISTRATION_SECONDS,
    )


def changes(details: Mapping[str, Any], version: int | None) -> Mapping[str, Any]:
    """Return the parameters of the intent `set`."""
    params: dict[str, Any] = {name: value for name, value in details.items() if value is not None}
    removed = [name for name, value in details.items() if value is None]
    if removed:
        params["unset"] = removed
    if version is not None:
        params["if_version"] = version
    return params


def state_condition(report: Report) -> ApiCall[ReportAnswer]:
    """Return the request with which a monitor states a condition of a node."""
    body = {"message": report.message, "effect": report.effect, "expires_at": report.expires_at}
    return _condition("PUT", report, {name: value for name, value in body.items() if value is not None})


def end_condition(report: Report) -> ApiCall[ReportAnswer]:
    """Return the request with which a monitor ends a condition of a node."""
    return _condition("DELETE", report, None)


def _condition(method: str, report: Report, body: Any) -> ApiCall[ReportAnswer]:
    path = f"/nodes/{quoted(report.node or '')}/conditions"
    query = (("id", report.id or ""), ("target", report.target))
    return ApiCall(method=method, path=path, type=ReportAnswer, query=query, body=body)


def _version(declared: int) -> Mapping[str, str]:
    """Return the header that declares the version of the API for which this client was written."""
    return {"Farrier-Api-Version": str(declared)}


def submit(given: IntentRequest, wait: float) -> ApiCall[IntentView]:
    """Return the request that submits an intent, with a new key if it has none, so that it can be repeated."""
    named = {"node": given.resource} if given.kind == NODE else {"kind": given.kind, "resource": given.resource}
    body = named | {
        "action": given.action,
        "params": given.params,
        "idempotency_key": given.key or f"client-{uuid4()}",
        "requested_by": given.requested_by,
    }
    seconds = min(wait, LONGEST_WAIT_SECONDS)
    return ApiCall(
        method="POST",
        path=_intents(given.kind),
        type=IntentView,
        query=_wait(seconds),
        body=body,
        headers=_version(given.api_version) if given.kind == NODE else {},
        waits=seconds,
    )


def intent(kind: str, id_: int, wait: float) -> ApiCall[IntentView]:
    """Return the request that reads an intent, with its answer if this arrives within `wait` seconds."""
    seconds = min(wait, LONGEST_WAIT_SECONDS)
    return ApiCall(path=f"{_intents(kind)}/{id_}", type=IntentView, query=_wait(seconds), waits=seconds)


def intents(kind: str, filters: Mapping[str, Filter], before: int | None, limit: int = MOST_ROWS) -> ApiCall[Intents]:
    """Return the request that reads a page of intents. An empty kind stands for all kinds except nodes."""
    of_kind = {} if kind in (NODE, "") else {"kind": kind}
    query = query_of({**filters, **of_kind, "limit": limit})
    return ApiCall(
        path=_intents(kind), type=Intents, query=query if before is None else (*query, ("before", str(before)))
    )


def resources(kind: str, filters: Mapping[str, Filter], after: str, limit: int = MOST_ROWS) -> ApiCall[ResourceList]:
    """Return the request that reads a page of resources of a kind other than node, as `nodes` does."""
    _refuse_nodes(kind)
    return ApiCall(path=f"/resources/{quoted(kind)}", type=ResourceList, query=_page(filters, after, limit))


def resource(kind: str, name: str) -> ApiCall[ShownResource]:
    """Return the request that reads one resource of a kind other than node. The resource may have ended."""
    _refuse_nodes(kind)
    return ApiCall(path=resource_path(kind, name), type=ShownResource)


def resource_path(kind: str, name: str) -> str:
    """Return the path of a resource of any kind."""
    return f"/resources/{quoted(kind)}/{quoted(name)}"


def _refuse_nodes(kind: str) -> None:
    if kind == NODE:
        raise MalformedRequest("nodes have more data than resources of other kinds; read them with nodes() and node()")


def _intents(kind: str) -> str:
    return "/intents" if kind == NODE else "/resource-intents"


def _wait(seconds: float) -> Query:
    return (("wait", f"{seconds:g}"),) if seconds > 0 else ()


def _page(filters: Mapping[str, Filter], after: str, limit: int) -> Query:
    query = query_of({**filters, "limit": limit})
    return (*query, ("after", after)) if after else query


def query_of(filters: Mapping[str, Filter]) -> Query:
    """Return the query of a URL. Raises MalformedRequest for an empty filter: the API would return all rows."""
    return tuple((name, _text(value)) for name, given in filters.items() for value in _values(name, given))


def _values(name: str, given: object) -> Collection[Value]:
    values = (given,) if isinstance(given, Value) else given
    if not isinstance(values, Collection) or not values or not all(isinstance(value, Value) for value in values):
        raise MalformedRequest(
            f"{name}: expected a value or a list of at least one value, got {given!r}; to select all rows, omit {name}"
        )
    return values


def _text(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case timedelta():
            return f"{int(value.total_seconds())}s"
        case str() | int():
            return str(value)
        case _ as never:
            assert_never(never)
