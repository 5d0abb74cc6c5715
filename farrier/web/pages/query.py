"""The query string of a page for operators: its search, and links from a list to the same list with another filter,
another order or another page. A page ignores unknown parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from farrier.model.intents.selection import is_glob, is_id
from farrier.model.views.nodes import Group

PAGE = "after"
"""The parameter with the key after which a page begins. A link that changes the filter omits this parameter, so it
leads to the first page."""


class Address:
    """The query string of a list."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        self.pairs = [(name, value) for name, value in given if name != PAGE]
        # The result is cached, because the rows of a list have mostly the same values.
        self._replaced: dict[tuple[str, str], str] = {}

    def toggled(self, name: str, value: str) -> str:
        """Return the address of the list with this filter added or, if it is set, removed."""
        pair = (name, value)
        if pair in self.pairs:
            return _link(each for each in self.pairs if each != pair)
        return _link([*self.pairs, pair])

    def replaced(self, name: str, value: str) -> str:
        """Return the address of the list with this value of a parameter. An empty value removes the parameter."""
        if (name, value) not in self._replaced:
            others = [each for each in self.pairs if each[0] != name]
            self._replaced[name, value] = _link([*others, (name, value)] if value else others)
        return self._replaced[name, value]

    def inside(self, field: str, group: Group) -> str:
        """Return the address of the nodes of a group; empty for nodes without a value, and for the racks of
        nodes without a site, because no filter selects them."""
        if group.value is None or (field == "rack" and group.site is None):
            return ""
        chosen = {field: group.value} | ({"site": group.site} if group.site else {})
        others = [each for each in self.pairs if each[0] not in {*chosen, "group"}]
        return _link([*others, *chosen.items()])

    def first(self) -> str:
        """Return the address of the first page."""
        return _link(self.pairs)

    def page(self, after: str) -> str:
        """Return the address of the page after a key."""
        return _link([*self.pairs, (PAGE, after)])


def _link(pairs: Iterable[tuple[str, str]]) -> str:
    return f"?{urlencode(list(pairs))}"


Endpoint = Callable[[Request], Awaitable[Response]]


def without_blanks(endpoint: Endpoint) -> Endpoint:
    """Wrap a page with a form, so that it redirects to its URL without the empty fields that browsers send."""

    @wraps(endpoint)
    async def tidied(request: Request) -> Response:
        given = request.query_params.multi_items()
        kept = [(name, value) for name, value in given if value.strip()]
        if kept == given:
            return await endpoint(request)
        return RedirectResponse(f"?{urlencode(kept)}", HTTPStatus.SEE_OTHER)

    return tidied


def searched(request: Request) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names, or parts of names, and the tests of labels of a search such as `?q=gpu-1* pool=a`."""
    words = request.query_params.get("q", "").split()
    tests = tuple(word for word in words if "=" in word or word.startswith("!"))
    names = (word for word in words if word not in tests)
    return tuple(name if is_glob(name) or is_id(name) else f"*{name}*" for name in names), tests
