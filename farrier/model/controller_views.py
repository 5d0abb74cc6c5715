"""Controllers and their shards as people and other programs are shown them.

`protocols.Queries.controllers` returns these; `farrier controllers` prints them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import msgspec

from farrier.model.controllers import ACT_FOR


class Life(StrEnum):
    """How a controller is, by its last renewal."""

    ALIVE = "alive"
    OUT_OF_TOUCH = "out of touch"  # it may not act, and others are about to declare it dead
    EXPIRED = "expired"  # others declared it dead


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Shards of a kind. `lag`: as of the last renewal, by how many seconds the latest run of the kind was overdue; None
    for a kind that the controller does not run."""

    kind: str
    shards: int
    lag: float | None = None


class ControllerView(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon. `shares` has a line for each kind that it runs or has shards of."""

    id: UUID
    name: str
    release: str
    started_at: datetime
    renewed_at: datetime
    expired: bool
    shares: tuple[Share, ...]

    def life(self, now: datetime) -> Life:
        """How it is, by the database's time."""
        if self.expired:
            return Life.EXPIRED
        return Life.OUT_OF_TOUCH if now - self.renewed_at > timedelta(seconds=ACT_FOR) else Life.ALIVE


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """Who has the shards: controllers by name, those that expired first, and shards that none of them has."""

    now: datetime
    controllers: tuple[ControllerView, ...]
    unowned: tuple[Share, ...]
