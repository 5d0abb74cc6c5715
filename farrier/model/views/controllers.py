"""Views of controllers and their shards, for operators and other programs.

`protocols.Queries.controllers` returns these views; the command `farrier controllers` prints them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import msgspec

from farrier.model.loop.controllers import ACT_FOR
from farrier.model.loop.doors import DeadDoors, DoorView


class Life(StrEnum):
    """The state of a controller, derived from the time of its last renewal."""

    ALIVE = "alive"
    LEAVING = "leaving"  # it stops, and gives its shards back
    OUT_OF_TOUCH = "out of touch"  # it may not act, and other controllers will soon declare it dead
    EXPIRED = "expired"  # another controller declared it dead


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of one kind. `lag` is the delay, in seconds, of the most delayed run of the kind at the last renewal.
    It is None if the controller does not run the kind."""

    kind: str
    shards: int
    lag: float | None = None


class ControllerView(msgspec.Struct, frozen=True, kw_only=True):
    """The controller of a daemon. `shares` has one element for each kind that the controller runs, or whose shards it
    owns."""

    id: UUID
    name: str
    release: str
    started_at: datetime
    renewed_at: datetime
    expired: bool
    leaving: bool = False
    shares: tuple[Share, ...]

    def life(self, now: datetime) -> Life:
        """Return the state of the controller at the database's time `now`."""
        if self.expired:
            return Life.EXPIRED
        if now - self.renewed_at > timedelta(seconds=ACT_FOR):
            return Life.OUT_OF_TOUCH
        return Life.LEAVING if self.leaving else Life.ALIVE


class ShardOwnership(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of all shards, the shards without an owner, and the doors. Controllers and doors are ordered by name,
    but expired controllers come first. `dead_doors` says since when and why the silence of agents that use doors does
    not count; it is None while doors reach agents, or if nothing depends on doors."""

    now: datetime
    controllers: tuple[ControllerView, ...]
    unowned: tuple[Share, ...]
    doors: tuple[DoorView, ...] = ()
    dead_doors: DeadDoors | None = None
