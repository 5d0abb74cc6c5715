"""Reads all nodes, or all resources of a kind, that a filter selects, in pages in the order of their names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from farrier.cli.output.missing import MissingNames
from farrier.cli.settings.connection import CommandSession
from farrier.model.views.nodes import NodeFilter, NodeView, Page
from farrier.model.views.resources import ResourceView, WantedResources
from farrier.model.views.responses import MOST_ROWS

R = TypeVar("R")


async def of_nodes(session: CommandSession, wanted: NodeFilter, missing: MissingNames) -> AsyncIterator[Page[NodeView]]:
    """Yield the pages of nodes; at least one. Records in `missing` which nodes were found."""
    after, full = "", True
    while full:
        page = await session.queries.inventory(wanted, after=after, limit=MOST_ROWS)
        missing.seen(page.rows)
        yield page
        full = len(page.rows) == MOST_ROWS
        after = page.rows[-1].name if full else after


async def of_resources(
    session: CommandSession, wanted: WantedResources, missing: MissingNames
) -> AsyncIterator[Page[ResourceView]]:
    """Yield the pages of resources; at least one. Records in `missing` which resources were found."""
    after, full = ("", 0), True
    while full:
        page = await session.queries.resources(wanted, after=after, limit=MOST_ROWS)
        missing.seen(page.rows)
        yield page
        full = len(page.rows) == MOST_ROWS
        after = (page.rows[-1].name, page.rows[-1].id) if full else after


async def every(pages: AsyncIterator[Page[R]], missing: MissingNames) -> tuple[R, ...]:
    """Return the rows of all pages. Raises RefusedByModel for a name that no resource has."""
    found = tuple([row async for page in pages for row in page.rows])
    missing.refuse()
    return found
