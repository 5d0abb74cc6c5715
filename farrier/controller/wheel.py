"""A timer wheel, which returns the entries that are due.

Unlike in a heap, the cost of adding or removing an entry does not depend on the number of entries. An entry stores its
slot. If `take` finds an entry in another slot, it skips the entry. So an entry is removed from its former slot by
adding it again, or by setting its slot to NOWHERE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

# The length of a slot in seconds. This is also the longest time by which an entry can be late. With a million entries
# and a period of 30 s, a slot has three thousand entries.
TICK = 0.1
NOWHERE = -1


class Timed(Protocol):
    """An entry of a wheel."""

    slot: int


T = TypeVar("T", bound=Timed)


class Wheel(Generic[T]):
    """Entries, ordered by the time at which they are due."""

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

    def put_back(self, entries: Iterable[T], now: float) -> None:
        """Make entries that were due at `now` due again at once."""
        for entry in entries:
            self.put(entry, now - TICK)

    def take(self, now: float, limit: int) -> list[T]:
        """Remove and return up to `limit` due entries."""
        taken: list[T] = []
        after = int(now / TICK) + 1
        first = after if self._first is None else self._first
        # After a long pause most slots from `first` to `after` are empty. Then only the slots with entries are visited.
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
        """Return how many seconds ago the earliest slot with entries was due; 0 if it is not due yet."""
        if self._first is None:
            return 0.0
        return max(0.0, now - self._first * TICK)
