"""Views of controllers and their shards, for operators and other programs.

`protocols.Queries.controllers` returns these; `farrier controllers` prints them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import msgspec

from farrier.model.controllers import ACT_FOR


class Life(StrEnum):
    """The state of a controller, derived from its last renewal."""

    ALIVE = "alive"
    OUT_OF_TOUCH = "out of touch"  # it may not act, and other controllers will soon declare it dead
    EXPIRED = "expired"  # another controller declared it dead


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Shards of a kind. `lag` is the delay in seconds of the kind's most delayed run at the last renewal, None for a
    kind that the controller does not run."""

    kind: str
    shards: int
    lag: float | None = None


class ControllerView(msgspec.Struct, frozen=True, kw_only=True):
    """The controller of a daemon. `shares` has one element for each kind that the controller runs or has shards of."""

    id: UUID
    name: str
    release: str
    started_at: datetime
    renewed_at: datetime
    expired: bool
    shares: tuple[Share, ...]

    def life(self, now: datetime) -> Life:
        """The state of the controller at `now`, by the database's clock."""
        if self.expired:
            return Life.EXPIRED
        return Life.OUT_OF_TOUCH if now - self.renewed_at > timedelta(seconds=ACT_FOR) else Life.ALIVE


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of all shards: controllers by name, with expired ones first, and the shards without an owner."""

    now: datetime
    controllers: tuple[ControllerView, ...]
    unowned: tuple[Share, ...]
