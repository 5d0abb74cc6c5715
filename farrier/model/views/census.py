"""The counts of the fleet: the result of `protocols.Queries.census`, which metrics show.

The counts cover the whole fleet. The names of only a few of the worst resources are included.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from farrier.model.node.limits import Limits

ALERTS_NAMED = 50
"""Largest number of alerts that are counted separately. These are the most frequent alerts. Agents choose the IDs of
alerts, so the number of IDs has no bound. All other alerts are counted together."""

FAILING_AFTER = timedelta(minutes=5)
"""A resource counts as failing if its runs have ended in the same error for at least this time. A restart of a service
takes less time."""


class AgentHealth(StrEnum):
    """The health of a node as its agent reports it."""

    OK = "ok"
    ALERTING = "alerting"  # it is ok, but there are alerts
    BLOCKED = "blocked"  # it is not ok, or an alert blocks scheduling
    SILENT = "silent"  # no heartbeat within offline_after; the report of the last heartbeat does not count
    NONE = "none"  # no agent has enrolled


class ObservationSource(StrEnum):
    """The sources of observations."""

    BMC = "bmc"
    MAAS = "maas"  # regions that are not failing
    MAAS_FAILING = "maas_failing"  # failing regions; the failure of a region has its own alert


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The current limits, and the ages above which heartbeats and observations are stale. The census names at most
    `name_at_most` clocks above their limits: first the five worst clocks of each state, then the worst clocks of the
    fleet."""

    limits: Limits
    offline_after: timedelta
    observation_ttl: timedelta
    name_at_most: int


class Inhabited(msgspec.Struct, frozen=True, kw_only=True):
    """The number of resources in one state. `oldest` is the longest time, in seconds, for which one of these resources
    has been in the state."""

    kind: str
    state: str
    substate: str
    count: int
    oldest: float


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """The number of clocks that are above the limit of one state."""

    kind: str
    state: str
    substate: str
    count: int


class Limited(msgspec.Struct, frozen=True, kw_only=True):
    """The default limit, in seconds, of one state of a registered kind. This limit applies at sites that set no
    limit."""

    kind: str
    state: str
    substate: str
    seconds: float


class LateClock(msgspec.Struct, frozen=True, kw_only=True):
    """A clock that has exceeded its limit by `seconds`. `name` and `resource_kind` are the name and the kind of the
    resource. `kind` is the label of the clock's layer, as in `Late`; for example, `management` is the label of a layer
    of a `node`."""

    name: str
    resource_kind: str
    kind: str
    state: str
    substate: str
    seconds: float


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """Resources whose runs have ended in the same error for the time `FAILING_AFTER`."""

    kind: str
    error: str
    count: int


class WaitingCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of resources whose waits are ended by the same: a value of `outcome.EndsBy`."""

    kind: str
    ends_by: str
    count: int


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """The number of shards of one kind that one controller owns. `controller` is the name of the controller with the
    first part of its ID; it is empty for the shards without an owner. `lag` is the number of seconds since the last
    sweep of the shard that was swept least recently, or 0 for the shards without an owner."""

    kind: str
    controller: str
    count: int
    lag: float


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """The number of doors of one kind that are alive, or that are not."""

    kind: str
    alive: bool
    count: int


class Monitored(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of one monitor: how many stand and are known, how many are unknown, and how many conditions it
    reported that were not taken, within the time for which a condition stands."""

    monitor: str
    known: int
    unknown: int
    refused: int


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of the fleet at one moment. The result may omit states and labels that no resource has, but it
    contains all states of registered kinds. `above`, `worst`, `manual` and `oldest_intent` exclude paused nodes,
    and `above`, `worst` and `oldest_intent` also exclude what is held after a restore; `restored` counts that by kind.
    `kind_limits` are the limits of registered kinds, including kinds that this process does not have. `agent_reached`
    is how many seconds ago a heartbeat last came by a door, or 0 if no agent uses doors. `doors_dead` has, for each
    pulse that is lost now, for how many seconds the silence of agents that use doors has not counted."""

    now: datetime
    places: tuple[Inhabited, ...]
    above: tuple[Late, ...]
    kind_limits: tuple[Limited, ...]
    worst: tuple[LateClock, ...]
    manual: Mapping[str, int]
    shards: tuple[Owned, ...]
    wakes: int
    intents_pending: int
    oldest_intent: float
    health: Mapping[str, int]
    alerts: Mapping[str, int]
    power: Mapping[str, int]
    paused: int
    same_machine: int
    brakes_holding: int
    restored: Mapping[str, int]
    heartbeats_stale: int
    agent_reached: float
    doors: tuple[Doors, ...]
    doors_dead: Mapping[str, float]
    failing: tuple[Failing, ...]
    waiting: tuple[WaitingCount, ...]
    unread_power: Mapping[str, int]
    observations_stale: Mapping[str, int]
    maas_status_unknown: int
    conditions: Mapping[str, int]
    condition_drops: Mapping[str, int]
    monitors: tuple[Monitored, ...]
