"""Reports names on the command line that no resource has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from farrier.cli import output
from farrier.errors import RefusedByModel
from farrier.model import selection


class _Named(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


class Missing:
    """The names and IDs from the command line that were not found yet. A glob that matches nothing is not an error."""

    def __init__(self, kind: str, given: Iterable[str]) -> None:
        self._kind = kind
        self._left = {name for name in given if not selection.is_glob(name)}

    def seen(self, resources: Iterable[_Named]) -> None:
        """Record that these resources were found."""
        if self._left:
            self._left.difference_update(text for each in resources for text in (each.name, str(each.id)))

    def otherwise(self, text: str) -> str:
        """Return the text to print for an empty list. If a given name was not found, the text is empty, because
        `refuse` reports this."""
        return "" if self._left else text

    def refuse(self) -> None:
        """Raise RefusedByModel if any name was not found."""
        if self._left:
            named = ", ".join(map(repr, sorted(self._left)))
            raise RefusedByModel(
                f"no {output.words(self._kind)} is named {named}",
                hint=selection.how_to_find(self._kind),
            )
