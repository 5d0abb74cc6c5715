"""The database as other packages use it: notifications, agents, reads, and intents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

from farrier.model.actions import Action
from farrier.model.agent import AgentTask, Enrolled, Heartbeat
from farrier.model.census import Census, Rules
from farrier.model.clocks import OverduePage
from farrier.model.controller_views import Ownership
from farrier.model.fleet import NodeGlance, PastMove
from farrier.model.history import HistoryFilter, HistoryKey, HistoryPage, Order, Pruned, Retained
from farrier.model.identity import Holder, Identity
from farrier.model.intent_views import IntentPage, IntentView, WantedIntents
from farrier.model.limits import Limits
from farrier.model.node import TaskType
from farrier.model.requests import Answer, Registered, Registration, Request
from farrier.model.resource_views import (
    AddressView,
    KindView,
    LateResource,
    MemberView,
    ResourceDetail,
    ResourceView,
    WantedResources,
)
from farrier.model.views import (
    Counts,
    Figures,
    NodeDetail,
    NodeView,
    OrderedPage,
    Page,
    SortKey,
    TaskView,
    Wanted,
)


class Identities(Protocol):
    """The node that a machine belongs to. Two nodes that are not deleted never have the same machine."""

    async def holder(self, node: int, machine: Identity) -> Holder | None:
        """The node other than `node` that has this machine, or None. Before the commit, another node may still claim
        the machine; the database then refuses the commit. Raises `DatabaseUnreachable`."""


class Wakes(Protocol):
    """Enqueues resources."""

    async def wake(self, kind: str, ids: Sequence[int]) -> None:
        """Enqueue these resources in one transaction, so that their handlers run as soon as possible. May be repeated.
        Raises `RefusedByModel`, and enqueues no resource, if one of them does not exist; raises
        `DatabaseUnreachable`."""


class Subscription(Protocol):
    """One listening connection."""

    async def watch(self, seconds: float) -> None:
        """Wait for this many seconds. Raises `DatabaseUnreachable` as soon as the connection is lost."""

    async def prove(self) -> None:
        """Send a notification to this connection and wait for it. Raises `DatabaseUnreachable` if it does not arrive:
        the connection is dead without an error, or a pooler gives each transaction another session."""


class Notifications(Protocol):
    """The source of notifications."""

    def subscribe(self, wake: Callable[[str], None]) -> AbstractAsyncContextManager[Subscription]:
        """Listen on a separate connection, closed at the end, and call `wake` for each notification: `KIND:ID,ID`;
        `KIND:*` for more IDs than a notification can contain; or `shards` when a controller gave shards back. Raises
        `DatabaseUnreachable`."""


class AgentApi(Protocol):
    """The database operations of agents. All raise `RefusedByModel` if the database refuses the operation, and
    `DatabaseUnreachable`."""

    async def enroll(self, token: str, facts: Mapping[str, Any]) -> Enrolled:
        """Enrol the agent of a node with its bootstrap token, which is valid once."""

    async def beat(self, beats: Sequence[Heartbeat]) -> frozenset[int]:
        """Store heartbeats, in one transaction. Returns the nodes whose heartbeats were accepted. The other nodes are
        deleted or have another agent by now, and the agents of these heartbeats must stop."""

    async def claim(
        self, agents: Sequence[Enrolled], types: Sequence[TaskType], lease: timedelta
    ) -> tuple[AgentTask, ...]:
        """Claim for each agent the oldest queued task of its node that has one of these types, if any."""

    async def renew(self, task: AgentTask, lease: timedelta) -> None:
        """Extend the lease of a task. `RefusedByModel`: the agent no longer has the task and must stop it."""

    async def finish(self, task: AgentTask, *, succeeded: bool, result: Mapping[str, Any]) -> None:
        """End a task. May be repeated. `RefusedByModel`: as for `renew`."""


class FleetApi(Protocol):
    """Operations of an external service on nodes. All raise `RefusedByModel` if the database refuses the operation, and
    `DatabaseUnreachable`."""

    async def register(self, nodes: Sequence[Registration]) -> None:
        """Register all of these nodes, or none."""

    async def ask(self, node: str, action: Action, params: Mapping[str, Any]) -> int:
        """Insert an intent and return its ID. The handler responds to the intent later."""

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        """The states of all nodes with an ID above `after`."""

    async def moves(self, newest: int) -> tuple[PastMove, ...]:
        """The latest transitions, newest first; at most `newest`."""

    async def newest(self) -> int:
        """The highest ID of a node; 0 without nodes."""


class Queries(Protocol):
    """Read-only queries for operators and other programs. A node is given by its name or its ID. A name means the node
    that has the name now, or else the last node that had it. All raise `RefusedByModel` for a node that never existed
    and for data that the connection's role may not read, and `DatabaseUnreachable`."""

    async def inventory(self, wanted: Wanted, *, after: str = "", limit: int = 1000) -> Page[NodeView]:
        """Nodes by name, from the first name after `after`. A page with fewer than `limit` rows is the last page."""

    async def overdue(self, wanted: Wanted, limits: Limits, *, limit: int | None = None) -> OverduePage:
        """Nodes above one of their limits, the worst first, at most `limit`, and the number of further nodes. `limits`
        are the limits that differ from the default."""

    async def node(self, node: str) -> Page[NodeDetail]:
        """Everything about one node, as one row."""

    async def history(
        self,
        wanted: HistoryFilter,
        *,
        order: Order = Order.NEWEST,
        after: HistoryKey | None = None,
        limit: int = 1000,
    ) -> HistoryPage:
        """Changes after the key `after` of one resource or of all, including deleted resources; at most `limit`. The
        cost of a page depends neither on the length of the history nor on the filter. Raises `MalformedRequest` for a
        kind, layer or state that no resource has or had."""

    async def tasks(self, node: str | None, statuses: Sequence[str] = (), *, limit: int = 1000) -> Page[TaskView]:
        """Agent tasks of one node or of all, the newest first."""

    async def controllers(self) -> Ownership:
        """All controllers, including expired controllers, with their numbers of shards by kind."""


class ServerQueries(Queries, Protocol):
    """The queries that only a server makes, for pages, streams and metrics."""

    async def ordered(self, wanted: Wanted, order: str, *, after: SortKey | None = None, limit: int) -> OrderedPage:
        """Nodes in one of `views.ORDERS`, after the key `after`. Reads all selected nodes for each page."""

    async def counts(self, wanted: Wanted) -> Counts:
        """How many nodes a filter selects, and how many it would select with other values. Reads all nodes."""

    async def settled(self) -> datetime:
        """The time up to which history is complete: no earlier change can become visible any more."""

    async def figures(self) -> Figures:
        """The figures of the fleet that an inventory shows."""

    async def census(self, rules: Rules) -> Census:
        """The counts of the fleet that metrics show. Needs the role farrier_controller. With 100,000 nodes, a call
        takes tens of milliseconds; call it at most every few seconds."""


class ResourceQueries(Protocol):
    """The same queries for resources of registered kinds. A resource is given by its name or its ID, like a node. All
    raise `RefusedByModel` for a kind that is not registered, for a resource that never existed and for data that the
    connection's role may not read, and `DatabaseUnreachable`."""

    async def kinds(self, kind: str | None = None, *, counted: bool = True) -> tuple[KindView, ...]:
        """All kinds, including nodes, or only `kind`, with their states, actions and, if `counted`, the numbers of
        their resources. Without counting, the cost does not depend on these numbers. Returns no kind if `kind` is
        unknown."""

    async def resources(
        self, wanted: WantedResources, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Page[ResourceView]:
        """Resources by name and ID, from the first one after `after`. A page with fewer than `limit` rows is the last
        one. Raises `MalformedRequest` for a state that the kind does not have."""

    async def resource(self, kind: str, given: str) -> Page[ResourceDetail]:
        """Everything about one resource, as one row. The resource may have ended."""

    async def intent(self, kind: str | None, intent: int) -> Page[IntentView]:
        """One intent, as one row. Intents of nodes are numbered separately. All other kinds share one numbering, and
        `kind` may be any of these kinds or None."""

    async def intents(
        self, kind: str | None, wanted: WantedIntents, *, before: int | None = None, limit: int = 1000
    ) -> IntentPage:
        """Intents of a kind, or of all kinds but `node`, newest first, from the first ID below `before`; at most
        `limit`. Includes intents of resources that have ended. The cost of a page depends neither on the number of
        intents nor on the filter. Raises `MalformedRequest` for a resource without its kind, an unknown
        kind, and an action that the kind does not have."""

    async def late(self, limits: Limits, *, limit: int = 1000) -> Page[LateResource]:
        """Resources above their limit, the worst first, at most `limit`. `limits` are the limits that differ from those
        of their kind."""

    async def addresses(self, segment: str) -> Page[AddressView]:
        """The allocated addresses of a network segment with their owners. A segment that has ended has none."""

    async def members(self, partition: str) -> Page[MemberView]:
        """The ports of an IB partition. A partition that has ended has none."""


class Requests(Protocol):
    """Intents and other changes by clients. A node is given by its name or its ID. All raise `DatabaseUnreachable` and
    `RefusedByModel`, with the `sqlstate` and `hint` of the database; `MalformedRequest` if the request is invalid in
    every state."""

    async def ask(self, request: Request) -> int:
        """Insert an intent and return its ID. If an intent with the same idempotency key and content exists, return the
        ID of that intent. `create` is already answered when this returns."""

    async def answer(self, kind: str, intent: int, patience: timedelta) -> Answer | None:
        """Wait for the answer to an intent of the kind. None: the intent is still pending after `patience`."""

    async def register(self, registrations: Sequence[Registration]) -> tuple[Registered, ...]:
        """Register all of these nodes, or none. If there are several, the error names the node. Only the returned
        bootstrap tokens are valid: over HTTP, the server issues them instead of the client."""

    async def issue_bootstrap(self, node: str, ttl: timedelta) -> str:
        """Issue a bootstrap token, which is returned only here. Earlier unused tokens of the node become invalid."""

    async def lift_brake(self, site: str, *, reason: str, lasts: timedelta, requested_by: str) -> None:
        """Let any number of nodes of a site leave service for `lasts`. Refused if the brake of the site holds no node
        and is not lifted already."""

    async def enqueue(self, kind: str, resource: str) -> int:
        """Make the handler of a resource, given by name or ID, run as soon as possible. Returns the ID."""


class Retention(Protocol):
    """Removes old history. The newest change of each layer is kept while its resource exists. Any number of processes
    may call this at once. All raise `RefusedByModel` if the role has no right to do this, and `DatabaseUnreachable`."""

    async def step(self, keep: timedelta) -> Retained:
        """Execute the next step over changes older than `keep`, in the pass that all processes share, if the step is
        due and no other process executes it. The next call is useful after `due_in`; an earlier call does nothing."""

    async def prune(self, older_than: timedelta, *, after: HistoryKey | None = None, really: bool) -> Pruned:
        """Execute a step of a separate pass, over changes after the key `after`. Without `really`, the step only
        counts."""
