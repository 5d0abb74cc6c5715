"""Makes the responses for errors: problem details (RFC 9457) for paths under /api, and pages with the same content for
other paths."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from farrier.errors import CredentialError, DatabaseUnreachable, MalformedRequest, RefusedByModel, UndecodableState
from farrier.model.intents.actions import API_MAX, API_MIN
from farrier.model.views.intents import IntentView
from farrier.web.pages import render

_log = structlog.stdlib.get_logger(__name__)

MEDIA = "application/problem+json"
REJECTED = "urn:farrier:intent-rejected"
SUPERSEDED = "urn:farrier:intent-superseded"
# In RFC 9457, this type means that the status describes the whole problem.
_BLANK = "about:blank"

_NO_DATABASE = "/readyz of this server reports what it waits for"

# The SQLSTATE classes of errors that a request can cause: a refusal by farrier, a value, a constraint, a conflict of
# transactions, a size, and a refusal by a trigger of the operator. Other errors are faults of the server.
_OF_CLIENTS = ("FR", "22", "23", "40", "54", "P0")
_NO_RIGHT = "42501"
# The class of an object that another transaction uses at the moment.
_IN_USE = "55"

_MALFORMED = "FR400"
_NOT_FOUND = "FR404"
_OLD_VERSION = "FR406"
_STATUS = {
    "FR403": HTTPStatus.FORBIDDEN,
    _NOT_FOUND: HTTPStatus.NOT_FOUND,
    _OLD_VERSION: HTTPStatus.BAD_REQUEST,
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). The status code of the response is `status`."""

    type: Annotated[
        str, Meta(description=f"`{REJECTED}` or `{SUPERSEDED}` for the answer to an intent; else `{_BLANK}`.")
    ]
    title: str
    status: int
    detail: Annotated[str, Meta(description="One line that names the field, the value and what is accepted.")]
    hint: Annotated[str, Meta(description="What to do.")] = ""
    sqlstate: Annotated[str, Meta(description="SQLSTATE of the error, if the database refused the request.")] = ""
    intent: IntentView | None = None


class RefusedRequest(HTTPException):
    """A refusal with advice. `intent` is the intent that was not accepted."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        intent: IntentView | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.hint = hint
        self.intent = intent


def is_fault(error: RefusedByModel) -> bool:
    """Return whether the database refused a statement through no fault of the request."""
    return bool(error.sqlstate) and not error.sqlstate.startswith(_OF_CLIENTS)


async def refused(request: Request, error: Exception) -> Response:
    """Return the response to a request that the database or the model refuses."""
    assert isinstance(error, RefusedByModel), "registered for this class"
    if is_fault(error):
        return _fault(request, error)
    fallback = HTTPStatus.BAD_REQUEST if isinstance(error, MalformedRequest) else HTTPStatus.CONFLICT
    # If the path has a kind, the database refuses only an unknown kind with this SQLSTATE; such a path does not exist.
    sqlstate = _NOT_FOUND if error.sqlstate == _MALFORMED and "kind" in request.path_params else error.sqlstate
    status, hint = _STATUS.get(sqlstate, fallback), error.hint
    if sqlstate == _OLD_VERSION:
        hint = (  # instead of an INSERT
            "send the required version in the header Farrier-Api-Version; without the header, a request has version "
            f"{API_MIN}, and the newest version is {API_MAX}"
        )
    return _answer(request, problem(status, error.text, hint, sqlstate=sqlstate))


def _fault(request: Request, error: RefusedByModel) -> Response:
    """Return the response if rights or objects are missing in the database, or if a table stays locked."""
    _log.error("http.database_fault", path=request.scope["path"], sqlstate=error.sqlstate, error=error.text)
    status, hint = HTTPStatus.INTERNAL_SERVER_ERROR, "run farrier db check; if it finds no fault, report this error"
    if error.sqlstate == _NO_RIGHT:
        hint = (
            "grant the roles farrier_intents and farrier_reader to the login in database.dsn, and run farrier db check"
        )
    elif error.sqlstate.startswith(_IN_USE):
        status, hint = HTTPStatus.SERVICE_UNAVAILABLE, "send the request again later"
    detail = f"the database refused a statement of this server: {error.text}"
    return _answer(request, problem(status, detail, hint, sqlstate=error.sqlstate))


async def unreachable(request: Request, error: Exception) -> Response:
    """Return the response without the database. It omits the error, which may name a server."""
    assert isinstance(error, DatabaseUnreachable), "registered for this class"
    return answer(request, HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached now", _NO_DATABASE)


async def no_token(request: Request, error: Exception) -> Response:
    """Return the response if the bearer token cannot be read. Only the log names its location."""
    assert isinstance(error, CredentialError), "registered for this class"
    _log.warning("http.token_unreadable", error=str(error))
    if error.temporary:
        return answer(
            request, HTTPStatus.SERVICE_UNAVAILABLE, "farrier cannot read the bearer token now", "try again later"
        )
    hint = "see the reason in the log of farrier, and correct the secret that http.bearer_token refers to"
    return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, "farrier cannot read the bearer token", hint)


async def wrong_path(request: Request, error: Exception) -> Response:
    """Return the response to a request with a wrong path, method, parameter or body."""
    assert isinstance(error, HTTPException), "registered for this class"
    status = HTTPStatus(error.status_code)
    detail, hint = error.detail, ""
    if isinstance(error, RefusedRequest):
        hint = error.hint
    elif status is HTTPStatus.NOT_FOUND:
        detail, hint = f"there is no path {request.scope['path']}", "the links above lead to all pages"
        if _is_api(request):
            hint = "/api/v1/openapi.json lists the paths of the API"
    elif status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        detail, hint = f"{request.method} is not a method of {request.scope['path']}", f"methods: {allowed}"
    intent = error.intent if isinstance(error, RefusedRequest) else None
    response = _answer(request, problem(status, detail, hint, intent=intent))
    response.headers.update(error.headers or {})
    return response


async def undecodable(request: Request, error: Exception) -> Response:
    """Return the response if a stored row cannot be decoded. The response names the row."""
    assert isinstance(error, UndecodableState), "registered for this class"
    _log.error("http.undecodable", path=request.scope["path"], error=str(error))
    hint = "a newer release may have written it; upgrade this server"
    return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, str(error), hint)


async def left(request: Request, error: Exception) -> Response:
    """Return the response to a client that closed the connection during its request, and does not receive it."""
    assert isinstance(error, ClientDisconnect), "registered for this class"
    _log.debug("http.client_left", path=request.scope["path"])
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def unforeseen(request: Request, _error: Exception) -> Response:
    """Return the response to any other error, which the server logs. It omits the text, which may have secrets."""
    text = "an unexpected error occurred in this server"
    return answer(
        request, HTTPStatus.INTERNAL_SERVER_ERROR, text, "find the error in the log of farrier, and report it"
    )


def answer(request: Request, status: HTTPStatus, error: str, hint: str) -> Response:
    """Return the error as JSON for a path of the API, and as a page for any other path."""
    return _answer(request, problem(status, error, hint))


def problem(
    status: HTTPStatus, detail: str, hint: str, *, sqlstate: str = "", intent: IntentView | None = None
) -> Problem:
    """Return the error as problem details."""
    type_, title = _BLANK, status.phrase
    if intent is not None:
        type_ = SUPERSEDED if intent.status == "superseded" else REJECTED
        title = f"The intent was {intent.status}"
    return Problem(type=type_, title=title, status=status, detail=detail, hint=hint, sqlstate=sqlstate, intent=intent)


def _answer(request: Request, found: Problem) -> Response:
    status = HTTPStatus(found.status)
    if _is_api(request):
        return Response(msgspec.json.encode(found), status, media_type=MEDIA)
    title = f"{status.value} {status.phrase}"
    values = {
        "title": title,
        "error": found.detail,
        "hint": found.hint,
        "needs_token": status is HTTPStatus.UNAUTHORIZED,
    }
    return render.page(request, "error.html", values, status)


def _is_api(request: Request) -> bool:
    return f"{request.scope['path']}/".startswith("/api/")
