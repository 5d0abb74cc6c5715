"""The doors: server processes that answer other programs, so that no controller does; and when a pulse counts as lost.

`farrier.beat` records the times in which a pulse of controllers, of doors, or of the agents that doors reach was lost.
An agent may not have been able to report in such a time. Pure data.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

import msgspec

PULSE_LOST = timedelta(seconds=10)
"""Controllers and doors pulse every two seconds. Calls that wait for each other, and clocks that are adjusted in small
steps, cause smaller gaps, and every limit is longer."""

REACH_LOST = timedelta(seconds=60)
"""Two intervals of an agent's heartbeats. Doors that have reached no agent for this time are dead, although they pulse:
for example, their certificate has expired. If a third of `node.offline_after` is shorter, it applies instead, so that
dead doors are noticed before nodes count as silent."""

REACH_EXPECTED = 5
"""If fewer agents are expected, all of them may be silent by themselves, so doors that reach none may be well."""


class DoorKind(StrEnum):
    """What a door answers."""

    PAGES = "pages"  # people and programs
    AGENTS = "agents"


class DoorState(StrEnum):
    """The state of a door, derived from the time of its last pulse."""

    ALIVE = "alive"
    SILENT = "silent"


class DoorView(msgspec.Struct, frozen=True, kw_only=True):
    """A door. `name` is the name of its host. At `reached_at` it last answered an agent; None for a door that has
    answered none."""

    id: UUID
    kind: DoorKind
    name: str
    release: str
    started_at: datetime
    renewed_at: datetime
    reached_at: datetime | None = None

    def state(self, now: datetime) -> DoorState:
        """Return the state of the door at the database's time `now`."""
        return DoorState.SILENT if now - self.renewed_at > PULSE_LOST else DoorState.ALIVE


class LostPulse(StrEnum):
    """The pulse that was lost, so that the silence of agents does not count."""

    DOORS = "doors"
    AGENTS = "agents"


class DeadDoors(msgspec.Struct, frozen=True, kw_only=True):
    """Why the silence of agents that use doors does not count now, and since when."""

    pulse: LostPulse
    since: datetime

    def ago(self, now: datetime) -> timedelta:
        """Return for how long the doors have been dead."""
        return now - self.since

    @property
    def text(self) -> str:
        """The reason in words, without its time."""
        match self.pulse:
            case LostPulse.DOORS:
                return "no door of agents runs"
            case LostPulse.AGENTS:
                return "doors of agents run, but none of them reaches any of the expected agents"
            case _ as never:
                assert_never(never)
