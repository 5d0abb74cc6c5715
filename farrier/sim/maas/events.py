"""The region's event log: what happened to machines, with ids that only grow.

Written by operations and by the steps of running work; read by `events/?op=query` and for a machine's status message.
Types and descriptions are the recorded ones. An event is never changed or removed, but may appear late.
"""

from __future__ import annotations

import bisect
import enum
from datetime import datetime

import msgspec


class Level(enum.IntEnum):
    """The level of an event; `AUDIT` is the lowest."""

    AUDIT = 0
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the log. `action` is not shown in it: it is a machine's `status_action`."""

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
        """Keep `event` under the next id; its own id is ignored."""
        kept = msgspec.structs.replace(event, id=self._next_id)
        self._next_id += 1
        self._all.append(kept)
        self._by_node.setdefault(event.node, []).append(kept)

    def skip(self) -> int:
        """Allocate an id without an event, like a transaction that is rolled back or commits later."""
        skipped = self._next_id
        self._next_id += 1
        return skipped

    def add_late(self, event: Event) -> None:
        """Keep `event` under its own id, which was skipped: its transaction took longer than those after it."""
        for events in (self._all, self._by_node.setdefault(event.node, [])):
            bisect.insort(events, event, key=lambda each: each.id)

    def of(self, node: str | None) -> list[Event]:
        """Events of one machine, or of all; oldest first."""
        return self._all if node is None else self._by_node.get(node, [])

    def after(self, event_id: int, events: list[Event]) -> list[Event]:
        """The events of `events` with greater ids."""
        return events[bisect.bisect_right(events, event_id, key=lambda event: event.id) :]

    def before(self, event_id: int, events: list[Event]) -> list[Event]:
        """The events of `events` with smaller ids."""
        return events[: bisect.bisect_left(events, event_id, key=lambda event: event.id)]

    def newest(self, node: str, *, level: Level) -> Event | None:
        """The last event of a machine with at least this level."""
        return next((event for event in reversed(self.of(node)) if event.level >= level), None)
