"""The fleet counted: what `protocols.Queries.census` answers and metrics show.

Counts of whole fleets and no single node's business, but for the few worst. `Rules` is by what it is counted: the
limits in force and the ages from which a heartbeat or an observation says nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from farrier.model.limits import Limits

ALERTS_NAMED = 50
"""Largest number of alerts that have a separate figure, the most frequent first. Agents choose the ids of alerts, so
their number has no bound. All other alerts are counted together."""

FAILING_AFTER = timedelta(minutes=5)
"""A restart of a service takes less time."""


class Condition(StrEnum):
    """What is known of a node's health from its agent."""

    OK = "ok"
    ALERTING = "alerting"  # an alert, none of which blocks scheduling
    BLOCKED = "blocked"  # an alert that blocks scheduling
    SILENT = "silent"  # no heartbeat within offline_after, whatever the last one said
    NONE = "none"  # no agent has enrolled


class Source(StrEnum):
    """Where observations come from."""

    BMC = "bmc"
    MAAS = "maas"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """By what the fleet is counted. `name_at_most` clocks above a limit are named: of each
    state the worst five, then the worst of the fleet."""

    limits: Limits
    offline_after: timedelta
    observation_ttl: timedelta
    name_at_most: int


class Inhabited(msgspec.Struct, frozen=True, kw_only=True):
    """A state that something is in; `oldest` is how long the first to enter has been there, in seconds."""

    kind: str
    state: str
    substate: str
    count: int
    oldest: float


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """Clocks above their limits, of one state."""

    kind: str
    state: str
    substate: str
    count: int


class Limited(msgspec.Struct, frozen=True, kw_only=True):
    """The limit, in seconds, of a state of a registered kind where no site has one of its own."""

    kind: str
    state: str
    substate: str
    seconds: float


class LateNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node above a limit by so many seconds, and by which of its clocks."""

    node: str
    kind: str
    state: str
    substate: str
    seconds: float


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """Resources whose runs have ended in the same error for `FAILING_AFTER`."""

    kind: str
    error: str
    count: int


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Shards of a kind that one controller has ('': none has them); `lag` is for how many seconds the one that has
    waited the longest was not swept, 0 where no controller has them."""

    kind: str
    controller: str
    count: int
    lag: float


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet at one moment. States that nothing is in, and words that nothing has, may be missing, but of registered
    kinds all states are there. `above`, `worst`, `manual` and `oldest_intent` leave out what an operator's pause holds
    up. `kind_limits` are those of registered kinds, of which this process may not know all."""

    now: datetime
    places: tuple[Inhabited, ...]
    above: tuple[Late, ...]
    kind_limits: tuple[Limited, ...]
    worst: tuple[LateNode, ...]
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
    heartbeats_stale: int
    failing: tuple[Failing, ...]
    unread_power: Mapping[str, int]
    observations_stale: Mapping[str, int]
