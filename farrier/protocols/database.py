"""The database as others use it: wake-ups, simulated agents and services, what is shown and what is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Protocol

from farrier.model.actions import Action
from farrier.model.agent import AgentTask, Enrolled, Heartbeat
from farrier.model.census import Census, Rules
from farrier.model.clocks import OverduePage
from farrier.model.controller_views import Ownership
from farrier.model.fleet import NodeGlance, PastMove
from farrier.model.history import HistoryFilter, HistoryKey, HistoryPage, Order, Pruned, Retained
from farrier.model.identity import Holder, Identity
from farrier.model.limits import Limits
from farrier.model.node import TaskType
from farrier.model.requests import Answer, Registration, Request, ResourceAnswer, ResourceRequest
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
    Figures,
    NodeDetail,
    NodeView,
    Page,
    TaskView,
    Wanted,
)


class Identities(Protocol):
    """Which node a machine belongs to: no two nodes that are not deleted have the same."""

    async def holder(self, node: int, machine: Identity) -> Holder | None:
        """The node other than `node` that has this machine. None is no promise: another may claim it until the commit,
        which the database refuses then. Raises `DatabaseUnreachable`."""


class Wakes(Protocol):
    """Enqueues resources."""

    async def wake(self, kind: str, ids: Sequence[int]) -> None:
        """Make the handlers of these resources run as soon as possible, all in one transaction. May be
        called again. Raises `RefusedByModel`, and wakes none, if one of them does not exist;
        `DatabaseUnreachable`."""


class Subscription(Protocol):
    """One listening connection."""

    async def heard(self, patience: timedelta) -> frozenset[str]:
        """Wait for wake-ups: `KIND:ID,ID`, `KIND:*` for more than a notification holds, `shards` when some were given
        back; none when `patience` is over. One that came before the call counts. Raises `DatabaseUnreachable` when the
        connection is gone."""

    async def prove(self) -> None:
        """Send a message around and wait for it. Raises `DatabaseUnreachable` when it does not come: the
        connection is dead without saying so, or a pooler hands each transaction to another session."""


class Notifications(Protocol):
    """Where wake-ups are heard of."""

    def subscribe(self) -> AbstractAsyncContextManager[Subscription]:
        """Listen on a connection of its own, closed at the end. Raises `DatabaseUnreachable`."""


class AgentApi(Protocol):
    """What agents ask of the database. All raise `RefusedByModel` for what it refuses and
    `DatabaseUnreachable`."""

    async def enroll(self, token: str, facts: Mapping[str, Any]) -> Enrolled:
        """Spend a bootstrap token: it works once."""

    async def beat(self, beats: Sequence[Heartbeat]) -> frozenset[int]:
        """Signs of life, in one transaction. Answers the nodes that took theirs; the others are deleted or
        have another agent by now, and those agents are to end."""

    async def claim(
        self, agents: Sequence[Enrolled], types: Sequence[TaskType], lease: timedelta
    ) -> tuple[AgentTask, ...]:
        """For each agent the oldest queued task of its node, of these types, if there is one."""

    async def renew(self, task: AgentTask, lease: timedelta) -> None:
        """Keep a task. `RefusedByModel`: it is no longer the claimant's, who must stop."""

    async def finish(self, task: AgentTask, *, succeeded: bool, result: Mapping[str, Any]) -> None:
        """End a task. May be called again. `RefusedByModel`: as for `renew`."""


class FleetApi(Protocol):
    """What a service beside farrier does with nodes. All raise `RefusedByModel` for what the database refuses and
    `DatabaseUnreachable`."""

    async def register(self, nodes: Sequence[Registration]) -> None:
        """Register all of them, or none."""

    async def ask(self, node: str, action: Action, params: Mapping[str, Any]) -> int:
        """Insert an intent and return its ID. It is answered later."""

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        """Where all nodes stand whose id is above `after`."""

    async def moves(self, newest: int) -> tuple[PastMove, ...]:
        """The `newest` moves, newest first."""

    async def newest(self) -> int:
        """The highest id of a node; 0 without nodes."""


class Queries(Protocol):
    """Reads for people and other programs; decides and writes nothing. A node is given by its name or its id; a name
    means the node that has it now, else the last one that had it. All raise `RefusedByModel` for a node that never
    was and for what the connection's role may not see, and `DatabaseUnreachable`."""

    async def inventory(self, wanted: Wanted, *, after: str = "", limit: int = 1000) -> Page[NodeView]:
        """Nodes by name, those whose name comes behind `after`. Fewer than `limit` rows: that was the last page."""

    async def overdue(self, wanted: Wanted, limits: Limits, *, limit: int | None = None) -> OverduePage:
        """Nodes above one of their limits, the worst first, at most `limit`, and how many more there are. `limits` are
        those that are not the default."""

    async def node(self, node: str) -> Page[NodeDetail]:
        """One row: everything of one node."""

    async def history(
        self,
        wanted: HistoryFilter,
        *,
        order: Order = Order.NEWEST,
        after: HistoryKey | None = None,
        limit: int = 1000,
    ) -> HistoryPage:
        """Changes of one resource or of all, deleted ones included, those that come behind `after`; at most `limit`.
        A page costs the same however long the history is, and whatever is wanted of it."""

    async def tasks(self, node: str | None, statuses: Sequence[str] = (), *, limit: int = 1000) -> Page[TaskView]:
        """Agent tasks, the newest first; of one node or of all."""

    async def controllers(self) -> Ownership:
        """Which controllers there are, those that expired included, and how many shards of which kinds each has."""

    async def figures(self) -> Figures:
        """The fleet in numbers, as an inventory shows it."""

    async def census(self, rules: Rules) -> Census:
        """The fleet counted, as metrics show it. Takes the role farrier_controller. Costs 100,000 nodes tens of
        milliseconds, so it is not to be asked more often than every few seconds."""


class ResourceQueries(Protocol):
    """The same for resources of registered kinds. A resource is given by its name or its id, as a node is. All raise
    `RefusedByModel` for a kind that is not registered, for a resource that never was and for what the connection's role
    may not see, and `DatabaseUnreachable`."""

    async def kinds(self, *, counted: bool = True) -> tuple[KindView, ...]:
        """All registered kinds, with their states, what is in them, and what may be asked for. Unless it is `counted`,
        nothing is said of what is in them, and it costs the same however many that are."""

    async def resources(
        self, wanted: WantedResources, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Page[ResourceView]:
        """Resources by name and id, those that come behind `after`. Fewer than `limit` rows: that was the last page."""

    async def resource(self, kind: str, given: str) -> Page[ResourceDetail]:
        """One row: everything of one resource, an ended one included."""

    async def late(self, limits: Limits, *, limit: int = 1000) -> Page[LateResource]:
        """Resources above their limit, the worst first, at most `limit`. `limits` are those that are not their kind's
        own."""

    async def addresses(self, segment: str) -> Page[AddressView]:
        """The allocated addresses of a network segment with their owners; none of a segment that has ended."""

    async def members(self, partition: str) -> Page[MemberView]:
        """The ports of an IB partition; one that has ended has none."""


class Requests(Protocol):
    """What may be asked for. A node is given by its name or its id. All raise `RefusedByModel` (its `sqlstate` and
    `hint` are the database's; `MalformedRequest` if it could never be right) and `DatabaseUnreachable`."""

    async def ask(self, request: Request) -> int:
        """Insert an intent and return its ID, or that of the first with the same idempotency key and content."""

    async def answer(self, intent: int, patience: timedelta) -> Answer | None:
        """Wait until an intent is answered. None: it is still pending after `patience`."""

    async def ask_resource(self, request: ResourceRequest) -> int:
        """The same for a resource of a registered kind. `create` is answered when this returns."""

    async def answer_resource(self, intent: int, patience: timedelta) -> ResourceAnswer | None:
        """Wait until an intent for a resource is answered. None: it is still pending after `patience`."""

    async def register(self, registration: Registration) -> int:
        """Make a node; answers its id."""

    async def issue_bootstrap(self, node: str, ttl: timedelta) -> str:
        """Issue a bootstrap token, which is returned only here; earlier unused ones become invalid."""

    async def lift_brake(self, site: str, *, reason: str, lasts: timedelta, requested_by: str) -> None:
        """Let nodes of a site leave service whatever their number; refused while its brake holds nothing."""

    async def enqueue(self, kind: str, resource: str) -> int:
        """Make a resource's handler run as soon as possible; answers its id. It is given by name or id."""


class Retention(Protocol):
    """Removing history that is no longer needed. The newest change of each layer of a resource is needed for as long as
    the resource is. May be called by any number of processes at once. All raise `RefusedByModel` for a role that may
    not and `DatabaseUnreachable`."""

    async def step(self, keep: timedelta) -> Retained:
        """The next step of the pass that all processes share, over changes older than `keep`, if it is due and no other
        takes it. Call it again after `due_in`; called earlier it does nothing."""

    async def prune(self, older_than: timedelta, *, after: HistoryKey | None = None, really: bool) -> Pruned:
        """A step of a pass of one's own, over changes behind `after`; without `really` it only counts."""
