"""`protocols.ResourceQueries` on PostgreSQL: reads resources of registered kinds for display.

The module reads only data that the role farrier_reader may read. The kinds come from the database, so kinds that this
process does not run are also shown.
"""

from __future__ import annotations

from typing import Any

from farrier.errors import MalformedRequest
from farrier.io import intents, misspelt, reading, refusals, statements
from farrier.io.census import kind_columns
from farrier.io.pool import Pool
from farrier.model import ib_partition, network_segment, selection
from farrier.model.intent_views import IntentPage, IntentView, WantedIntents
from farrier.model.limits import Limits
from farrier.model.resource_views import (
    AddressView,
    KindView,
    LateResource,
    MemberView,
    ResourceDetail,
    ResourceView,
    WantedResources,
)
from farrier.model.views import Page

_KINDS = statements.load("resources/kinds")
_SHOWN = statements.load("resources/shown")
_DETAIL = statements.load("resources/detail")
_LATE = statements.load("resources/late")
_ADDRESSES = statements.load("resources/addresses")
_MEMBERS = statements.load("resources/members")


class PostgresResourceQueries:
    """Implements `protocols.ResourceQueries`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections

    async def kinds(self, kind: str | None = None, *, counted: bool = True) -> tuple[KindView, ...]:
        async with refusals.borrowed(self._pool) as conn:
            return await reading.fetch(conn, KindView, _KINDS, kind, counted)

    async def resources(
        self, wanted: WantedResources, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Page[ResourceView]:
        which: tuple[Any, ...] = (wanted.kind, list(wanted.states), list(wanted.sites), wanted.ended)
        ranges = [selection.name_range(name) for name in wanted.names]
        named = [each.first for each in ranges if not each.pattern]
        matching = [each.pattern for each in ranges if each.pattern]
        async with refusals.borrowed(self._pool) as conn:
            await misspelt.refuse_states(conn, wanted.kind, wanted.states)
            now = await reading.now(conn)
            return Page(now, await reading.fetch(conn, ResourceView, _SHOWN, *which, *after, limit, named, matching))

    async def resource(self, kind: str, given: str) -> Page[ResourceDetail]:
        async with refusals.borrowed(self._pool) as conn:
            now = await reading.now(conn)
            id_ = await reading.find_resource(conn, kind, given)
            return Page(now, await reading.fetch(conn, ResourceDetail, _DETAIL, kind, id_))

    async def intent(self, kind: str | None, intent: int) -> Page[IntentView]:
        async with refusals.borrowed(self._pool) as conn:
            return await intents.find(conn, kind, intent)

    async def intents(
        self, kind: str | None, wanted: WantedIntents, *, before: int | None = None, limit: int = 1000
    ) -> IntentPage:
        if wanted.resource is not None and kind is None:
            raise MalformedRequest(f"resource {wanted.resource!r} is given without its kind", hint="give the kind, too")
        async with refusals.borrowed(self._pool) as conn:
            await misspelt.refuse_intents(conn, kind, wanted.actions)
            id_ = None
            if kind is not None and wanted.resource is not None:
                id_ = await reading.find_resource(conn, kind, wanted.resource)
            return await intents.page(conn, kind, wanted, resource=id_, window=(before, limit))

    async def late(self, limits: Limits, *, limit: int = 1000) -> Page[LateResource]:
        async with refusals.borrowed(self._pool) as conn:
            now = await reading.now(conn)
            return Page(now, await reading.fetch(conn, LateResource, _LATE, *kind_columns(limits), limit))

    async def addresses(self, segment: str) -> Page[AddressView]:
        async with refusals.borrowed(self._pool) as conn:
            now = await reading.now(conn)
            id_ = await reading.find_resource(conn, network_segment.KIND, segment)
            return Page(now, await reading.fetch(conn, AddressView, _ADDRESSES, id_))

    async def members(self, partition: str) -> Page[MemberView]:
        async with refusals.borrowed(self._pool) as conn:
            now = await reading.now(conn)
            id_ = await reading.find_resource(conn, ib_partition.KIND, partition)
            return Page(now, await reading.fetch(conn, MemberView, _MEMBERS, id_))
