"""Responses for errors: `{"error", "hint"}` with the matching status, or a page with the same content."""

from __future__ import annotations

from http import HTTPStatus

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from farrier.errors import CredentialError, DatabaseUnreachable, MalformedRequest, RefusedByModel, UndecodableState
from farrier.web import render

_log = structlog.stdlib.get_logger(__name__)

_NO_DATABASE = "/readyz reports what the daemon waits for"

_STATUS = {
    "FR403": HTTPStatus.FORBIDDEN,
    "FR404": HTTPStatus.NOT_FOUND,
}


async def refused(request: Request, error: Exception) -> Response:
    """The database or the model refuses the request."""
    assert isinstance(error, RefusedByModel), "registered for this class"
    fallback = HTTPStatus.BAD_REQUEST if isinstance(error, MalformedRequest) else HTTPStatus.CONFLICT
    return answer(request, _STATUS.get(error.sqlstate, fallback), error.text, error.hint)


async def unreachable(request: Request, error: Exception) -> Response:
    """The database cannot be reached. The error is not shown, because it may name a server."""
    assert isinstance(error, DatabaseUnreachable), "registered for this class"
    return answer(request, HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached now", _NO_DATABASE)


async def no_token(request: Request, error: Exception) -> Response:
    """The expected token cannot be read. Only the log names its place."""
    assert isinstance(error, CredentialError), "registered for this class"
    _log.warning("http.token_unreadable", error=str(error))
    if error.temporary:
        return answer(
            request, HTTPStatus.SERVICE_UNAVAILABLE, "farrier cannot read the bearer token now", "try again later"
        )
    hint = "correct what http.bearer_token refers to; the log has the reason"
    return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, "farrier cannot read the bearer token", hint)


async def wrong_path(request: Request, error: Exception) -> Response:
    """The request itself is wrong: path, method, parameter."""
    assert isinstance(error, HTTPException), "registered for this class"
    response = answer(request, HTTPStatus(error.status_code), error.detail, "")
    response.headers.update(error.headers or {})
    return response


async def undecodable(request: Request, error: Exception) -> Response:
    """A stored row cannot be decoded. The response names the row."""
    assert isinstance(error, UndecodableState), "registered for this class"
    _log.error("http.undecodable", path=request.scope["path"], error=str(error))
    hint = "a newer release may have written it; upgrade this server"
    return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, str(error), hint)


async def left(request: Request, error: Exception) -> Response:
    """The client closed the connection during its request. It does not receive the response."""
    assert isinstance(error, ClientDisconnect), "registered for this class"
    _log.debug("http.client_left", path=request.scope["path"])
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def unforeseen(request: Request, _error: Exception) -> Response:
    """Any other error. The server logs it; the response does not show its text, which may contain secrets."""
    text = "this server met an unexpected error"
    return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, text, "the log of farrier has the error; report it")


def answer(request: Request, status: HTTPStatus, error: str, hint: str) -> Response:
    """Return the error as JSON for a path of the API, and as a page for any other path."""
    if request.scope["path"].startswith("/api/"):
        return JSONResponse({"error": error, "hint": hint}, status)
    return render.page("error.html", {"title": f"{status.value} {status.phrase}", "error": error, "hint": hint}, status)
