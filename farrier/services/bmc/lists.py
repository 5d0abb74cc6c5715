"""Reads a list of a BMC with all its pages, and states whether the list is complete.

The probe uses this module for systems, managers and interfaces. A BMC may send a list in pages, and a page links to the
next page. Nothing may be concluded from what an incomplete list lacks.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from farrier.services.bmc import resources
from farrier.services.bmc.exchange import BmcOperation, Exchange
from farrier.services.bmc.resources import Resource

# The smallest known pages have 10 members, and no list that farrier reads has more than 64; more pages are a loop.
MOST_PAGES = 16


class ListMembers(msgspec.Struct, frozen=True):
    """The paths of the members in the order of the list. `lacks` is why the list is incomplete; None if it is
    complete."""

    paths: tuple[str, ...]
    lacks: str | None = None


async def members(exchange: Exchange, operation: BmcOperation, path: str) -> ListMembers:
    """Read the list at `path`, page by page."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    lacks: str | None = None
    page: str | None = path
    while page is not None:
        if page in seen or len(seen) == MOST_PAGES:
            lacks = "its pages are a loop" if page in seen else f"it has more than {MOST_PAGES} pages"
            break
        seen.add(page)
        resource = await exchange.get(operation, page)
        listed = resource.get("Members")
        entries = listed if isinstance(listed, list) else []
        paths = resources.links(entries)
        found.update(dict.fromkeys(paths))
        if len(paths) < len(entries) or (listed is not None and not isinstance(listed, list)):
            lacks = "it has members without a usable link"
        page = _next(resource)
        if page == "":
            lacks, page = "the link to its next page cannot be used", None
    count = resource.get("Members@odata.count")
    if lacks is None and isinstance(count, int) and count > len(found):
        lacks = f"it has {len(found)} of {count} members"
    return ListMembers(tuple(found), lacks)


def _next(page: Resource) -> str | None:
    """Return the path of the next page, empty if it cannot be used, and None after the last page."""
    for field in ("Members@odata.nextLink", "@odata.nextLink", "Members@nextLink"):
        if page.get(field):
            link = page[field]
            path = resources.link(link if isinstance(link, Mapping) else {"@odata.id": link}) or ""
            return "" if path.startswith("//") else path
    return None
