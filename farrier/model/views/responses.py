"""The responses of the HTTP API, and its limits. The server sends the responses, and the client reads them."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from farrier.model.advice.explanation import NextAction
from farrier.model.intents.preview import Foreseen
from farrier.model.intents.requests import Registered
from farrier.model.loop.restores import HoldView, Lifted
from farrier.model.monitors.monitor import MonitorView, RefusalView
from farrier.model.node.clocks import StateClock
from farrier.model.views.fleet import BrakeView
from farrier.model.views.history import HistoryEntry
from farrier.model.views.intents import IntentView
from farrier.model.views.nodes import EvidenceView, NodeDetail, NodeView, RequestView, TaskView
from farrier.model.views.resources import AddressView, KindView, LateResource, MemberView, ResourceView

MOST_ROWS = 1000
"""The largest `limit` of a list, and the largest number of nodes that one request may register. A list of this many
nodes is about a megabyte of JSON; its encoding takes some milliseconds."""
LONGEST_WAIT_SECONDS = 30
"""The longest `wait` for an answer, so that a proxy does not close the connection."""


class ClockView(msgspec.Struct, frozen=True, kw_only=True):
    """How long a layer has been in its state, and its limit. `note` is why there is no limit."""

    layer: str
    state: str
    since: datetime
    limit_seconds: float | None
    above_seconds: float | None
    note: str

    @classmethod
    def of(cls, clock: StateClock) -> ClockView:
        """Return the clock with its durations in seconds."""
        return cls(
            layer=clock.layer,
            state=clock.state,
            since=clock.since,
            limit_seconds=None if clock.limit is None else clock.limit.total_seconds(),
            above_seconds=None if clock.above is None else clock.above.total_seconds(),
            note=clock.note,
        )

    def clock(self) -> StateClock:
        """Return the same clock, with durations instead of seconds."""
        return StateClock(
            layer=self.layer,
            state=self.state,
            since=self.since,
            limit=None if self.limit_seconds is None else timedelta(seconds=self.limit_seconds),
            above=None if self.above_seconds is None else timedelta(seconds=self.above_seconds),
            note=self.note,
        )


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes by name. `next` is the value of `after` for the next request, null at the end."""

    now: datetime
    nodes: tuple[NodeView, ...]
    next: str | None


class ShownNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node with all its data, the clocks that run for it, and the recommended next action."""

    now: datetime
    node: NodeDetail
    clocks: tuple[ClockView, ...]
    next_action: NextAction


class Brakes(msgspec.Struct, frozen=True, kw_only=True):
    """The brakes that hold nodes in service, or that an operator has lifted, by site."""

    now: datetime
    brakes: tuple[BrakeView, ...]


class Monitors(msgspec.Struct, frozen=True, kw_only=True):
    """The monitors, by name."""

    now: datetime
    monitors: tuple[MonitorView, ...]


class Refusals(msgspec.Struct, frozen=True, kw_only=True):
    """Reports of monitors that were not taken, the newest first."""

    now: datetime
    refusals: tuple[RefusalView, ...]


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """A token for a node's agent. The agent can use it once. Only this response contains it. Earlier unused tokens are
    invalid."""

    bootstrap_token: str


class RegisteredNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The registered nodes, in the order of the request."""

    nodes: tuple[Registered, ...]


class LateNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node above a limit, with its clocks above their limits."""

    node: NodeView
    clocks: tuple[ClockView, ...]


class LateOther(LateResource, frozen=True, kw_only=True):
    """A resource of another kind than `node` that is above a limit. `clocks` has the clock that is above this limit."""

    clocks: tuple[ClockView, ...]


class Breaches(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes and other resources above a limit, in each list the one furthest above its limit first. `more_nodes` is the
    number of nodes above a limit that the list omits."""

    now: datetime
    nodes: tuple[LateNode, ...]
    more_nodes: int
    resources: tuple[LateOther, ...]


class Kinds(msgspec.Struct, frozen=True, kw_only=True):
    """All kinds, the number of resources in each state, and the actions with the states that accept them."""

    kinds: tuple[KindView, ...]


class ClockedResource(ResourceView, frozen=True, kw_only=True):
    """A resource with its running clocks."""

    clocks: tuple[ClockView, ...]


class ResourceList(msgspec.Struct, frozen=True, kw_only=True):
    """Resources by name. `next` is the value of `after` for the next request, null at the end."""

    now: datetime
    resources: tuple[ClockedResource, ...]
    next: str | None


class ShownResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource with all its data, and its newest intents, newest first."""

    now: datetime
    resource: ClockedResource
    requests: tuple[RequestView, ...]


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The allocated addresses of a network segment."""

    now: datetime
    addresses: tuple[AddressView, ...]


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """The ports in an IB partition."""

    now: datetime
    members: tuple[MemberView, ...]


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """Intents, newest first. `next` is the value of `before` for the next request, null at the end. A page may have
    fewer than `limit` rows even if more pages follow."""

    now: datetime
    intents: tuple[IntentView, ...]
    next: int | None


class Change(HistoryEntry, frozen=True, kw_only=True):
    """One change of one layer of one resource. `key` can be used like a cursor, to continue after this change."""

    cursor: str = msgspec.field(name="key")


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """A page of changes. `next` is the key for the next page, null at the end. A page may have fewer than `limit` rows,
    or none, even if more pages follow. With `cursor`, a request continues after this page at any later time."""

    changes: tuple[Change, ...]
    next: str | None
    cursor: str | None


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """Agent tasks, the newest first."""

    now: datetime
    tasks: tuple[TaskView, ...]


class EvidenceList(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of the cleanings of a node, the newest first."""

    now: datetime
    evidence: tuple[EvidenceView, ...]


class Holds(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that are held after a restore."""

    now: datetime
    holds: tuple[HoldView, ...]


class LiftedHolds(msgspec.Struct, frozen=True, kw_only=True):
    """The selected resources, each with why it is still held."""

    resources: tuple[Lifted, ...]


class ForeseenAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that the handlers would give now, in the order of the intents; null if no controller answered."""

    answers: tuple[Foreseen | None, ...]


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """The enqueued resource. Its handler runs as soon as possible."""

    kind: str
    id: int
