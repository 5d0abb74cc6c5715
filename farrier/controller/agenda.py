"""The state of every resource of one kind that this controller owns: resting, queued, loading, running, committing.

A pure data structure that receives events and returns work. The agenda does no I/O and reads no clock; `now` is this
process' monotonic time. The loop sends the statements and reports their results here, so a simulation can drive the
agenda through every order of events.

An entry is one resource. A run on a snapshot in memory may only decide that there is nothing to do. Any other decision
is dropped; instead, the resource is loaded, and the run on the fresh snapshot decides. A load reads a snapshot and the
wakes of the resource, which are stored requests to run it. The commit of the run on this snapshot deletes only the
wakes that the load read. If the reply to a commit was lost, the entry is neither loaded nor run until the loop knows
whether the commit happened.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

import msgspec

from farrier.controller.wheel import NOWHERE, Wheel
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.restores import Hold

R = TypeVar("R")

# The golden ratio spreads consecutive ids evenly.
_SPREAD = 0.6180339887498949
# Old snapshots are loaded together, because each load has a fixed cost, but never with a resource whose client
# waits. An entry waits up to _TOGETHER_AFTER seconds for other entries, unless _TOGETHER entries already wait.
_TOGETHER_AFTER = 1.0
_TOGETHER = 64


class Queue(enum.IntEnum):
    """The queue in which an entry waits to be loaded."""

    URGENT = 0  # it has a wake, or an unfinished run
    ROUTINE = 1  # it is due, and has no snapshot
    MASS = 2  # its snapshot is old, nobody waits for its run, or it was woken with very many others


class Phase(enum.IntEnum):
    """The phase of a resource. IDLE ends with a wake or at a time. Every other phase ends with an event for which the
    loop waits."""

    IDLE = 0  # waits for a wake or for its time
    QUEUED = 1  # waits to be loaded
    LOADING = 2  # a load was sent
    RUNNING = 3  # was loaded, and its handler runs
    ACTING = 4  # a step is about to begin, or runs
    COMMITTING = 5  # a commit was sent
    UNKNOWN = 6  # a commit was sent, and the loop does not know whether it happened
    GONE = 7  # this controller lost the shard, or the resource ended


class AgendaEntry(msgspec.Struct, Generic[R], gc=False, weakref=False):
    """One resource. `again` is set if a wake arrived after the load of the resource was sent. `step` is the name of a
    step that began and whose end is not recorded; the next run recovers from that step. Module `steps` resets it."""

    id: int
    shard: int
    phase: Phase = Phase.QUEUED
    slot: int = NOWHERE  # the slot of the entry in the wheel
    # The queue of a QUEUED entry; of any other entry, its last queue, or the one for `again`.
    queue: Queue = Queue.ROUTINE
    again: bool = False
    step: str | None = None
    reruns: int = 0
    snapshot: R | None = None
    reload_at: float = 0.0
    outcome: Any = None  # the decision because of which the entry is IDLE
    confirmed: R | None = None  # the snapshot with confirmations that are not stored yet
    wakes: tuple[Any, ...] = ()
    hold: Hold | None = None  # set while the resource is held after a restore


class _Waiting(Generic[R]):
    def __init__(self) -> None:
        self.entries: deque[AgendaEntry[R]] = deque()
        self.load_at = math.inf  # when these entries are to be loaded
        self.ahead = 0  # how many of the entries that waited at `_marked_at` still wait
        self._marked_at = math.inf

    def lag(self, now: float) -> float:
        """If entries that waited at an earlier call still wait, return the seconds since that call. If all of them were
        loaded, return 0."""
        if self._marked_at > now or not self.ahead:
            self.ahead, self._marked_at = len(self.entries), now
        return now - self._marked_at


class Agenda(Generic[R]):
    """All entries of one kind."""

    def __init__(self, *, reload_every: float, shards: int = SHARDS) -> None:
        self._reload_every = reload_every
        self._modulus = shards
        self._shards: dict[int, dict[int, AgendaEntry[R]]] = {}
        self._queues = {queue: _Waiting[R]() for queue in Queue}
        self.under_way: dict[int, AgendaEntry[R]] = {}  # ACTING or COMMITTING
        # Resting entries by due time. The loop takes due entries out and runs them over their snapshots. Then it puts
        # them back, enqueues entries that no longer rest, and reloads entries whose snapshots are old.
        self.wheel: Wheel[AgendaEntry[R]] = Wheel()

    def __len__(self) -> int:
        return sum(map(len, self._shards.values()))

    @property
    def load_at(self) -> float:
        """When `load` is due."""
        return min(waiting.load_at for waiting in self._queues.values())

    def entry(self, id_: int) -> AgendaEntry[R] | None:
        """Return the entry of a resource if this controller owns its shard and has listed it; otherwise None."""
        shard = self._shards.get(id_ % self._modulus)
        return None if shard is None else shard.get(id_)

    # --- shards

    def took(self, shards: Iterable[int], ids: Mapping[int, bool], steps: Mapping[int, str]) -> None:
        """Add shards that this process took. A later statement listed the resources of these shards: `ids` states for
        each resource whether it has a wake, and `steps` has the marked steps, whose ends are not recorded."""
        for shard in shards:
            self.lost(shard)
            self._shards[shard] = {}
        for id_, woken in ids.items():
            self._add(id_, Queue.URGENT if woken else Queue.ROUTINE, step=steps.get(id_))

    def listed(self, shards: Iterable[int], ids: Iterable[int]) -> None:
        """Enqueue the resources that have appeared in these shards or have left them since the last listing."""
        known, listed = {id_ for shard in shards for id_ in self._shards.get(shard, ())}, set(ids)
        self.woken(known - listed)
        self._appeared(listed - known)

    def lag(self, now: float) -> float:
        """Return the delay in seconds of the oldest waiting run or load."""
        return max(self.wheel.overdue(now), *(waiting.lag(now) for waiting in self._queues.values()))

    def is_quiet(self, shard: int) -> bool:
        """Return whether the shard has no running step and no running commit, so that it may be given back."""
        return all(entry.shard != shard for entry in self.under_way.values())

    def lost(self, shard: int) -> None:
        """Forget a shard that was lost or released."""
        for entry in self._shards.pop(shard, {}).values():
            entry.phase, entry.slot = Phase.GONE, NOWHERE
            self.under_way.pop(entry.id, None)

    # --- wakes and loads

    def woken(self, ids: Iterable[int]) -> bool:
        """Enqueue these resources, except resources of shards that this controller does not own. If a resource is
        running now, it runs again afterwards. Returns whether a resource of an owned shard has no entry. The caller
        then has to find out whether that resource exists, because any login may send a notification with any ID."""
        unknown = False
        for id_ in ids:
            shard = self._shards.get(id_ % self._modulus)
            if shard is None:
                continue
            entry = shard.get(id_)
            if entry is None:
                unknown = True
            elif entry.phase is Phase.IDLE or (entry.phase is Phase.QUEUED and entry.queue is not Queue.URGENT):
                self._enqueue(entry)
            elif entry.phase is not Phase.QUEUED:
                entry.again, entry.queue = True, Queue.URGENT
        return unknown

    def woken_together(self, ids: Iterable[int]) -> None:
        """Enqueue very many resources, except resources of shards that this controller does not own. Only a load
        with `mass` takes them."""
        for id_ in ids:
            entry = self.entry(id_)
            if entry is None:
                if id_ % self._modulus in self._shards:
                    self._add(id_, Queue.MASS)
            elif entry.phase is Phase.IDLE:
                self._enqueue(entry, Queue.MASS)
            elif entry.phase is not Phase.QUEUED and not entry.again:
                entry.again, entry.queue = True, Queue.MASS

    def polled(self, wakes: Mapping[int, AbstractSet[Any]], *, loud: Container[int] | None = None) -> None:
        """Enqueue the resources of these wakes. If the last load of a resource already returned all of its wakes, the
        resource is not enqueued. Only quiet wakes have the resources that are not `loud`; None means that all are."""
        for id_, found in wakes.items():
            entry = self.entry(id_)
            if entry is None:
                self._appeared((id_,))
            elif not found <= set(entry.wakes):
                if loud is None or id_ in loud:
                    self.woken((id_,))
                else:
                    self.woken_together((id_,))

    def woken_all(self) -> None:
        """Enqueue every resource, because wakes may have been lost."""
        for shard in self._shards.values():
            for entry in shard.values():
                if entry.phase is Phase.IDLE:
                    self._enqueue(entry, Queue.ROUTINE)
                elif entry.phase is not Phase.QUEUED and not entry.again:
                    entry.again, entry.queue = True, Queue.ROUTINE

    def load(self, limit: int, *, mass: bool = False, now: float = math.inf) -> list[AgendaEntry[R]]:
        """Take up to `limit` entries that have a wake of their own or are due; the caller loads them in one statement
        now. A quarter of `limit` is reserved for resources that are due without a wake. With `mass`, take instead those
        that were woken with very many others, or that nobody waits for, unless they still wait for others at `now`; the
        caller takes such entries only when it has committed those before. So however many there are, another resource
        waits for none of them."""
        chosen: list[AgendaEntry[R]] = []
        routine = min(limit // 4, len(self._queues[Queue.ROUTINE].entries))
        ends = {Queue.MASS: limit} if mass else {Queue.URGENT: limit - routine, Queue.ROUTINE: limit}
        for queue, end in ends.items():
            waiting = self._queues[queue]
            if waiting.load_at > now:
                continue
            before = len(waiting.entries)
            while waiting.entries and len(chosen) < end:
                entry = waiting.entries.popleft()
                if entry.phase is Phase.QUEUED and entry.queue is queue:
                    entry.phase = Phase.LOADING
                    chosen.append(entry)
            waiting.ahead = max(0, waiting.ahead - before + len(waiting.entries))
            if not waiting.entries:
                waiting.load_at = math.inf
        return chosen

    def partly_loaded(self, entries: Iterable[AgendaEntry[R]]) -> None:
        """Load these entries again after their runs, because their load left out wakes."""
        for entry in entries:
            if entry.phase is Phase.LOADING and not entry.again:
                entry.again, entry.queue = True, Queue.MASS

    def loaded(self, entry: AgendaEntry[R], snapshot: R | None, wakes: tuple[Any, ...], *, now: float) -> bool:
        """Record the snapshot and the wakes that a load returned; the snapshot is None if it cannot be read. Returns
        whether to run the resource on this snapshot; the caller then reports the run with one of the methods below."""
        if entry.phase is not Phase.LOADING:
            return False
        entry.snapshot, entry.wakes = snapshot, wakes
        # Entries of a shard that was just taken are first loaded together. Their second loads spread over one resync.
        share = entry.id * _SPREAD % 1 if entry.reload_at == 0.0 else 1.0
        entry.reload_at = now + self._reload_every * share
        entry.phase = Phase.RUNNING
        return True

    def not_loaded(self, entries: Iterable[AgendaEntry[R]]) -> None:
        """Enqueue these entries again, because their load failed or the reply to this load was lost."""
        for entry in entries:
            if entry.phase is Phase.LOADING:
                self._enqueue(entry, entry.queue, once_more=True)

    # --- runs

    def reload(self, entry: AgendaEntry[R], now: float) -> None:
        """Enqueue a due entry that has no snapshot, or whose snapshot is too old for a run. Entries with old snapshots
        are loaded together."""
        if entry.snapshot is None:
            self._enqueue(entry, Queue.ROUTINE)
        else:
            waits = len(self._queues[Queue.MASS].entries) < _TOGETHER
            self._enqueue(entry, Queue.MASS, load_at=now + _TOGETHER_AFTER if waits else 0.0)

    def rests(self, entry: AgendaEntry[R], due_at: float, *, outcome: Any = None) -> tuple[Any, ...]:
        """Record that a fresh run had nothing to do, and that the next run is due at `due_at`. Returns the wakes to
        delete: the wakes that the load read. `outcome` is the decision of the run; later runs on this snapshot compare
        their decisions with it. Without an `outcome`, the snapshot is dropped, so the next run loads the resource
        first."""
        return self._rests(entry, due_at, entry.snapshot if outcome is not None else None, outcome)

    def confirms(self, entry: AgendaEntry[R], snapshot: Any, due_at: float) -> tuple[Any, ...]:
        """Record a run whose only change is that a fact was confirmed again. This method does the same as `rests`,
        except that the confirmation stays in memory and the stored outcome does not change. `snapshot` is the state
        that the run returned. If runs of a kind confirm facts, this state has the type `R`."""
        entry.confirmed = snapshot
        return self._rests(entry, due_at, snapshot, entry.outcome)

    def requeue(self, entry: AgendaEntry[R]) -> None:
        """Load the resource now. The loop calls this method if a run on the snapshot in memory decided to act, if a run
        did not end, or if a commit did not happen. It also calls this method when `StateIO.settle` has made sure that a
        commit either happened or will never happen."""
        if entry.phase not in (Phase.QUEUED, Phase.GONE):
            self._enqueue(entry)

    def defer(self, entry: AgendaEntry[R], due_at: float) -> None:
        """Load the resource again at `due_at`, because its step cannot begin now, or because its commit did not happen.
        Its wakes stay in the database."""
        if entry.phase in (Phase.RUNNING, Phase.COMMITTING):
            entry.snapshot = None
            self._settle(entry, due_at)

    def remembers(self, entry: AgendaEntry[R]) -> None:
        """Record that a run on the snapshot in memory decided on a step that only observes."""
        assert entry.phase is Phase.IDLE, "only a resting entry has such a run"
        entry.phase = Phase.RUNNING

    def acts(self, entry: AgendaEntry[R], step: str) -> None:
        """Record that a step is about to begin."""
        assert entry.phase is Phase.RUNNING, "only a run begins a step"
        entry.phase, entry.step = Phase.ACTING, step
        self.under_way[entry.id] = entry

    def commits(self, entry: AgendaEntry[R]) -> bool:
        """Record that the commit of a run or step is about to be sent. Returns False if the shard was lost; the commit
        must then not be sent."""
        if entry.phase is Phase.GONE:
            return False
        assert entry.phase in (Phase.RUNNING, Phase.ACTING), "only a run or a step is committed"
        entry.phase = Phase.COMMITTING
        entry.outcome = None  # the commit may store another outcome
        self.under_way[entry.id] = entry
        return True

    # --- results of commits

    def committed(self, entry: AgendaEntry[R], due_at: float | None, rests_on: tuple[R, Any] | None = None) -> None:
        """Record that the commit succeeded. If `due_at` is None, the resource runs again at once. `rests_on` is the
        snapshot after the commit, together with the next decision, which the handler made from that snapshot; None if
        they are not known. The snapshot before the commit is dropped."""
        if entry.phase is not Phase.COMMITTING:
            return
        entry.wakes = ()
        entry.snapshot, entry.outcome = rests_on or (None, None)
        if due_at is None:
            entry.reruns += 1
            self._enqueue(entry, Queue.MASS if entry.queue is Queue.MASS else Queue.URGENT)
        else:
            entry.reruns = 0
            self._settle(entry, due_at)

    def ended(self, entry: AgendaEntry[R]) -> None:
        """Remove the entry, because the load found no resource, or because the commit ended the resource. If a wake
        arrived meanwhile, the resource is loaded one more time instead."""
        if entry.phase not in (Phase.LOADING, Phase.COMMITTING):
            return
        if entry.again:
            self._enqueue(entry, entry.queue)
            return
        del self._shards[entry.shard][entry.id]
        self.under_way.pop(entry.id, None)
        entry.phase, entry.slot = Phase.GONE, NOWHERE

    def unknown(self, entry: AgendaEntry[R]) -> None:
        """Close the entry until `requeue` is called, because the reply to its commit was lost."""
        if entry.phase is Phase.COMMITTING:
            self.under_way.pop(entry.id, None)
            entry.phase = Phase.UNKNOWN

    # --- internals

    def _appeared(self, ids: Iterable[int]) -> None:
        """Add the resources that the database has and this agenda does not, except those of other controllers."""
        for id_ in ids:
            if id_ % self._modulus in self._shards:
                self._add(id_, Queue.URGENT)

    def _add(self, id_: int, queue: Queue, *, step: str | None = None) -> None:
        shard = id_ % self._modulus
        entry = self._shards[shard][id_] = AgendaEntry(id=id_, shard=shard, step=step)
        self._enqueue(entry, queue)

    def _enqueue(
        self, entry: AgendaEntry[R], queue: Queue = Queue.URGENT, *, load_at: float = 0.0, once_more: bool = False
    ) -> None:
        """Queue the entry for a load, and end its current work."""
        self.under_way.pop(entry.id, None)
        entry.phase, entry.slot = Phase.QUEUED, NOWHERE
        entry.wakes = ()
        entry.again = False
        entry.queue = queue
        waiting = self._queues[queue]
        waiting.entries.append(entry)
        waiting.ahead += once_more
        waiting.load_at = min(waiting.load_at, load_at)

    def _rests(self, entry: AgendaEntry[R], due_at: float, snapshot: R | None, outcome: Any) -> tuple[Any, ...]:
        if entry.phase not in (Phase.RUNNING, Phase.ACTING):
            return ()
        wakes, entry.wakes = entry.wakes, ()
        entry.reruns = 0
        entry.snapshot, entry.outcome = snapshot, outcome
        self._settle(entry, due_at)
        return wakes

    def _settle(self, entry: AgendaEntry[R], due_at: float) -> None:
        """Let the entry rest until `due_at`, or enqueue it if a wake has arrived."""
        if entry.again:
            self._enqueue(entry, entry.queue)
            return
        self.under_way.pop(entry.id, None)
        entry.phase = Phase.IDLE
        self.wheel.put(entry, due_at)
