"""The application of a server for agents. It serves the agents' API, the agent's file, and probes, and nothing else.

A path is found in a table instead of by Starlette's router, and an error becomes a response (problem details, RFC 9457)
without middleware: most requests are heartbeats, and half of their cost is what surrounds their statement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from farrier import agent, clock
from farrier.errors import DatabaseUnreachable, MalformedRequest, RefusedByModel
from farrier.protocols import AgentCalls, Clock, Door
from farrier.web.agents.batches import Batches, Overloaded
from farrier.web.agents.operations import OPERATIONS, AgentOperation, Agents, document, key_of
from farrier.web.server import refusals
from farrier.web.server.buckets import Buckets, client_of
from farrier.web.server.refusals import MEDIA, RefusedRequest, problem

_log = structlog.stdlib.get_logger(__name__)

PREFIX = "/agent/v1"
FILE = "/farrier-agent.pyz"
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
# An agent sends a few requests at once when it begins a task, and otherwise less than one in two seconds.
_KEY_AT_ONCE = 30
_KEY_SECONDS_EACH = 1.0
# This is about 30 MB.
_MOST_KEYS = 131_072
# Before a key was accepted, only the address is known. A whole site may share an address, and all its agents come back
# at the same time after a power cut or a restart of this server. An unknown key costs little in a statement of many, an
# enrolment ten times as much.
_STRANGERS_AT_ONCE = 10_000
_STRANGERS_SECONDS_EACH = 0.0005
_ENROLMENTS_AT_ONCE = 1000
_ENROLMENTS_SECONDS_EACH = 0.002
_MOST_ADDRESSES = 4096
# The file changes only with a release, and the agents check its digest.
_FILE_HEADERS = {"Cache-Control": "no-cache"}
# In seconds. Agents add jitter, so a fleet that was refused comes back over this time.
_LATER = {"Retry-After": "5"}
_IN_USE = "55"
_STATUS = {
    "FR400": HTTPStatus.BAD_REQUEST,
    "FR403": HTTPStatus.FORBIDDEN,
    "FR404": HTTPStatus.FORBIDDEN,
    "FR409": HTTPStatus.CONFLICT,
    "FR410": HTTPStatus.GONE,
}


class AgentsApp:
    """The application of one server. Until `open`, it responds 503 to agents."""

    def __init__(self, probes: ASGIApp, *, now: Clock | None = None) -> None:
        """`probes` answers the paths of probes."""
        measured = now or clock.MonotonicClock()
        self._probes = probes
        self._agents: Agents | None = None
        self._door: Door | None = None
        self._keys = Buckets(measured, at_once=_KEY_AT_ONCE, seconds_each=_KEY_SECONDS_EACH, most=_MOST_KEYS)
        self._strangers = Buckets(
            measured, at_once=_STRANGERS_AT_ONCE, seconds_each=_STRANGERS_SECONDS_EACH, most=_MOST_ADDRESSES
        )
        self._enrolments = Buckets(
            measured, at_once=_ENROLMENTS_AT_ONCE, seconds_each=_ENROLMENTS_SECONDS_EACH, most=_MOST_ADDRESSES
        )
        self._paths, self._patterns = _routes()
        self.app: ASGIApp = self._serve

    def open(self, calls: AgentCalls, door: Door, batches: Batches | None = None) -> Batches:
        """Add the database, which is now available. The caller runs the batches that this returns."""
        self._agents, self._door = Agents(calls, batches or Batches(calls)), door
        return self._agents.batches

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] in _PROBES:
            await self._probes(scope, receive, send)
            return
        try:
            response = await self._respond(Request(scope, receive))
        except Exception:
            await _unforeseen()(scope, receive, send)
            raise  # the server logs it
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        has_key = False
        try:
            found = self._find(request)
            if isinstance(found, Response):
                return found
            has_key = found.has_key
            bucket, name = self._bucket(request, found)
            bucket.spend(name)
            request.scope["agents"] = self._agents
            response = await found(request)
        except RefusedByModel as error:
            return _refused(request, error, has_key=has_key)
        except HTTPException as error:
            return _wrong(request, error)
        except DatabaseUnreachable:
            return _later("the database cannot be reached now")
        except Overloaded:
            return _later("this server has too many requests")
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody receives it
        self._succeeded(request, found)
        return response

    def _find(self, request: Request) -> AgentOperation | Response:
        """Return the operation of a request, or the response with a file. Raises HTTPException if there is none."""
        path, method = request.scope["path"], request.scope["method"]
        found = self._paths.get(path)
        if found is None:
            for pattern, methods in self._patterns:
                if match := pattern.match(path):
                    request.scope["path_params"] = match.groupdict()
                    found = methods
                    break
        if found is None:
            if path == FILE or path == f"{PREFIX}/openapi.json":
                found = {}
                if method in {"GET", "HEAD"}:
                    return _file(request) if path == FILE else _described()
            else:
                raise RefusedRequest(
                    HTTPStatus.NOT_FOUND, f"there is no path {path}", hint=f"{PREFIX}/openapi.json lists the paths"
                )
        if method not in found:
            allowed = ", ".join(sorted(found)) or "GET, HEAD"
            text = f"{method} is not a method of {path}"
            raise RefusedRequest(
                HTTPStatus.METHOD_NOT_ALLOWED, text, hint=f"methods: {allowed}", headers={"Allow": allowed}
            )
        return found[method]

    def _bucket(self, request: Request, operation: AgentOperation) -> tuple[Buckets, str]:
        """Return the bucket that limits a request. Raises Refused if the bucket is empty."""
        if operation.has_key and (key := key_of(request)) in self._keys:
            bucket, name, what = self._keys, key, "this agent"
        else:
            bucket = self._strangers if operation.has_key else self._enrolments
            name, what = client_of(_client(request)), "this address"
        if wait := math.ceil(bucket.wait(name)):
            text = f"too many requests from {what}; try again in {wait} s"
            raise RefusedRequest(HTTPStatus.TOO_MANY_REQUESTS, text, headers={"Retry-After": str(wait)})
        return bucket, name

    def _succeeded(self, request: Request, operation: AgentOperation) -> None:
        """Record that an agent was reached, and that its key is known."""
        if operation.has_key and (key := key_of(request)) not in self._keys:
            self._keys.spend(key)
        if self._door is not None:
            self._door.reached()


Methods = Mapping[str, AgentOperation]


def _routes() -> tuple[Mapping[str, Methods], list[tuple[re.Pattern[str], Methods]]]:
    """Return the operations by path, and those of paths with a parameter by pattern."""
    paths: dict[str, dict[str, AgentOperation]] = {}
    for each in OPERATIONS:
        paths.setdefault(PREFIX + each.path, {})[each.method] = each
    plain = {path: methods for path, methods in paths.items() if "{" not in path}
    patterns: list[tuple[re.Pattern[str], Methods]] = [
        (compile_path(path)[0], methods) for path, methods in paths.items() if "{" in path
    ]
    return plain, patterns


def _described() -> Response:
    return Response(document(), media_type="application/json")


def _file(request: Request) -> Response:
    """Return the agent's file. Its digest is the ETag."""
    etag = f'"{agent.sha256()}"'
    headers = {**_FILE_HEADERS, "ETag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(agent.content(), headers=headers, media_type="application/octet-stream")


def _refused(request: Request, error: RefusedByModel, *, has_key: bool) -> Response:
    """Return the response to a refusal by the database: of a key with `has_key`, or else of a bootstrap token."""
    if refusals.is_fault(error):
        _log.error("agents.database_fault", path=request.scope["path"], sqlstate=error.sqlstate, error=error.text)
        if error.sqlstate.startswith(_IN_USE):
            return _later("the node is in use at the moment")
        text = "the database refused a statement of this server"
        return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, text, "see the log of farrier serve --agents")
    fallback = HTTPStatus.BAD_REQUEST if isinstance(error, MalformedRequest) else HTTPStatus.CONFLICT
    status = _STATUS.get(error.sqlstate, fallback)
    if has_key and status is HTTPStatus.FORBIDDEN:
        status = HTTPStatus.UNAUTHORIZED
    if not has_key:
        # Somebody has to find the machine; an agent whose key is unknown only reports that its node is gone.
        _log.warning("agents.enrolment_refused", client=_client(request), status=status.value, error=error.text)
    return _problem(status, error.text, error.hint)


def _wrong(request: Request, error: HTTPException) -> Response:
    """Return the response to a request with a wrong path, method, key or body."""
    status = HTTPStatus(error.status_code)
    hint = error.hint if isinstance(error, RefusedRequest) else ""
    if status is HTTPStatus.CONFLICT:
        _log.warning("agents.machine_refused", client=_client(request), path=request.scope["path"], error=error.detail)
    later = _LATER if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return _problem(status, error.detail, hint, {**later, **(error.headers or {})})


def _later(detail: str) -> Response:
    """Return the response while no request can be answered. It omits the error, which may name a server."""
    return _problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, "try again later", _LATER)


def _unforeseen() -> Response:
    """Return the response to any other error."""
    text = "an unexpected error occurred in this server"
    return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, text, "find the error in the log of farrier serve --agents")


def _problem(status: HTTPStatus, detail: str, hint: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as JSON."""
    return Response(msgspec.json.encode(problem(status, detail, hint)), status, headers, media_type=MEDIA)


def _client(request: Request) -> str:
    return request.client.host if request.client else ""
