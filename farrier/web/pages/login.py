"""The page on which a person logs in with a token or logs out.

The browser keeps a session in a cookie that scripts cannot read. Pages accept the session; the API does not.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from farrier.web.pages import forms, return_path
from farrier.web.pages.return_path import LOG_IN
from farrier.web.server.access import COOKIE, Caller, access_of

_TOKEN, _LEAVE = "token", "leave"


async def login(request: Request) -> Response:
    """GET and POST /login. The form keeps the query string, which names the page to return to."""
    if request.method != "POST":
        try:
            caller = await access_of(request).caller(request)
        except HTTPException as error:
            return _page(request, None, error.detail, HTTPStatus(error.status_code))
        return _page(request, caller)
    given = await forms.submitted(request)
    if _LEAVE in given:
        response: Response = RedirectResponse(LOG_IN, HTTPStatus.SEE_OTHER)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response
    token = given.get(_TOKEN, "").strip()
    try:
        session = await access_of(request).begin_session(request, token)
    except HTTPException as error:
        return _page(request, None, error.detail, HTTPStatus(error.status_code))
    response = RedirectResponse(return_path.wanted(request), HTTPStatus.SEE_OTHER)
    forms.keep(request, response, COOKIE, session)
    return response


def _page(request: Request, caller: Caller | None, problem: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
    values = {
        "at": "login",
        "caller": caller,
        "user": caller.name if caller else "",
        "problem": problem,
        "token_field": _TOKEN,
        "leave_field": _LEAVE,
    }
    return forms.page(request, "login.html", values, status)


ROUTES = [Route(LOG_IN, login, methods=["GET", "POST"])]
