"""The slots of steps, and the queue of resources whose steps wait for a slot.

A pure data structure. A free slot is promised to the first resource in the queue; this resource is loaded and runs
again. If the run still needs the slot, the run takes the slot; otherwise, the slot is promised to the next resource. A
resource in the queue also runs every period, and leaves the queue when a run needs no slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Generic, TypeVar

from farrier.controller.agenda import AgendaEntry

R = TypeVar("R")


class Slots(Generic[R]):
    """The queue of one kind in one process."""

    def __init__(self) -> None:
        # In the order of the queue. The slots are promised to the first resources.
        self.waiting: dict[int, AgendaEntry[R]] = {}
        self._promised: set[int] = set()

    def take(
        self, ran: Sequence[AgendaEntry[R]], wanting: Collection[AgendaEntry[R]], *, free: int
    ) -> list[AgendaEntry[R]]:
        """Record which resources have run (`ran`), and which resources need a slot (`wanting`). `free` is the number of
        slots without a step. Returns the resources that have a slot now; the others wait."""
        wanted = {entry.id for entry in wanting}
        self._leave(entry.id for entry in ran if entry.id not in wanted)
        taking: list[AgendaEntry[R]] = []
        for entry in sorted(wanting, key=lambda each: each.id not in self._promised):
            is_first = len(self.waiting) == len(self._promised) < free - len(taking)
            if entry.id in self._promised or is_first:
                self._leave((entry.id,))
                taking.append(entry)
            else:
                self.waiting[entry.id] = entry
        return taking

    def promise(self, free: int) -> list[AgendaEntry[R]]:
        """Promise the free slots to the resources that have waited longest. Returns these resources; the caller loads
        and runs them."""
        first = list(islice(self.waiting.values(), len(self._promised), free))
        self._promised.update(entry.id for entry in first)
        return first

    def forget(self, shard: int) -> None:
        """Remove the resources of a lost shard from the queue."""
        self._leave([entry.id for entry in self.waiting.values() if entry.shard == shard])

    def _leave(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            self.waiting.pop(id_, None)
            self._promised.discard(id_)
