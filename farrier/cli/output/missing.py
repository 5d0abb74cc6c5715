"""Reports each name on the command line for which there is no resource."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from farrier.cli.output import printing
from farrier.errors import RefusedByModel
from farrier.model.intents import selection
from farrier.model.node.edges import NODE
from farrier.model.views.nodes import NodeFilter
from farrier.model.views.resources import WantedResources


class _Named(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


class MissingNames:
    """The names and IDs from the command line that were not found yet. Globs are not included, because a glob may match
    nothing. If there is another filter, no name is included, because the filter may exclude the named resource."""

    def __init__(self, wanted: NodeFilter | WantedResources) -> None:
        if isinstance(wanted, NodeFilter):
            self._kind, by_name = NODE, wanted == NodeFilter(names=wanted.names)
        else:
            self._kind, by_name = wanted.kind, wanted == WantedResources(kind=wanted.kind, names=wanted.names)
        self._left = {name for name in wanted.names if by_name and not selection.is_glob(name)}

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
                f"no {printing.words(self._kind)} is named {named}",
                hint=selection.how_to_find(self._kind),
            )
