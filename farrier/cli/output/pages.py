"""Reads all nodes, or all resources of a kind, that a filter selects, in pages in the order of their names. Reports
each name on the command line for which there is no resource."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from farrier.cli.output import printing
from farrier.cli.settings.connection import CommandSession
from farrier.errors import RefusedByModel
from farrier.model.intents import selection
from farrier.model.node.layers import NODE
from farrier.model.views.nodes import NodeFilter, NodeView, Page
from farrier.model.views.resources import ResourceView, WantedResources
from farrier.model.views.responses import MOST_ROWS


class _Named(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=_Named)


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
        """Return the text for an empty list; empty if a given name was not found, because `refuse` reports this."""
        return "" if self._left else text

    def refuse(self) -> None:
        """Raise RefusedByModel if any name was not found."""
        if self._left:
            named = ", ".join(map(repr, sorted(self._left)))
            raise RefusedByModel(
                f"no {printing.words(self._kind)} is named {named}",
                hint=selection.how_to_find(self._kind),
            )


def of_nodes(session: CommandSession, wanted: NodeFilter, missing: MissingNames) -> AsyncIterator[Page[NodeView]]:
    """Yield the pages of nodes; at least one. Records in `missing` which nodes were found."""

    def read(last: NodeView | None) -> Awaitable[Page[NodeView]]:
        return session.queries.inventory(wanted, after=last.name if last else "", limit=MOST_ROWS)

    return _pages(read, missing)


def of_resources(
    session: CommandSession, wanted: WantedResources, missing: MissingNames
) -> AsyncIterator[Page[ResourceView]]:
    """Yield the pages of resources; at least one. Records in `missing` which resources were found."""

    def read(last: ResourceView | None) -> Awaitable[Page[ResourceView]]:
        return session.queries.resources(wanted, after=(last.name, last.id) if last else ("", 0), limit=MOST_ROWS)

    return _pages(read, missing)


async def _pages(read: Callable[[R | None], Awaitable[Page[R]]], missing: MissingNames) -> AsyncIterator[Page[R]]:
    last: R | None = None
    while True:
        page = await read(last)
        missing.seen(page.rows)
        yield page
        if len(page.rows) < MOST_ROWS:
            return
        last = page.rows[-1]


async def every(pages: AsyncIterator[Page[R]], missing: MissingNames) -> tuple[R, ...]:
    """Return the rows of all pages. Raises RefusedByModel for a name that no resource has."""
    found = tuple([row async for page in pages for row in page.rows])
    missing.refuse()
    return found
