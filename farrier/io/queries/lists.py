"""`protocols.Queries` on PostgreSQL: reads resources of all kinds, history and tasks for display.

The module reads only data that the role farrier_reader may read. The kinds come from the database, so kinds that this
process does not run are also shown. Every listing is paged by a key, not by a number of rows to skip, so the last page
of millions of rows costs as much as the first page. Separate statements read a node's row and its details, so the
result is not one snapshot and must not be used for decisions.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from farrier.errors import MalformedRequest, RefusedByModel, UndecodableState
from farrier.io import codec, statements
from farrier.io.connections import refusals
from farrier.io.connections.pool import Connection, Pool
from farrier.io.queries import census, reading, spelling
from farrier.io.queries.completeness import Horizon
from farrier.model.intents import selection
from farrier.model.intents.selection import LabelTest, NameRange
from farrier.model.loop.restores import HoldView
from farrier.model.monitors.monitor import MonitorView, RefusalView
from farrier.model.network import segment as network_segment
from farrier.model.node import clocks
from farrier.model.node.clocks import Overdue, OverduePage
from farrier.model.node.layers import NODE
from farrier.model.node.limits import STATES, Limits
from farrier.model.partition import partition as ib_partition
from farrier.model.views.census import Census, Rules
from farrier.model.views.fleet import BrakeView, ShardOwnership
from farrier.model.views.history import Bound, HistoryEntry, HistoryFilter, HistoryKey, HistoryPage, Order
from farrier.model.views.intents import IntentPage, IntentView, WantedIntents
from farrier.model.views.nodes import (
    Counts,
    EvidenceView,
    Figures,
    Group,
    NodeDetail,
    NodeFilter,
    NodeView,
    OrderedPage,
    Page,
    SortKey,
    TaskView,
)
from farrier.model.views.resources import (
    AddressView,
    KindView,
    LateResource,
    MemberView,
    ResourceDetail,
    ResourceView,
    WantedResources,
)

_INVENTORY = statements.load("queries/inventory")
_ORDERED = statements.load("queries/ordered")
_COUNTS = statements.load("queries/counts")
_GROUPS = statements.load("queries/groups")
_NAMES = statements.load("queries/names")
_OVERDUE = statements.load("queries/overdue")
_SCAN = statements.load("queries/scan")
_NODES = statements.load("queries/nodes")
_DETAIL = statements.load("queries/detail")
_HISTORY = statements.load("queries/history")
_TASKS = statements.load("queries/tasks")
_EVIDENCE = statements.load("queries/evidence")
_FIGURES = statements.load("queries/figures")
_INTENTS = statements.load("queries/intents")
_INTENTS_OF_NODES = _INTENTS.replace(
    "SELECT i.*, NULL::integer AS api_version FROM farrier.resource_intents i",
    "SELECT i.*, 'node' AS kind, i.node_id AS resource_id FROM farrier.intents i",
)
_HOLDS = statements.load("queries/holds")
_CONTROLLERS = statements.load("queries/controllers")
_BRAKES = statements.load("queries/brakes")
_MONITORS = statements.load("queries/monitors")
_REFUSALS = statements.load("queries/refusals")
_KINDS = statements.load("resources/kinds")
_SHOWN = statements.load("resources/shown")
_RESOURCE = statements.load("resources/detail")
_LATE = statements.load("resources/late")
_ADDRESSES = statements.load("resources/addresses")
_MEMBERS = statements.load("resources/members")

# Kind, state and substate of every state that this program can read.
_KNOWN = tuple(list(column) for column in zip(*((p.kind, p.state, p.substate) for p in STATES), strict=True))

# How many nodes one statement reads: a round trip of a few megabytes at most, however large the fleet.
_CHUNK = 1000
# How many held nodes the list of brakes names: enough to find their common rack or switch.
_NAMED = 20

_FIRST = SortKey(-math.inf, "", "")

_read_census = codec.reader(Census, "a count of the fleet")


class PostgresQueries:
    """Implements `protocols.Queries`."""

    def __init__(self, connections: Pool) -> None:
        self._pool = connections
        self._horizon = Horizon()

    async def inventory(self, wanted: NodeFilter, *, after: str = "", limit: int = 1000) -> Page[NodeView]:
        async with self._scanning() as conn:
            now = await reading.now(conn)
            selected = await _selected(conn, wanted)
            ids = [record[0] for record in await conn.fetch(_INVENTORY, *selected, after, limit)]
        async with refusals.borrowed(self._pool) as conn:
            return Page(now, await _nodes(conn, ids))

    async def ordered(self, wanted: NodeFilter, order: str, *, after: SortKey | None = None, limit: int) -> OrderedPage:
        key = msgspec.structs.astuple(after or _FIRST)
        async with self._scanning() as conn:
            now = await reading.now(conn)
            selected = await _selected(conn, wanted)
            found = await conn.fetch(_ORDERED, *selected, order, *key, limit)
        async with refusals.borrowed(self._pool) as conn:
            page = Page(now, await _nodes(conn, [record["id"] for record in found]))
        if len(found) < limit:
            return OrderedPage(page, None)
        last = found[-1]
        return OrderedPage(page, SortKey(last["number"], last["text"], last["name"]))

    async def counts(self, wanted: NodeFilter) -> Counts:
        async with self._scanning() as conn:
            (counted,) = await reading.fetch(conn, Counts, _COUNTS, *await _selected(conn, wanted))
            return counted

    async def groups(self, wanted: NodeFilter, by: str, *, limit: int) -> tuple[Group, ...]:
        async with self._scanning() as conn:
            return await reading.fetch(conn, Group, _GROUPS, *await _selected(conn, wanted), by, limit)

    @asynccontextmanager
    async def _scanning(self) -> AsyncIterator[Connection]:
        """Borrow a connection whose statements may read whole tables."""
        async with refusals.borrowed(self._pool) as conn, conn.transaction(readonly=True):
            await conn.fetchrow(_SCAN)
            yield conn

    async def overdue(self, wanted: NodeFilter, limits: Limits, *, limit: int | None = None) -> OverduePage:
        found: list[Overdue] = []
        async with refusals.borrowed(self._pool) as conn:
            now = await reading.now(conn)
            selected = await _selected(conn, wanted)
            late = await conn.fetch(_OVERDUE, *selected, now, *census.node_columns(limits), *_KNOWN, limit)
            for chunk in _chunks([record["id"] for record in late]):
                above = ((node, clocks.above(node, now, limits)) for node in await _nodes(conn, chunk))
                found += [Overdue(node, over) for node, over in above if over]
        rows = tuple(sorted(found, key=lambda overdue: overdue.excess, reverse=True))
        return OverduePage(now, rows, more=late[0]["n"] - len(late) if late else 0)

    async def node(self, node: str) -> Page[NodeDetail]:
        async with refusals.borrowed(self._pool) as conn:
            now = await reading.now(conn)
            id_ = await reading.find_resource(conn, NODE, node)
            (line,) = await _nodes(conn, [id_])
            (more,) = await reading.fetch(conn, dict[str, Any], _DETAIL, id_)
        try:
            return Page(now, (msgspec.convert(msgspec.to_builtins(line) | more, NodeDetail),))
        except (msgspec.ValidationError, RecursionError) as error:
            raise UndecodableState(f"node {line.name}", str(error)) from error

    async def history(
        self,
        wanted: HistoryFilter,
        *,
        order: Order = Order.NEWEST,
        after: HistoryKey | None = None,
        limit: int = 1000,
    ) -> HistoryPage:
        most = max(limit, reading.LOOKED) if wanted.is_narrow else limit
        async with refusals.borrowed(self._pool) as conn:
            kind, id_ = await _resource(conn, wanted)
            await spelling.refuse(conn, wanted)
            # Read before the page, so that the page includes the changes of writers that have ended by now.
            settled = await self._horizon.settled(conn) if order is Order.OLDEST else None
            walk = order.value if id_ is None else f"{order} of one"
            key = (None,) * 5 if after is None else msgspec.structs.astuple(after)
            bounds = *_bound(wanted.since), *_bound(wanted.until)
            found: tuple[_Walked, ...] = await reading.fetch(
                conn,
                _Walked,
                _HISTORY,
                walk,
                *key,
                kind,
                id_,
                list(wanted.kinds),
                *bounds,
                most,
                limit,
                *_narrowed(wanted),
                settled,
            )
        (walked,) = found
        if len(walked.changes) == limit:
            return HistoryPage(walked.changes, walked.changes[-1].key)
        return HistoryPage(walked.changes, walked.last if walked.looked == most else None)

    async def settled(self) -> datetime:
        async with refusals.borrowed(self._pool) as conn:
            return await self._horizon.settled(conn)

    async def tasks(self, node: str | None, statuses: Sequence[str] = (), *, limit: int = 1000) -> Page[TaskView]:
        async with refusals.borrowed(self._pool) as conn:
            id_ = None if node is None else await reading.find_resource(conn, NODE, node)
            return await reading.page(conn, TaskView, _TASKS, id_, list(statuses), limit)

    async def evidence(self, node: str, *, limit: int = 1000) -> Page[EvidenceView]:
        async with refusals.borrowed(self._pool) as conn:
            id_ = await reading.find_resource(conn, NODE, node)
            return await reading.page(conn, EvidenceView, _EVIDENCE, id_, limit)

    async def holds(self, kind: str | None = None, site: str | None = None) -> Page[HoldView]:
        async with refusals.borrowed(self._pool) as conn:
            return await reading.page(conn, HoldView, _HOLDS, kind, site)

    async def controllers(self) -> ShardOwnership:
        async with refusals.borrowed(self._pool) as conn:
            (ownership,) = await reading.fetch(conn, ShardOwnership, _CONTROLLERS)
            return ownership

    async def brakes(self) -> Page[BrakeView]:
        async with refusals.borrowed(self._pool) as conn:
            return await reading.page(conn, BrakeView, _BRAKES, _NAMED)

    async def monitors(self, name: str | None = None) -> Page[MonitorView]:
        async with refusals.borrowed(self._pool) as conn:
            return await reading.page(conn, MonitorView, _MONITORS, name)

    async def refusals(self, monitor: str | None = None, *, limit: int = 1000) -> Page[RefusalView]:
        async with refusals.borrowed(self._pool) as conn:
            return await reading.page(conn, RefusalView, _REFUSALS, monitor, limit)

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
            await spelling.refuse_states(conn, wanted.kind, wanted.states)
            return await reading.page(conn, ResourceView, _SHOWN, *which, *after, limit, named, matching)

    async def resource(self, kind: str, given: str) -> Page[ResourceDetail]:
        async with refusals.borrowed(self._pool) as conn:
            id_ = await reading.find_resource(conn, kind, given)
            return await reading.page(conn, ResourceDetail, _RESOURCE, kind, id_)

    async def intent(self, kind: str | None, intent: int) -> Page[IntentView]:
        async with refusals.borrowed(self._pool) as conn:
            walked = await _intents(conn, kind, "one", intent, None, 1, 1, [], [], [])
        if not walked.rows:
            hint = "list the intents to find its ID"
            raise RefusedByModel(f"no intent has the ID {intent}", hint=hint, sqlstate="FR404")
        return Page(walked.now, walked.rows)

    async def intents(
        self, kind: str | None, wanted: WantedIntents, *, before: int | None = None, limit: int = 1000
    ) -> IntentPage:
        if wanted.resource is not None and kind is None:
            raise MalformedRequest(f"resource {wanted.resource!r} is given without its kind", hint="give the kind, too")
        async with refusals.borrowed(self._pool) as conn:
            await spelling.refuse_intents(conn, kind, wanted.actions)
            id_ = None
            if kind is not None and wanted.resource is not None:
                id_ = await reading.find_resource(conn, kind, wanted.resource)
            walk = "of one" if id_ is not None else "pending" if wanted.is_pending_only else "all"
            below = selection.LARGEST_ID if before is None else before
            most = max(limit, reading.LOOKED)
            narrowed = list(wanted.statuses), list(wanted.actions), list(wanted.requested_by)
            walked = await _intents(conn, kind, walk, id_, below, most, limit, *narrowed)
        if len(walked.rows) == limit:
            return IntentPage(walked.now, walked.rows, walked.rows[-1].id)
        return IntentPage(walked.now, walked.rows, walked.last if walked.looked == most else None)

    async def late(self, limits: Limits, *, limit: int = 1000) -> Page[LateResource]:
        async with refusals.borrowed(self._pool) as conn:
            return await reading.page(conn, LateResource, _LATE, *census.kind_columns(limits), limit)

    async def addresses(self, segment: str) -> Page[AddressView]:
        async with refusals.borrowed(self._pool) as conn:
            id_ = await reading.find_resource(conn, network_segment.KIND, segment)
            return await reading.page(conn, AddressView, _ADDRESSES, id_)

    async def members(self, partition: str) -> Page[MemberView]:
        async with refusals.borrowed(self._pool) as conn:
            id_ = await reading.find_resource(conn, ib_partition.KIND, partition)
            return await reading.page(conn, MemberView, _MEMBERS, id_)

    async def figures(self) -> Figures:
        async with refusals.borrowed(self._pool) as conn:
            (figures,) = await reading.fetch(conn, Figures, _FIGURES)
            return figures

    async def census(self, rules: Rules) -> Census:
        async with refusals.borrowed(self._pool) as conn:
            counted = await census.take(conn, rules)
        return _read_census(counted)


class _Walked(msgspec.Struct, frozen=True):
    """A page of history: the matching changes, how many were examined, and the key of the last of these."""

    changes: tuple[HistoryEntry, ...]
    looked: int
    last: HistoryKey | None


class _WalkedIntents(msgspec.Struct, frozen=True):
    """The matching intents, the number of examined intents, and the ID of the last examined intent."""

    now: datetime
    rows: tuple[IntentView, ...]
    looked: int
    last: int | None


async def _intents(conn: Connection, kind: str | None, *arguments: Any) -> _WalkedIntents:
    """Return one page of intents. `arguments` are those of the statement, without the kind."""
    sql = _INTENTS_OF_NODES if kind == NODE else _INTENTS
    (walked,) = await reading.fetch(conn, _WalkedIntents, sql, *arguments, kind)
    return walked


async def _resource(conn: Connection, wanted: HistoryFilter) -> tuple[str | None, int | None]:
    """Return the kind and the ID of the resource that the filter names."""
    if wanted.resource is None:
        return None, None
    kind, given = wanted.resource
    return kind, await reading.find_resource(conn, kind, given)


def _bound(bound: Bound | None) -> tuple[datetime | None, timedelta | None]:
    return (None, bound) if isinstance(bound, timedelta) else (bound, None)


def _narrowed(wanted: HistoryFilter) -> tuple[Any, ...]:
    lists = (wanted.layers, wanted.sources, wanted.targets, wanted.causes)
    return *map(list, lists), wanted.reason, wanted.at_least, list(wanted.requested_by)


async def _nodes(conn: Connection, ids: Sequence[int]) -> tuple[NodeView, ...]:
    return await reading.fetch(conn, NodeView, _NODES, reading.texts(ids)) if ids else ()


async def _selected(conn: Connection, wanted: NodeFilter) -> tuple[Any, ...]:
    """Return the first ten arguments of the statements that select nodes."""
    keys, values, negated = reading.transposed(wanted.labels, LabelTest)
    return (
        list(wanted.statuses),
        list(wanted.managements),
        codec.encode(wanted.details),
        wanted.failed,
        keys,
        values,
        reading.texts(negated),
        *reading.transposed(await _ranges(conn, wanted.names), NameRange),
    )


async def _ranges(conn: Connection, names: Sequence[str]) -> Sequence[NameRange]:
    if not names:
        return [selection.ANY_NAME]
    ids = [int(name) for name in names if selection.is_id(name)]
    named = [record[0] for record in await conn.fetch(_NAMES, reading.texts(ids))] if ids else []
    return [selection.name_range(name) for name in (*names, *named)]


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))
