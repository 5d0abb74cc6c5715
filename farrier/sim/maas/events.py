"""The region's log of the events of machines, with IDs that only grow.

Types and descriptions are those of a recorded real region. An event is never changed or removed, but may appear late.
"""

from __future__ import annotations

import bisect
import enum
from datetime import datetime

import msgspec


class Level(enum.IntEnum):
    """The level of an event. `AUDIT` is the lowest level."""

    AUDIT = 0
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the log. `action` becomes the `status_action` of the machine; responses about the event omit it."""

    id: int
    node: str
    hostname: str
    level: Level
    type: str
    description: str
    username: str
    created: datetime
    action: str = ""

    def shown(self) -> dict[str, object]:
        return {
            "username": self.username,
            "node": self.node,
            "hostname": self.hostname,
            "id": self.id,
            "level": self.level.name,
            "created": self.created.strftime("%a, %d %b. %Y %H:%M:%S"),
            "type": self.type,
            "description": self.description,
        }


class EventLog:
    """All events of a region, oldest first."""

    def __init__(self) -> None:
        self._next_id = 1
        self._all: list[Event] = []
        self._by_node: dict[str, list[Event]] = {}

    def add(self, event: Event) -> None:
        """Add `event` with the next ID; its `id` is ignored."""
        kept = msgspec.structs.replace(event, id=self._next_id)
        self._next_id += 1
        self._all.append(kept)
        self._by_node.setdefault(event.node, []).append(kept)

    def skip(self) -> int:
        """Allocate an ID without an event, as happens if a transaction is rolled back or commits later."""
        skipped = self._next_id
        self._next_id += 1
        return skipped

    def add_late(self, event: Event) -> None:
        """Add `event` with its `id`, which `skip` allocated earlier. In MAAS, this happens if the transaction of the
        event takes longer than a later transaction."""
        for events in (self._all, self._by_node.setdefault(event.node, [])):
            bisect.insort(events, event, key=lambda each: each.id)

    def of(self, node: str | None) -> list[Event]:
        """Return the events of one machine, or of all machines if `node` is None; oldest first."""
        return self._all if node is None else self._by_node.get(node, [])

    def after(self, event_id: int, events: list[Event]) -> list[Event]:
        """Return those of `events` that have greater IDs."""
        return events[bisect.bisect_right(events, event_id, key=lambda event: event.id) :]

    def before(self, event_id: int, events: list[Event]) -> list[Event]:
        """Return those of `events` that have smaller IDs."""
        return events[: bisect.bisect_left(events, event_id, key=lambda event: event.id)]

    def newest(self, node: str, *, level: Level) -> Event | None:
        """Return the newest event of a machine with at least this level."""
        return next((event for event in reversed(self.of(node)) if event.level >= level), None)
