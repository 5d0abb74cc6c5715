"""How an error looks over HTTP: `{"error", "hint"}` with the status that fits, or a page that says the
same."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from farrier.errors import DatabaseUnreachable, MalformedRequest, RefusedByModel
from farrier.web import render

_NO_DATABASE = "/readyz says what the daemon waits for"

_STATUS = {
    "FR403": HTTPStatus.FORBIDDEN,
    "FR404": HTTPStatus.NOT_FOUND,
}


async def refused(request: Request, error: Exception) -> Response:
    """The database, or the model, says no."""
    assert isinstance(error, RefusedByModel), "registered for this class"
    fallback = HTTPStatus.BAD_REQUEST if isinstance(error, MalformedRequest) else HTTPStatus.CONFLICT
    return answer(request, _STATUS.get(error.sqlstate, fallback), error.text, error.hint)


async def unreachable(request: Request, error: Exception) -> Response:
    """The database cannot be asked; the text may name a server, which is not for everybody."""
    assert isinstance(error, DatabaseUnreachable), "registered for this class"
    return answer(request, HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached now", _NO_DATABASE)


async def wrong_path(request: Request, error: Exception) -> Response:
    """The request itself is wrong: path, method, parameter."""
    assert isinstance(error, HTTPException), "registered for this class"
    response = answer(request, HTTPStatus(error.status_code), error.detail, "")
    response.headers.update(error.headers or {})
    return response


def answer(request: Request, status: HTTPStatus, error: str, hint: str) -> Response:
    """The error in the form that the path is for."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": error, "hint": hint}, status)
    return render.page("error.html", {"title": f"{status.value} {status.phrase}", "error": error, "hint": hint}, status)
