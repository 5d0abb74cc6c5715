"""The forms of pages that change something. Only forms that this server made are accepted.

A form contains a random text, and the browser has the same text as a cookie. A page of another site cannot read the
form or the cookie, and browsers do not send the cookie with requests from another site.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from farrier.web.pages import render

FIELD, COOKIE = "form-token", "farrier-form"
_LARGEST = 64 * 1024
_MOST_FIELDS = 100
_SAME_SITE = frozenset({"same-origin", "none"})


def page(request: Request, template: str, values: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a page with a form. The template writes the `hidden` fields."""
    token = request.cookies.get(COOKIE) or secrets.token_urlsafe(32)
    hidden = {FIELD: token, **values.get("hidden", {})}
    response = render.page(request, template, {**values, "hidden": hidden}, status)
    keep(request, response, COOKIE, token)
    return response


def keep(request: Request, response: Response, name: str, value: str) -> None:
    """Set a cookie that scripts cannot read. Browsers send it only to this site, and delete it when they close."""
    response.set_cookie(name, value, httponly=True, samesite="strict", secure=request.url.scheme == "https")


async def submitted(request: Request) -> dict[str, str]:
    """Return the fields of a submitted form. Raises HTTPException unless this server made the form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {_LARGEST} bytes")
    try:
        given = dict(parse_qsl(body.decode(), strict_parsing=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "expected the fields of the form of this page") from None
    token, expected = given.get(FIELD, ""), request.cookies.get(COOKIE, "")
    is_own = bool(expected) and secrets.compare_digest(token.encode(), expected.encode())
    if not is_own or request.headers.get("sec-fetch-site", "none") not in _SAME_SITE:
        raise HTTPException(
            HTTPStatus.FORBIDDEN,
            "this form is not from this server, or its session has ended; open the page again, and submit the new form",
        )
    return given
