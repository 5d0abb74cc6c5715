"""Views of resources of registered kinds, for operators and other programs.

`protocols.Queries` returns these views; the command line and the web show them. `detail` contains the columns
of the resource's kind. The views show kinds as the database defines them, including kinds that this process does not
have.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from farrier.model.intents.params import ParamsRules
from farrier.model.loop.outcome import Record
from farrier.model.node import sla
from farrier.model.node.clocks import StateClock
from farrier.model.node.limits import Limits, Overrides, limit_key
from farrier.model.views.nodes import RequestView


class StateView(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a layer of a kind. `label` is the name of the layer in metrics and in names of limits. `count` is the
    number of resources in the state. `count` is None if the state is terminal, if the layer is in a separate table, or
    if the query did not count resources. `limit` is in seconds."""

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
        """The default limit that the kind sets for the state."""
        return None if self.limit is None else timedelta(seconds=self.limit)


class ActionView(msgspec.Struct, frozen=True, kw_only=True):
    """An action of resources of a kind. `states` are the states of the first layer that accept the action; `create` has
    no states. A resource may also refuse the action for other reasons. `instead` is the alternative that a refusal in
    the other states recommends."""

    action: str
    description: str
    params: ParamsRules
    states: tuple[str, ...]
    instead: str


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """A registered kind. The states of its first layer come first."""

    kind: str
    states: tuple[StateView, ...]
    actions: tuple[ActionView, ...]

    @property
    def count(self) -> int:
        """The number of resources that have not ended."""
        return sum(state.count or 0 for state in self.states if state.layer == self.states[0].layer)


class LayerView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a resource in one layer. `default_limit` is the default limit of the kind, in seconds."""

    layer: str
    label: str
    state: str
    since: datetime
    default_limit: float | None
    why_none: str


class ResourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A resource. `outcome` is the outcome of the last run; it has not changed since `outcome_at`. `controller` is the
    owner of the resource's shard, or None if the shard has no owner or the resource has ended. At `swept_at`, all due
    resources of the shard had run. `step` began at `step_begun_at` and may have changed an outside service; its end is
    not recorded. The first element of `layers` is the state. `restored_at` is set while farrier changes nothing of the
    resource, because the database was restored from a backup."""

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
    restored_at: datetime | None = None


class ResourceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A resource and its latest intents, the newest first."""

    resource: ResourceView
    requests: tuple[RequestView, ...]


class LateResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that has been in a state of a layer for longer than the limit of `limit` seconds."""

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
    """An address of a network segment, with its owner."""

    address: str
    prefix: str
    owner: str
    node: str | None
    allocated_at: datetime


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """A port in an IB partition, with its owner. `since` is when the port entered its `state`; `reason` is why UFM
    refuses the port."""

    guid: str
    owner: str
    node: str | None
    membership: str
    state: str
    since: datetime
    reason: str | None


class WantedResources(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of resources of one kind; an empty field accepts all resources. `names` contains names, IDs and globs.
    `states` contains states of any layer; a state also accepts its substates."""

    kind: str
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    ended: bool = False


def clocks_of(resource: ResourceView, now: datetime, limits: Limits) -> tuple[StateClock, ...]:
    """Return the clock of each layer of a resource, the clock of the state first; empty for a resource that has ended.
    `limits` contains the limits that differ from the defaults of the kind."""
    if resource.ended_at is not None:
        return ()
    overrides = limits.of(resource.site, resource.model)
    return tuple(_clock(layer, now, overrides) for layer in resource.layers)


def _clock(at: LayerView, now: datetime, overrides: Overrides) -> StateClock:
    default = None if at.default_limit is None else timedelta(seconds=at.default_limit)
    limit = overrides.get(limit_key(at.label, at.state), default)
    return StateClock.of(at.layer, at.state, at.since, now, limit=limit, note=at.why_none)


def late_clock(late: LateResource, now: datetime) -> StateClock:
    """Return the clock of a resource that is above its limit."""
    limit = timedelta(seconds=late.limit)
    above = sla.breach(limit, late.since, now) or timedelta(0)
    return StateClock(layer=late.layer, state=late.state, since=late.since, limit=limit, above=above)
