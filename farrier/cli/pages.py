"""Reads all nodes, or all resources of a kind, that a filter selects, in pages in the order of their names."""

from __future__ import annotations

from collections.abc import AsyncIterator

from farrier.cli.connection import Session
from farrier.model.api_answers import MOST_ROWS
from farrier.model.resource_views import ResourceView, WantedResources
from farrier.model.views import NodeView, Page, Wanted


async def of_nodes(session: Session, wanted: Wanted) -> AsyncIterator[Page[NodeView]]:
    """Yield the pages of nodes; at least one."""
    after, full = "", True
    while full:
        page = await session.queries.inventory(wanted, after=after, limit=MOST_ROWS)
        yield page
        full = len(page.rows) == MOST_ROWS
        after = page.rows[-1].name if full else after


async def of_resources(session: Session, wanted: WantedResources) -> AsyncIterator[Page[ResourceView]]:
    """Yield the pages of resources; at least one."""
    after, full = ("", 0), True
    while full:
        page = await session.queries.resources(wanted, after=after, limit=MOST_ROWS)
        yield page
        full = len(page.rows) == MOST_ROWS
        after = (page.rows[-1].name, page.rows[-1].id) if full else after
