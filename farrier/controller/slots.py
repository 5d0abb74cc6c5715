"""The slots of steps, and the queue of resources whose steps wait for one.

A pure data structure. A free slot is promised to the first resource in the queue, which is loaded and runs again. If
the run still needs the slot, it takes it; otherwise the slot goes to the next resource. A resource in the queue also
runs every period, and leaves the queue when a run needs no slot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from farrier.controller.agenda import Entry

R = TypeVar("R")


class Slots(Generic[R]):
    """The slots of one kind in one process."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._taken = 0
        self._queue: dict[int, Entry[R]] = {}
        self._promised: dict[int, Entry[R]] = {}

    @property
    def free(self) -> int:
        """How many slots are neither taken nor promised."""
        return self._number - self._taken - len(self._promised)

    def take(self, ran: Sequence[Entry[R]], wanting: Collection[Entry[R]]) -> list[Entry[R]]:
        """Record that the resources `ran`, and that `wanting` of them need a slot. Returns those that have one now; the
        others are in the queue. The caller gives each slot back."""
        promised = {entry.id for entry in ran if self._promised.pop(entry.id, None)}
        wanted = {entry.id for entry in wanting}
        for entry in ran:
            if entry.id not in wanted:
                self._queue.pop(entry.id, None)
        taking: list[Entry[R]] = []
        for entry in sorted(wanting, key=lambda each: each.id not in promised):
            is_next = entry.id in promised or next(iter(self._queue), entry.id) == entry.id
            if is_next and self.free > 0:
                self._queue.pop(entry.id, None)
                self._taken += 1
                taking.append(entry)
            else:
                self._queue[entry.id] = entry
        return taking

    def give_back(self) -> None:
        """Record that the step in a slot has ended."""
        self._taken -= 1

    def promise(self) -> list[Entry[R]]:
        """Promise the free slots to the first in the queue, and return these: they are to be loaded and run."""
        first = [entry for entry, _ in zip(self._queue.values(), range(self.free), strict=False)]
        for entry in first:
            self._promised[entry.id] = self._queue.pop(entry.id)
        return first

    def forget(self, is_lost: Callable[[int], bool]) -> None:
        """Remove the lost resources from the queue."""
        for place in (self._queue, self._promised):
            for id_ in [id_ for id_ in place if is_lost(id_)]:
                del place[id_]
