"""Reads all nodes, or all resources of a kind, that a filter selects, in pages in the order of their names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from farrier.cli.connection import Session
from farrier.cli.missing import Missing
from farrier.model.api_answers import MOST_ROWS
from farrier.model.resource_views import ResourceView, WantedResources
from farrier.model.views import NodeView, Page, Wanted

R = TypeVar("R")


async def of_nodes(session: Session, wanted: Wanted, missing: Missing) -> AsyncIterator[Page[NodeView]]:
    """Yield the pages of nodes; at least one. Records in `missing` which nodes were found."""
    after, full = "", True
    while full:
        page = await session.queries.inventory(wanted, after=after, limit=MOST_ROWS)
        missing.seen(page.rows)
        yield page
        full = len(page.rows) == MOST_ROWS
        after = page.rows[-1].name if full else after


async def of_resources(
    session: Session, wanted: WantedResources, missing: Missing
) -> AsyncIterator[Page[ResourceView]]:
    """Yield the pages of resources; at least one. Records in `missing` which resources were found."""
    after, full = ("", 0), True
    while full:
        page = await session.queries.resources(wanted, after=after, limit=MOST_ROWS)
        missing.seen(page.rows)
        yield page
        full = len(page.rows) == MOST_ROWS
        after = (page.rows[-1].name, page.rows[-1].id) if full else after


async def every(pages: AsyncIterator[Page[R]], missing: Missing) -> tuple[R, ...]:
    """Return the rows of all pages. Raises RefusedByModel for a name that no resource has."""
    found = tuple([row async for page in pages for row in page.rows])
    missing.refuse()
    return found
