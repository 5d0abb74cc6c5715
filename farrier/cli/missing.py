"""Names on the command line that no resource has."""

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
    """The given names and IDs that were not found yet. A glob that matches nothing is no error."""

    def __init__(self, kind: str, given: Iterable[str]) -> None:
        self._kind = kind
        self._left = {name for name in given if not selection.is_glob(name)}

    def seen(self, resources: Iterable[_Named]) -> None:
        """Note that these resources were found."""
        if self._left:
            self._left.difference_update(text for each in resources for text in (each.name, str(each.id)))

    def otherwise(self, text: str) -> str:
        """The text to print for an empty list; empty if a given name was not found, which `refuse` reports."""
        return "" if self._left else text

    def refuse(self) -> None:
        """Raise RefusedByModel if any was not found."""
        if self._left:
            named = ", ".join(map(repr, sorted(self._left)))
            raise RefusedByModel(
                f"no {output.words(self._kind)} is named {named}",
                hint=f"list the resources of kind {self._kind} to find its name",
            )
