"""The database as other packages use it: agents, reads, and intents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol
from uuid import UUID

from farrier.errors import RefusedByModel
from farrier.model.intents.preview import Foreseen
from farrier.model.intents.requests import IntentAnswer, IntentRequest, Registered, Registration
from farrier.model.loop.restores import HoldView, Lift, Lifted
from farrier.model.machine.agent import Beat, BeatAnswer, Enrolling, Enrolment, LeasedTask, TaskEnd
from farrier.model.machine.identity import Holder, Identity
from farrier.model.monitors.alertmanager import Labels
from farrier.model.monitors.monitor import MonitorView, RefusalView, Report, ReportAnswer
from farrier.model.node.clocks import OverduePage
from farrier.model.node.limits import Limits
from farrier.model.views.census import Census, Rules
from farrier.model.views.fleet import BrakeView, NodeGlance, ShardOwnership
from farrier.model.views.history import HistoryFilter, HistoryKey, HistoryPage, Order
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


class Identities(Protocol):
    """Finds the node to which a machine belongs. Two nodes that are not deleted never have the same machine."""

    async def holder(self, node: int, machine: Identity) -> Holder | None:
        """Return the node other than `node` that has this machine, or None. Another node may claim the machine before
        the caller's commit; the database then refuses the commit. Raises `DatabaseUnreachable`."""


class AgentCalls(Protocol):
    """The calls that a server for agents makes for them. `key` is the digest of an agent's key in hexadecimal. All
    methods may be repeated. They raise `RefusedByModel` if the database refuses the call, for example an unknown key,
    and `DatabaseUnreachable` if the database does not respond."""

    async def enroll(
        self, batch: Sequence[Enrolment], *, patient: bool = False
    ) -> Sequence[Enrolling | RefusedByModel]:
        """Enrol agents of nodes with their bootstrap tokens, in one transaction. Returns the answer to each, in their
        order. Only with `patient`, the call waits for other transactions that have locked rows of an enrolment."""

    async def beat(self, batch: Sequence[Beat], *, patient: bool = False) -> Sequence[BeatAnswer]:
        """Store heartbeats, in one transaction. Returns the answer to each, in their order. Only with `patient`, the
        call waits for other transactions that have locked the rows of agents."""

    async def put_facts(self, key: str, digest: str, facts: Mapping[str, Any]) -> str | None:
        """Store the facts of an agent. Returns why the facts are refused: they come from another machine."""

    async def claim(self, key: str, types: Sequence[str], claim_key: UUID, lease: timedelta) -> LeasedTask | None:
        """Claim the oldest queued task of the agent's node that has one of these types. Returns the same task for the
        same `claim_key`, while its lease lasts."""

    async def renew(self, key: str, task: int, lease_token: UUID, lease: timedelta) -> datetime:
        """Extend the lease of a task, and return its new end. Raises `RefusedByModel` if the agent no longer has the
        task and must stop working on it."""

    async def finish(self, key: str, task: int, end: TaskEnd) -> None:
        """End a task. Raises `RefusedByModel` in the same case as `renew`."""


class MonitorCalls(Protocol):
    """The calls that a server makes for monitors. They raise `RefusedByModel` for a monitor without a grant, and
    `DatabaseUnreachable`."""

    async def labels(self, monitor: str) -> Labels:
        """Return which labels of the monitor's alerts name what."""

    async def report(self, monitor: str, reports: Sequence[Report]) -> tuple[ReportAnswer, ...]:
        """Record reports of a monitor, in one transaction. Returns the answer to each, in their order. May be
        repeated."""

    async def refuse_truncated(self, monitor: str, group: str, missing: int) -> None:
        """Count and list a group of alerts of which some are missing. The caller takes none of its alerts."""


class Door(Protocol):
    """The pulse of a door, which is a server process that answers other programs."""

    def reached(self) -> None:
        """Record that the door has answered an agent. The next pulse says so."""

    async def run(self) -> NoReturn:
        """Commit a pulse every two seconds, until cancelled; then delete the door's row. A failed pulse is logged and
        repeated."""


class FleetApi(Protocol):
    """The nodes of a simulated fleet. All methods raise `RefusedByModel` if the database refuses the operation, and
    `DatabaseUnreachable` if the database does not respond."""

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        """Return the states of all nodes whose ID is higher than `after`."""


class Queries(Protocol):
    """Read-only queries for operators and other programs. A node or another resource is given by its name or its ID. A
    name stands for the resource that has the name now, or else for the last resource that had the name. All methods
    raise `DatabaseUnreachable`. They raise `RefusedByModel` for a kind that is not registered, for a resource that
    never existed, and for data that the connection's role may not read."""

    async def inventory(self, wanted: NodeFilter, *, after: str = "", limit: int = 1000) -> Page[NodeView]:
        """Return nodes by name, from the first name after `after`. A page with fewer than `limit` rows is the last
        page."""

    async def overdue(self, wanted: NodeFilter, limits: Limits, *, limit: int | None = None) -> OverduePage:
        """Return nodes with a clock above its limit, the worst first, and the number of further such nodes. At most
        `limit` nodes are returned. `limits` contains the limits that differ from the default."""

    async def node(self, node: str) -> Page[NodeDetail]:
        """Return everything about one node, as one row."""

    async def history(
        self,
        wanted: HistoryFilter,
        *,
        order: Order = Order.NEWEST,
        after: HistoryKey | None = None,
        limit: int = 1000,
    ) -> HistoryPage:
        """Return changes after the key `after`, of one resource or of all resources, at most `limit` of them. Deleted
        resources are included. The cost of a page depends neither on the length of the history nor on the filter.
        Raises `MalformedRequest` for a kind, layer or state that no resource has or had."""

    async def evidence(self, node: str, *, limit: int = 1000) -> Page[EvidenceView]:
        """Return the evidence of the cleanings of one node, the newest first."""

    async def tasks(self, node: str | None, statuses: Sequence[str] = (), *, limit: int = 1000) -> Page[TaskView]:
        """Return agent tasks of one node or of all nodes, the newest first."""

    async def holds(self, kind: str | None = None, site: str | None = None) -> Page[HoldView]:
        """Return the resources of one kind or of all kinds, at one site or at all sites, that are held after a
        restore."""

    async def controllers(self) -> ShardOwnership:
        """Return all controllers, including expired controllers, and their numbers of shards by kind."""

    async def brakes(self) -> Page[BrakeView]:
        """Return the brakes that hold nodes or that an operator has lifted, by site."""

    async def monitors(self, name: str | None = None) -> Page[MonitorView]:
        """Return all monitors by name, or only the one with this name. If no monitor has the name, the page is
        empty."""

    async def refusals(self, monitor: str | None = None, *, limit: int = 1000) -> Page[RefusalView]:
        """Return the reports of one monitor or of all monitors that were not taken, the newest first."""

    async def kinds(self, kind: str | None = None, *, counted: bool = True) -> tuple[KindView, ...]:
        """Return all kinds, including nodes, or only `kind`, with their states and actions. If `counted` is set, the
        result includes the numbers of resources; otherwise, the cost does not depend on these numbers. If `kind` is
        unknown, the result is empty."""

    async def resources(
        self, wanted: WantedResources, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Page[ResourceView]:
        """Return resources by name and ID, from the first resource after `after`. A page with fewer than `limit` rows
        is the last page. Raises `MalformedRequest` for a state that the kind does not have."""

    async def resource(self, kind: str, given: str) -> Page[ResourceDetail]:
        """Return everything about one resource, as one row. The resource may have ended."""

    async def intent(self, kind: str | None, intent: int) -> Page[IntentView]:
        """Return one intent, as one row. Intents of nodes are numbered separately. All other kinds share one numbering,
        so `kind` may be any of these kinds or None."""

    async def intents(
        self, kind: str | None, wanted: WantedIntents, *, before: int | None = None, limit: int = 1000
    ) -> IntentPage:
        """Return intents of a kind, or of all kinds except `node`: at most `limit`, newest first, from the first ID
        below `before`. Intents of resources that have ended are included. The cost of a page depends neither on the
        number of intents nor on the filter. Raises `MalformedRequest` for a resource without its kind, for an unknown
        kind, and for an action that the kind does not have."""

    async def late(self, limits: Limits, *, limit: int = 1000) -> Page[LateResource]:
        """Return resources above their limits, the worst first, at most `limit` of them. `limits` contains the limits
        that differ from the defaults of their kind."""

    async def addresses(self, segment: str) -> Page[AddressView]:
        """Return the allocated addresses of a network segment with their owners; empty for a segment that has ended."""

    async def members(self, partition: str) -> Page[MemberView]:
        """Return the ports of an IB partition; empty for a partition that has ended."""


class ServerQueries(Queries, Protocol):
    """The queries that only a server makes, for pages, streams and metrics."""

    async def ordered(self, wanted: NodeFilter, order: str, *, after: SortKey | None = None, limit: int) -> OrderedPage:
        """Return nodes after the key `after`, in one of the orders `views.ORDERS`. Each call reads all selected
        nodes."""

    async def counts(self, wanted: NodeFilter) -> Counts:
        """Return how many nodes a filter selects, and how many it would select with other values. Reads all nodes."""

    async def groups(self, wanted: NodeFilter, by: str, *, limit: int) -> tuple[Group, ...]:
        """Return the selected nodes grouped by one of the fields `views.GROUPS`, by site and value. Reads all nodes."""

    async def settled(self) -> datetime:
        """Return the time up to which history is complete: no earlier change can become visible any more."""

    async def figures(self) -> Figures:
        """Return the figures of the fleet that an inventory shows."""

    async def census(self, rules: Rules) -> Census:
        """Return the counts of the fleet that metrics show. Needs the role farrier_controller. With 100,000 nodes, a
        call takes tens of milliseconds; call it at most every few seconds."""


class Requests(Protocol):
    """Intents and other changes by clients. A node is given by its name or its ID. All methods raise
    `DatabaseUnreachable`, and `RefusedByModel` with the `sqlstate` and `hint` of the database. They raise
    `MalformedRequest` if the request is invalid in every state."""

    async def ask(self, request: IntentRequest) -> int:
        """Insert an intent and return its ID. If an intent with the same idempotency key and content exists, return the
        ID of that intent. Action `create` is already answered when this method returns."""

    async def foresee(
        self, kind: str, asked: Sequence[IntentRequest], patience: timedelta
    ) -> tuple[Foreseen | None, ...]:
        """Return, for each intent, how the handler of its resource would answer it now. Nothing is submitted. The
        answer is None if no controller answered within `patience`."""

    async def answer(self, kind: str, intent: int, patience: timedelta) -> IntentAnswer | None:
        """Wait for the answer to an intent of the kind. Returns None if the intent is still pending after
        `patience`."""

    async def register(self, registrations: Sequence[Registration]) -> tuple[Registered, ...]:
        """Register all of these nodes, or none. If there are several nodes, an error names the node. Only the returned
        bootstrap tokens are valid, because over HTTP, the server issues the tokens instead of the client."""

    async def issue_bootstrap(self, node: str, ttl: timedelta) -> str:
        """Issue a bootstrap token, which is returned only here. Earlier unused tokens of the node become invalid."""

    async def lift_brake(self, site: str, *, reason: str, lasts: timedelta, requested_by: str | None = None) -> None:
        """Let any number of nodes of a site leave service for the time `lasts`. The database accepts this only if the
        brake of the site keeps a node in service or is already lifted."""

    async def lift_holds(self, lift: Lift) -> tuple[Lifted, ...]:
        """Lift holds after a restore. Without a choice, resources with a difference or a live workflow stay held."""

    async def enqueue(self, kind: str, resource: str) -> int:
        """Make the handler of a resource run as soon as possible. The resource is given by name or ID. Returns the
        ID."""
