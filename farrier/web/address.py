"""Links from a list to the same list with another filter, another order or another page."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

PAGE = "after"
"""The parameter with the key after which a page begins. A link to another filter goes to its first page."""


class Address:
    """The query string of a list."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        self.pairs = [(name, value) for name, value in given if name != PAGE]
        # Rows of a list share most of their values.
        self._replaced: dict[tuple[str, str], str] = {}

    def toggled(self, name: str, value: str) -> str:
        """The list with this filter, or without this filter if it is set."""
        pair = (name, value)
        if pair in self.pairs:
            return _link(each for each in self.pairs if each != pair)
        return _link([*self.pairs, pair])

    def replaced(self, name: str, value: str) -> str:
        """The list with this value of a parameter instead of any other value. An empty value removes the parameter."""
        if (name, value) not in self._replaced:
            others = [each for each in self.pairs if each[0] != name]
            self._replaced[name, value] = _link([*others, (name, value)] if value else others)
        return self._replaced[name, value]

    def page(self, after: str) -> str:
        """The page after a key."""
        return _link([*self.pairs, (PAGE, after)])


def _link(pairs: Iterable[tuple[str, str]]) -> str:
    return f"?{urlencode(list(pairs))}"
