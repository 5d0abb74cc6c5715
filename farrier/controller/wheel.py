"""A timer wheel: what is due by now, of any number of entries that each have one moment to come.

Putting an entry in and taking it out cost the same for a thousand and for a million, unlike with a heap. An entry
remembers its slot, and is passed over in any other: to put it in anew, or to set its slot to NOWHERE, takes it out of
its former place.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

# No entry is late by more than this, and a slot of a million entries with a period of 30 s holds three thousand.
TICK = 0.1
NOWHERE = -1


class Timed(Protocol):
    """What can be put into a wheel."""

    slot: int


T = TypeVar("T", bound=Timed)


class Wheel(Generic[T]):
    """Entries by the moment at which they are due."""

    def __init__(self) -> None:
        self._slots: dict[int, list[T]] = {}
        self._first: int | None = None  # no entry waits in an earlier slot

    def put(self, entry: T, due_at: float) -> None:
        """Make the entry due at `due_at`, and at no other time."""
        slot = int(due_at / TICK) + 1
        entry.slot = slot
        if self._first is None or slot < self._first:
            self._first = slot
        waiting = self._slots.get(slot)
        if waiting is None:
            self._slots[slot] = [entry]
        else:
            waiting.append(entry)

    def take(self, now: float, limit: int) -> list[T]:
        """Remove and return up to `limit` due entries."""
        taken: list[T] = []
        after = int(now / TICK) + 1
        first = after if self._first is None else self._first
        # After a long sleep, without the empty ones.
        is_short = after - first <= len(self._slots)
        for slot in range(first, after) if is_short else sorted(slot for slot in self._slots if slot < after):
            waiting = self._slots.get(slot)
            while waiting and len(taken) < limit:
                entry = waiting.pop()
                if entry.slot == slot:
                    entry.slot = NOWHERE
                    taken.append(entry)
            if waiting:
                self._first = slot
                return taken
            self._slots.pop(slot, None)
        self._first = max(first, after) if self._slots else None
        return taken

    def overdue(self, now: float) -> float:
        """By how many seconds the earliest slot with entries is in the past; 0 if none is."""
        if self._first is None:
            return 0.0
        return max(0.0, now - self._first * TICK)
