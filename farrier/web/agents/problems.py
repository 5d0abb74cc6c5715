"""Converts errors to responses of the agents' API: problem details (RFC 9457), one line each."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from farrier.errors import DatabaseUnreachable, MalformedRequest, RefusedByModel
from farrier.web.agents.batches import Overloaded
from farrier.web.server import refusals
from farrier.web.server.refusals import MEDIA, RefusedRequest, problem

_log = structlog.stdlib.get_logger(__name__)

# Agents add jitter. A fleet that was refused comes back over this time.
_RETRY_SECONDS = 5
_LATER = {"Retry-After": str(_RETRY_SECONDS)}
_IN_USE = "55"
_STATUS = {
    "FR400": HTTPStatus.BAD_REQUEST,
    "FR403": HTTPStatus.FORBIDDEN,
    "FR404": HTTPStatus.FORBIDDEN,
    "FR409": HTTPStatus.CONFLICT,
    "FR410": HTTPStatus.GONE,
}


def of_database(request: Request, error: RefusedByModel, *, has_key: bool) -> Response:
    """Return the response to a request that the database refuses. `has_key` says that the agent sent a key, so it is
    the key that is not accepted, and not a bootstrap token."""
    if refusals.is_fault(error):
        _log.error("agents.database_fault", path=request.scope["path"], sqlstate=error.sqlstate, error=error.text)
        if error.sqlstate.startswith(_IN_USE):
            return response(
                HTTPStatus.SERVICE_UNAVAILABLE, "the node is in use at the moment", "try again later", _LATER
            )
        text = "the database refused a statement of this server"
        return response(HTTPStatus.INTERNAL_SERVER_ERROR, text, "see the log of farrier serve --agents")
    fallback = HTTPStatus.BAD_REQUEST if isinstance(error, MalformedRequest) else HTTPStatus.CONFLICT
    status = _STATUS.get(error.sqlstate, fallback)
    if has_key and status is HTTPStatus.FORBIDDEN:
        status = HTTPStatus.UNAUTHORIZED
    if not has_key:
        # Somebody has to find the machine; an agent whose key is unknown only reports that its node is gone.
        _log.warning("agents.enrolment_refused", client=_client(request), status=status.value, error=error.text)
    return response(status, error.text, error.hint)


def of_http(request: Request, error: HTTPException) -> Response:
    """Return the response to a request with a wrong path, method, key or body."""
    status = HTTPStatus(error.status_code)
    hint = error.hint if isinstance(error, RefusedRequest) else ""
    if status is HTTPStatus.CONFLICT:
        _log.warning("agents.machine_refused", client=_client(request), path=request.scope["path"], error=error.detail)
    later = _LATER if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return response(status, error.detail, hint, {**later, **(error.headers or {})})


def of_outage(_error: DatabaseUnreachable) -> Response:
    """Return the response while the database cannot be reached. It omits the error, which may name a server."""
    return response(HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached now", "try again later", _LATER)


def of_overload(_error: Overloaded) -> Response:
    return response(HTTPStatus.SERVICE_UNAVAILABLE, "this server has too many requests", "try again later", _LATER)


async def unforeseen(_request: Request, _error: Exception) -> Response:
    """Return the response to any other error, which the server logs."""
    text = "an unexpected error occurred in this server"
    return response(HTTPStatus.INTERNAL_SERVER_ERROR, text, "find the error in the log of farrier serve --agents")


def response(status: HTTPStatus, detail: str, hint: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as JSON."""
    return Response(msgspec.json.encode(problem(status, detail, hint)), status, headers, media_type=MEDIA)


def _client(request: Request) -> str:
    return request.client.host if request.client else ""
