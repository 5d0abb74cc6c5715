"""Parses the query string of a page for operators. A page ignores unknown parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from farrier.model.intents.selection import is_glob, is_id
from farrier.model.views.resources import ResourceView
from farrier.web.server.refusals import RefusedRequest

Endpoint = Callable[[Request], Awaitable[Response]]


def without_blanks(endpoint: Endpoint) -> Endpoint:
    """Wrap a page with a form. Browsers also send the empty fields of the form; in this case, the page redirects to its
    URL without these fields."""

    @wraps(endpoint)
    async def tidied(request: Request) -> Response:
        given = request.query_params.multi_items()
        kept = [(name, value) for name, value in given if value.strip()]
        if kept == given:
            return await endpoint(request)
        return RedirectResponse(f"?{urlencode(kept)}", HTTPStatus.SEE_OTHER)

    return tidied


def searched(request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the tests of labels of a search such as `?q=gpu-1* pool=a`. A word without a wildcard
    matches a part of a name."""
    words = request.query_params.get("q", "").split()
    tests = tuple(word for word in words if "=" in word or word.startswith("!"))
    names = (word for word in words if word not in tests)
    return tuple(name if is_glob(name) or is_id(name) else f"*{name}*" for name in names), tests


def parse_after(given: str | None) -> tuple[str, int]:
    """Parse a key that `key_of` made. The page begins after the resource with this key. Raises Refused."""
    if given is None:
        return "", 0
    name, _, id_ = given.rpartition(":")
    if not (id_.isascii() and id_.isdecimal() and len(id_) <= len(str(2**63 - 1)) - 1):
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"after must be the `next` of an earlier response, not {given!r}")
    return name, int(id_)


def key_of(last: ResourceView) -> str:
    """Return the value of `after` for the next page."""
    return f"{last.name}:{last.id}"
