"""The controllers and the shards that they own, as the database records them. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import msgspec

SHARDS = 64
"""Number of shards of each kind. `farrier.shard_of` and `farrier.make_shards` use the same number."""

ACT_FOR = 6.0
"""Seconds for which a controller may act after it sent its last successful renewal."""

Shard: TypeAlias = tuple[str, int]  # kind, number


class ControllerRow(msgspec.Struct, frozen=True):
    """A row of the table `controllers`. Rows of controllers that were declared dead are not included. `timeline` is the
    timeline of the database on which the last renewal was made. A controller that is `leaving` takes no more shards."""

    id: UUID
    kinds: frozenset[str]
    renewals: int
    timeline: str
    leaving: bool = False


class ShardRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of `shards`. `owner` is None if a controller has released the shard or no controller has ever owned it."""

    shard: Shard
    owner: UUID | None
    epoch: int


class Renewal(msgspec.Struct, frozen=True):
    """The result of a renewal. `renewed` is False for a controller that was declared dead.

    `era` changes when the database server restarts or a standby is promoted; `timeline` changes only when a standby is
    promoted.
    """

    renewed: bool
    timeline: str
    started: float
    controllers: tuple[ControllerRow, ...]
    expired: bool  # the table has rows of dead controllers
    shards: tuple[ShardRow, ...]

    @property
    def era(self) -> tuple[str, float]:
        return self.timeline, self.started


class ListedResources(msgspec.Struct, frozen=True):
    """The resources of some shards. `ids` states for each resource whether it has a wake. `steps` has the names of
    marked steps, by resource."""

    ids: dict[int, bool]
    steps: dict[int, str]


class Woken(msgspec.Struct, frozen=True):
    """The result of a poll: the position from which the next poll reads, the database's time, and the wakes by kind and
    resource. `loud` has the resources, by kind, that have a wake which is not quiet. If the poll finds too many wakes
    to read them, `wakes` is empty, and `many` has the resources by kind."""

    floor: str
    now: datetime
    wakes: dict[str, dict[int, set[UUID]]]
    loud: dict[str, set[int]]
    many: dict[str, Sequence[int]] = {}
