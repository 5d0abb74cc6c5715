"""Parses the query string of an endpoint.

The API refuses unknown parameters. If it ignored a misspelt parameter, the response would look like the response to the
intended request. Pages for operators ignore unknown parameters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from farrier.model.details import LISTED
from farrier.model.management import Management
from farrier.model.resource_views import ResourceView
from farrier.model.selection import is_glob, is_id
from farrier.model.status import NodeStatus
from farrier.model.views import Wanted

T = TypeVar("T")

Endpoint = Callable[[Request], Awaitable[Response]]

OF_NODES = ("status", "management", *LISTED)
OF_HISTORY = ("since", "until", "kind", "layer", "from", "to", "cause", "requested_by", "reason", "at_least")


def takes(*names: str) -> Callable[[Endpoint], Endpoint]:
    """Make an endpoint of the API accept only these parameters, and respond 400 to any other."""

    def checked(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def asked(request: Request) -> Response:
            for name in request.query_params:
                if name not in names:
                    takes = f"parameters of this path: {', '.join(names)}" if names else "this path has no parameters"
                    raise HTTPException(400, f"unknown parameter {name!r}; {takes}")
            return await endpoint(request)

        return asked

    return checked


def without_blanks(endpoint: Endpoint) -> Endpoint:
    """A page with a form: a browser sends each empty field, too. The page is redirected to the same without them."""

    @wraps(endpoint)
    async def tidied(request: Request) -> Response:
        given = request.query_params.multi_items()
        kept = [(name, value) for name, value in given if value.strip()]
        if kept == given:
            return await endpoint(request)
        return RedirectResponse(f"?{urlencode(kept)}", HTTPStatus.SEE_OTHER)

    return tidied


def parsed(request: Request, name: str, parse: Callable[[str], T], expected: str = "") -> T | None:
    """A parameter of the query string. Raises HTTPException with what was expected."""
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        return parse(given)
    except ValueError as wrong:
        raise HTTPException(400, f"{expected}, not {given!r}" if expected else f"{name}: {wrong}") from None


def wanted(request: Request) -> Wanted:
    """The filter for nodes: `?status=active&status=offline&site=ams`."""
    given = request.query_params
    return Wanted(
        statuses=tuple(given.getlist("status")),
        managements=tuple(given.getlist("management")),
        details={name: tuple(given.getlist(name)) for name in LISTED if name in given},
    )


def searched(request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names and the tests of labels of a search, `?q=gpu-1* rack=r7`. A word without a wildcard is a part of a
    name."""
    words = request.query_params.get("q", "").split()
    tests = tuple(word for word in words if "=" in word or word.startswith("!"))
    names = (word for word in words if word not in tests)
    return tuple(name if is_glob(name) or is_id(name) else f"*{name}*" for name in names), tests


def known(request: Request) -> Wanted:
    """As `wanted`. Raises HTTPException for an unknown state."""
    chosen = wanted(request)
    _among("status", chosen.statuses, NodeStatus)
    _among("management", chosen.managements, Management)
    return chosen


def _among(name: str, given: Iterable[str], states: type[NodeStatus | Management]) -> None:
    values = [state.value for state in states]
    for value in given:
        if value not in values:
            raise HTTPException(400, f"{name} must be one of {', '.join(values)}, not {value!r}")


def limit(request: Request, *, most: int) -> int:
    """The requested number of rows."""
    return int(number(request, "limit", default=100, most=most, least=1))


def number(request: Request, name: str, *, default: float, most: float, least: float = 0) -> float:
    """A number of the query string. Raises HTTPException with what was expected."""
    given = request.query_params.get(name)
    if given is None:
        return default
    try:
        value = float(given)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise HTTPException(400, f"{name} must be a number from {least:g} to {most:g}, not {given!r}")
    return value


def after(request: Request) -> tuple[str, int]:
    """The resource after which a page begins. Raises HTTPException."""
    given = request.query_params.get("after")
    if given is None:
        return "", 0
    name, _, id_ = given.rpartition(":")
    if not (id_.isascii() and id_.isdecimal() and len(id_) <= len(str(2**63 - 1)) - 1):
        raise HTTPException(400, f"after is the `next` of an earlier answer, not {given!r}")
    return name, int(id_)


def key_of(last: ResourceView) -> str:
    """The value of `after` for the next page."""
    return f"{last.name}:{last.id}"
