"""The types with which a table defines the operations of the API: routes, parameters and OpenAPI document.

An operation declares its parameters as the fields of one struct. If the path contains the name of a field, the field is
a path parameter. If the name contains a dash, the field is a header. Any other field is in the query string. The types
of the fields define the accepted values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from farrier.model.api_token import Scope
from farrier.web.api import decoding as reading
from farrier.web.server.access import authorize
from farrier.web.server.backend import Backend, backend_of
from farrier.web.server.refusals import MEDIA, Problem

G = TypeVar("G", bound=msgspec.Struct)
B = TypeVar("B")

JSON = "application/json"


class NoParameters(msgspec.Struct, frozen=True):
    """An operation without parameters."""


class ApiRequest(msgspec.Struct, Generic[G, B], frozen=True):
    """A request of an operation: the request, the database, the parameters, and the body."""

    request: Request
    backend: Backend
    given: G
    body: B


class ResponseType(msgspec.Struct, frozen=True, kw_only=True):
    """A response: its meaning, the type of its body (None if it has no body), and its headers with their meanings."""

    what: str
    body: Any = None
    media: str = JSON
    headers: Mapping[str, str] = {}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A method of a path, relative to /api/v1. The docstring of `respond` describes it. `body` is the type that decodes
    the body. `described` is a more precise type, which only the documentation uses. What `body` does not check, the
    database checks with better error texts."""

    path: str
    respond: Callable[[Any], Awaitable[Response]]
    method: str = "GET"
    given: type[msgspec.Struct] = NoParameters
    body: Any = None
    described: Any = None
    largest: int = reading.LARGEST_BODY
    scope: Scope = Scope.READ
    answers: Mapping[int, ResponseType]

    async def __call__(self, request: Request) -> Response:
        await authorize(request, self.scope)
        fields = reading.fields(self.given, self.path)
        reading.refuse_unknown(request, fields)
        backend = backend_of(request)
        parameters = reading.parameters(request, self.given, fields)
        body = None if self.body is None else await reading.body(request, self.body, self.largest)
        return await self.respond(ApiRequest(request, backend, parameters, body))

    def security(self, scheme: str) -> list[dict[str, list[str]]]:
        """Return what the operation requires, as in OpenAPI. On loopback, reading needs no token."""
        return [{scheme: [self.scope.value]}, *([{}] if self.scope is Scope.READ else [])]


def reads(
    path: str,
    respond: Callable[[Any], Awaitable[Response]],
    what: str,
    body: Any,
    *,
    given: type[msgspec.Struct] = NoParameters,
) -> Operation:
    """Return an operation that only reads, and has one response besides refusals."""
    return Operation(path=path, respond=respond, given=given, answers={200: ResponseType(what=what, body=body)})


def refusal(what: str) -> ResponseType:
    """Return the response with an error that has this meaning."""
    return ResponseType(what=what, body=Problem, media=MEDIA)


def routes(operations: Iterable[Operation]) -> list[Route]:
    """Return one route for each path, in the order of the table."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, _dispatch(methods), methods=list(methods)) for path, methods in paths.items()]


def _dispatch(methods: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method](request)

    return respond


def json(content: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of the API."""
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)
