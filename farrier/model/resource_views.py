"""Resources of registered kinds as people and other programs are shown them, whatever their kind is.

`protocols.ResourceQueries` answers in these words, the command line and the web show them. What a kind has of its own
is in `detail`, by column. Kinds are shown as the database has them, which may know some that this process does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from farrier.model import limits as limits_of
from farrier.model import sla
from farrier.model.clocks import Clock
from farrier.model.kinds import LAYER
from farrier.model.limits import Limits, Overrides
from farrier.model.outcome import Record
from farrier.model.params import Schema
from farrier.model.views import RequestView


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a layer of a kind; `label` is the layer's in metrics and in names of limits. `count` is how
    many are in it, None for one that ends a resource and where none are counted; `limit` is in seconds."""

    layer: str
    label: str
    state: str
    initial: bool
    terminal: bool
    limit: float | None
    why_none: str
    count: int | None

    @property
    def lasts(self) -> timedelta | None:
        """The kind's own limit."""
        return None if self.limit is None else timedelta(seconds=self.limit)


class ActionView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that resources of a kind may be asked for."""

    action: str
    description: str
    params: Schema


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """A registered kind."""

    kind: str
    states: tuple[StateView, ...]
    actions: tuple[ActionView, ...]

    @property
    def count(self) -> int:
        """How many have not ended."""
        return sum(state.count or 0 for state in self.states if state.layer == LAYER)


class LayerView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a resource is in one layer, and since when. `default_limit`, in seconds, is the kind's own."""

    layer: str
    label: str
    state: str
    since: datetime
    default_limit: float | None
    why_none: str


class ResourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A resource. `outcome` is what its last run said, unchanged since `outcome_at`; `controller` runs its shard (None:
    none does, or it has ended) and had run all that was due of it at `swept_at`. `step` may have changed something
    outside since `step_begun_at`, and its end is not recorded. `layers` begin with the state."""

    kind: str
    id: int
    name: str
    site: str | None
    model: str | None
    version: int
    state: str
    state_entered_at: datetime
    created_at: datetime
    ended_at: datetime | None
    last_error: str | None
    layers: tuple[LayerView, ...]
    detail: Mapping[str, Any]
    outcome: Record | None
    outcome_at: datetime | None
    controller: str | None
    swept_at: datetime | None
    step: str | None
    step_begun_at: datetime | None


class ResourceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A resource and the newest of what it was asked for, newest first."""

    resource: ResourceView
    requests: tuple[RequestView, ...]


class LateResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource above its limit in a layer, which is `limit` seconds."""

    kind: str
    layer: str
    id: int
    name: str
    site: str | None
    state: str
    since: datetime
    limit: float
    last_error: str | None


class AddressView(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a network segment, and who has it."""

    address: str
    prefix: str
    owner: str
    node: str | None
    allocated_at: datetime


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A port in an IB partition, and whose it is. `since` is when it came into its `state`; `reason` why UFM refuses
    it."""

    guid: str
    owner: str
    node: str | None
    membership: str
    state: str
    since: datetime
    reason: str | None


class WantedResources(msgspec.Struct, frozen=True, kw_only=True):
    """Which resources of a kind. Empty: any. A state is one of any layer, and is meant with its substates."""

    kind: str
    states: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    ended: bool = False


def clocks_of(resource: ResourceView, now: datetime, limits: Limits) -> tuple[Clock, ...]:
    """The clock of each layer of a resource, its state's first; none of one that has ended. `limits` are those that are
    not the kind's."""
    if resource.ended_at is not None:
        return ()
    overrides = limits.of(resource.site, resource.model)
    return tuple(_clock(layer, now, overrides) for layer in resource.layers)


def _clock(at: LayerView, now: datetime, overrides: Overrides) -> Clock:
    default = None if at.default_limit is None else timedelta(seconds=at.default_limit)
    limit = limits_of.resource_limit(overrides, at.label, at.state, default)
    return Clock(
        layer=at.layer,
        state=at.state,
        since=at.since,
        limit=limit,
        above=sla.breach(limit, at.since, now),
        note=at.why_none if limit is None else "",
    )


def late_clock(late: LateResource, now: datetime) -> Clock:
    """The clock by which it is late."""
    limit = timedelta(seconds=late.limit)
    above = sla.breach(limit, late.since, now) or timedelta(0)
    return Clock(layer=late.layer, state=late.state, since=late.since, limit=limit, above=above)
