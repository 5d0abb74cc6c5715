"""What there is to do for the resources of one kind that this controller owns: load, run, commit, settle, requeue.

A pure data structure: events in, work out. It has no I/O and no clock of its own; `now` is this process' monotonic
time. The loop around it sends statements and reports here what became of them, so a simulation can drive it through
every order.

An entry is one resource. Its snapshot in memory may only say that there is nothing to do: whatever else a run over it
decides is dropped, the resource is loaded, and the run over that fresh snapshot counts. Each load returns the snapshot
together with the wakes that the snapshot saw, and only those are deleted with what the run decides. An entry whose
commit was sent and not answered is closed until it is known whether that commit happened.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

import msgspec

from farrier.controller.wheel import NOWHERE, Wheel
from farrier.model.controllers import SHARDS

R = TypeVar("R")

# The golden ratio spreads consecutive ids evenly.
_SPREAD = 0.6180339887498949


class Phase(enum.IntEnum):
    """Where a resource is. Each phase but IDLE is left by an event that the loop waits for."""

    IDLE = 0  # waits for a wake, or for the passing of time
    QUEUED = 1  # is to be loaded
    LOADING = 2  # a load was sent
    READY = 3  # was loaded, and waits for its run
    RUNNING = 4  # is being decided on
    ACTING = 5  # a step is under way outside
    COMMITTING = 6  # a commit was sent
    UNKNOWN = 7  # a commit was sent, and it is not known whether it happened
    GONE = 8  # this controller has nothing to do with it any more


class Entry(msgspec.Struct, Generic[R], gc=False, weakref=False):
    """One resource. `again`: it was woken after the load that its snapshot is from was sent."""

    id: int
    shard: int
    phase: Phase = Phase.QUEUED
    slot: int = NOWHERE  # of the wheel
    urgent: bool = False  # of the queues, the one that it waits in
    again: bool = False
    orphan: bool = False  # of an orphaned shard, and its first run is still to end
    marked: Any = None  # since when there is the mark of a step whose end was not committed
    cut: bool = False  # a step of this process was cut, and its end is recorded nowhere
    reruns: int = 0
    snapshot: R | None = None
    reload_at: float = 0.0
    outcome: Any = None  # the decision that it rests on
    confirmed: R | None = None  # the snapshot with what is confirmed in it and not stored yet
    key: int | None = None  # of the stored outcome
    error: Any = None  # why the snapshot could not be read
    wakes: tuple[Any, ...] = ()

    @property
    def recovers(self) -> bool:
        """Whether the next run has to account for a step whose end was not seen."""
        return self.orphan or bool(self.marked) or self.cut


class _Shard(msgspec.Struct, Generic[R]):
    epoch: int
    orphaned: bool
    entries: dict[int, Entry[R]] = msgspec.field(default_factory=dict)
    orphans: int = 0
    closing: bool = False


class Agenda(Generic[R]):
    """All entries of one kind."""

    def __init__(self, *, reload_every: float, shards: int = SHARDS) -> None:
        self._reload_every = reload_every
        self._modulus = shards
        self._shards: dict[int, _Shard[R]] = {}
        # To load: what was woken or goes on, and what has no reason but the time.
        self._urgent: deque[Entry[R]] = deque()
        self._routine: deque[Entry[R]] = deque()
        self._ready: deque[Entry[R]] = deque()
        self._under_way: dict[int, Entry[R]] = {}  # ACTING or COMMITTING
        self._unknown: dict[int, Entry[R]] = {}
        self._recovered: list[int] = []
        self._wheel: Wheel[Entry[R]] = Wheel()

    def __len__(self) -> int:
        return sum(len(shard.entries) for shard in self._shards.values())

    def entry(self, id_: int) -> Entry[R] | None:
        """The entry of a resource that this controller owns and knows."""
        shard = self._shards.get(id_ % self._modulus)
        return None if shard is None else shard.entries.get(id_)

    # --- shards

    def took(self, shard: int, epoch: int, ids: Mapping[int, bool], *, orphaned: bool) -> list[Entry[R]]:
        """A shard was taken and its ids were listed in a later statement; true for those that were woken. Of an
        `orphaned` one, which its former owner did not give back, the first run of each resource is `recover`. Returns
        what `lost` does of it."""
        acting = self.lost(shard)
        self._shards[shard] = _Shard(epoch, orphaned)
        for id_, woken in ids.items():
            self._add(id_, shard, orphan=orphaned, urgent=woken)
        self._note_recovery(shard)
        return acting

    def overdue(self, now: float) -> float:
        """By how many seconds the run that has waited longest for its time is late."""
        return self._wheel.overdue(now)

    def listed(self, shard: int, ids: Collection[int]) -> None:
        """These ids are the shard's now: what no wake announced is loaded, and what is gone is found out by a load."""
        if shard in self._shards:
            self.woken(self._shards[shard].entries.keys() ^ set(ids))

    def closing(self, shard: int, *, closing: bool = True) -> None:
        """The shard is to be given back: it starts no steps any more."""
        if shard in self._shards:
            self._shards[shard].closing = closing

    def is_quiet(self, shard: int) -> bool:
        """Whether no step and no commit of the shard is under way: it may be given back."""
        return all(entry.shard != shard for entry in self._under_way.values())

    @property
    def under_way(self) -> int:
        """How many steps and commits there are."""
        return len(self._under_way)

    def is_recovered(self, shard: int) -> bool:
        """Whether every resource that the shard had when it was taken had its first run."""
        return self._shards[shard].orphans == 0

    def recovered(self) -> list[int]:
        """Orphaned shards of which that became true since the last call."""
        found, self._recovered = self._recovered, []
        return found

    def may_step(self, entry: Entry[R]) -> bool:
        """Whether a step of this resource may begin."""
        return not self._shards[entry.shard].closing

    def epoch_of(self, shard: int) -> int | None:
        """Under which a shard is owned; None for one that is not."""
        owned = self._shards.get(shard)
        return None if owned is None else owned.epoch

    def epoch(self, entry: Entry[R]) -> int:
        """Under which the entry's shard is owned."""
        return self._shards[entry.shard].epoch

    def cuts(self, shard: int) -> bool:
        """Whether a step of the shard was cut whose end is recorded nowhere."""
        return any(entry.cut for entry in self._shards[shard].entries.values())

    def lost(self, shard: int) -> list[Entry[R]]:
        """The shard is another's, or was given back. Returns the entries whose steps have to be cut."""
        gone = self._shards.pop(shard, None)
        if gone is None:
            return []
        if shard in self._recovered:
            self._recovered.remove(shard)
        acting = [entry for entry in gone.entries.values() if entry.phase is Phase.ACTING]
        for entry in gone.entries.values():
            entry.phase = Phase.GONE
            self._under_way.pop(entry.id, None)
            self._unknown.pop(entry.id, None)
        return acting

    @property
    def has_to_load(self) -> bool:
        """Whether `load` would return anything."""
        return bool(self._urgent or self._routine)

    @property
    def has_to_run(self) -> bool:
        """Whether `ready` may return anything."""
        return bool(self._ready)

    # --- wakes and loads

    def woken(self, ids: Iterable[int]) -> None:
        """Something happened to these resources; those of shards that are not owned are passed over."""
        for id_ in ids:
            self._wake(id_)

    def polled(self, wakes: Mapping[int, AbstractSet[Any]]) -> None:
        """These wakes are in the database: those that no snapshot here has seen are news."""
        for id_, found in wakes.items():
            entry = self.entry(id_)
            if entry is None or not found <= set(entry.wakes):
                self._wake(id_)

    def _wake(self, id_: int) -> None:
        shard = self._shards.get(id_ % self._modulus)
        if shard is None:
            return
        entry = shard.entries.get(id_)
        if entry is None:
            self._add(id_, id_ % self._modulus, orphan=False, urgent=True)
        elif entry.phase is Phase.IDLE:
            self._enqueue(entry)
        elif entry.phase is not Phase.QUEUED:
            entry.again = True
        elif not entry.urgent:
            entry.urgent = True
            self._urgent.append(entry)

    def woken_all(self) -> None:
        """Nothing is known of what happened meanwhile: load everything again."""
        for shard in self._shards.values():
            for entry in shard.entries.values():
                if entry.phase is Phase.IDLE:
                    self._enqueue(entry, urgent=False)
                elif entry.phase is not Phase.QUEUED:
                    entry.again = True

    def load(self, limit: int) -> list[Entry[R]]:
        """Up to `limit` entries to load in one statement that is sent now. A quarter is for those that only their time
        brought, however many were woken."""
        chosen: list[Entry[R]] = []
        reserved = min(limit // 4, len(self._routine))
        for queue, urgent, most in ((self._urgent, True, limit - reserved), (self._routine, False, limit)):
            while queue and len(chosen) < most:
                entry = queue.popleft()
                if entry.phase is Phase.QUEUED and entry.urgent is urgent:
                    entry.phase = Phase.LOADING
                    entry.again = False
                    chosen.append(entry)
        return chosen

    def loaded(
        self, entry: Entry[R], snapshot: R | None, wakes: tuple[Any, ...], *, now: float, marked: Any = None
    ) -> None:
        """A load returned this snapshot and the wakes that it saw; None for one that cannot be read. `marked`: since
        when there is the mark of a step."""
        if entry.phase is not Phase.LOADING:
            return
        self._take_snapshot(entry, snapshot, wakes, now)
        entry.marked = marked
        entry.phase = Phase.READY
        self._ready.append(entry)

    def not_loaded(self, entries: Iterable[Entry[R]]) -> None:
        """The load failed, or its reply was lost."""
        for entry in entries:
            if entry.phase is Phase.LOADING:
                self._enqueue(entry)

    def absent(self, entry: Entry[R]) -> None:
        """The load found no such resource: its id never was one, or its row was deleted by hand."""
        if entry.phase is not Phase.LOADING:
            return
        if entry.again:  # it may have been made after the load was sent
            self._enqueue(entry)
        else:
            self._remove(entry)

    def distrust(self) -> None:
        """This process was silent for longer than it may act: what was loaded before is loaded again before it is
        run."""
        for entry in self._ready:
            if entry.phase is Phase.READY:
                self._enqueue(entry)
        self._ready.clear()

    # --- runs

    def ready(self, limit: int) -> list[Entry[R]]:
        """Up to `limit` entries to run over their fresh snapshots. Each is reported by one of the methods below."""
        chosen: list[Entry[R]] = []
        while self._ready and len(chosen) < limit:
            entry = self._ready.popleft()
            if entry.phase is Phase.READY:
                entry.phase = Phase.RUNNING
                chosen.append(entry)
        return chosen

    def due(self, now: float, limit: int) -> list[Entry[R]]:
        """Up to `limit` resting entries whose time has come, to run over the snapshots in memory: each is reported as
        resting or is requeued. An entry without a snapshot, or with one that is too old, is queued for a load
        instead."""
        return self._wheel.take(now, limit, self._is_to_run)

    def rests(self, entry: Entry[R], due_at: float, *, outcome: Any = None) -> tuple[Any, ...]:
        """A run had nothing to do, and nothing is to be written before `due_at`. Returns the wakes to delete: those
        that its snapshot saw. `outcome` is what runs over this snapshot are compared with; without one the resource is
        loaded for each run."""
        if entry.phase is Phase.IDLE:  # over the snapshot in memory
            self._wheel.put(entry, due_at)
            return ()
        if entry.phase not in (Phase.RUNNING, Phase.ACTING):
            return ()
        wakes, entry.wakes = entry.wakes, ()
        entry.reruns = 0
        entry.outcome = outcome
        if outcome is None:
            entry.snapshot = None
        self._first_run_ended(entry)
        self._settle(entry, due_at)
        return wakes

    def confirms(self, entry: Entry[R], snapshot: Any, due_at: float) -> tuple[Any, ...]:
        """A run changed only how recently something was confirmed, and that stays in memory. Otherwise as `rests`: the
        stored outcome is still the one before. `snapshot` is the state that the run made, which of kinds whose runs
        confirm anything is an `R`."""
        entry.snapshot = entry.confirmed = snapshot
        return self.rests(entry, due_at, outcome=entry.outcome)

    def requeue(self, entry: Entry[R]) -> None:
        """A run over the snapshot in memory decided something, or a run did not come to an end: load the resource."""
        if entry.phase not in (Phase.QUEUED, Phase.GONE):
            self._enqueue(entry)

    def defer(self, entry: Entry[R], due_at: float) -> None:
        """There is no room for what a fresh run decided to do: it is loaded again at `due_at`. Its wakes stay in the
        database."""
        if entry.phase is Phase.RUNNING:
            self._postpone(entry, due_at)

    def cut(self, entry: Entry[R]) -> None:
        """A step did not come to an end, and may have acted: the next run recovers."""
        if entry.phase is Phase.ACTING:
            entry.cut = True
            self._enqueue(entry)

    def acts(self, entry: Entry[R]) -> bool:
        """A step of the resource begins; false where the shard was lost since it was decided, and it must not. Its
        caller asked `may_step`."""
        if entry.phase is Phase.GONE:
            return False
        assert entry.phase is Phase.RUNNING, "a step is decided over a fresh snapshot"
        entry.phase = Phase.ACTING
        self._under_way[entry.id] = entry
        return True

    def commits(self, entry: Entry[R]) -> bool:
        """A commit of what a run or a step decided is to be sent now; false where the shard was lost, and it must not
        be."""
        if entry.phase is Phase.GONE:
            return False
        assert entry.phase in (Phase.RUNNING, Phase.ACTING), "what acts was decided over a fresh snapshot"
        entry.phase = Phase.COMMITTING
        entry.outcome = None  # the stored one may be another then
        self._under_way[entry.id] = entry
        return True

    # --- what became of commits

    def committed(self, entry: Entry[R], due_at: float | None) -> None:
        """The commit won. `due_at` None: the resource runs again at once. Its snapshot is one of before the commit."""
        if entry.phase is not Phase.COMMITTING:
            return
        self._first_run_ended(entry)
        entry.wakes = ()
        entry.snapshot = None
        if due_at is None:
            entry.reruns += 1
            self._enqueue(entry)
        else:
            entry.reruns = 0
            self._settle(entry, due_at)

    def ended(self, entry: Entry[R]) -> None:
        """The commit won and ended the resource. A wake that came meanwhile has one more run."""
        if entry.phase is not Phase.COMMITTING:
            return
        self._first_run_ended(entry)
        if entry.again:
            entry.wakes, entry.snapshot = (), None
            self._enqueue(entry)
        else:
            self._remove(entry)

    def not_committed(self, entry: Entry[R], due_at: float | None = None) -> None:
        """The commit did not win: what it was decided on has changed. It is decided anew, at once or at `due_at`."""
        if entry.phase is not Phase.COMMITTING:
            return
        if due_at is None:
            self._enqueue(entry)
        else:
            self._postpone(entry, due_at)

    def unknown(self, entry: Entry[R]) -> None:
        """The commit's reply was lost: the entry is closed until `settled`."""
        if entry.phase is Phase.COMMITTING:
            self._under_way.pop(entry.id, None)
            entry.phase = Phase.UNKNOWN
            self._unknown[entry.id] = entry

    def to_settle(self) -> Sequence[Entry[R]]:
        """Entries of which it is to be found out whether their last commit happened: by a statement that locks the
        resource and raises its version, after which that commit is visible or can never be."""
        return list(self._unknown.values())

    def settled(self, entry: Entry[R]) -> None:
        """From now on a load shows whether the commit happened."""
        if entry.phase is Phase.UNKNOWN:
            del self._unknown[entry.id]
            self._enqueue(entry)

    # --- inside

    def _add(self, id_: int, number: int, *, orphan: bool, urgent: bool) -> None:
        entry: Entry[R] = Entry(id=id_, shard=number, orphan=orphan)
        shard = self._shards[number]
        shard.entries[id_] = entry
        shard.orphans += orphan
        self._queue(entry, urgent)

    def _enqueue(self, entry: Entry[R], *, urgent: bool = True) -> None:
        self._under_way.pop(entry.id, None)
        entry.phase = Phase.QUEUED
        entry.wakes = ()
        entry.again = False
        self._queue(entry, urgent)

    def _queue(self, entry: Entry[R], urgent: bool) -> None:
        entry.urgent = urgent
        (self._urgent if urgent else self._routine).append(entry)

    def _postpone(self, entry: Entry[R], due_at: float) -> None:
        entry.snapshot = None
        self._settle(entry, due_at)

    def _settle(self, entry: Entry[R], due_at: float) -> None:
        """Nothing of the entry is under way any more."""
        if entry.again:
            self._enqueue(entry)
            return
        self._under_way.pop(entry.id, None)
        entry.phase = Phase.IDLE
        self._wheel.put(entry, due_at)

    def _is_to_run(self, entry: Entry[R], now: float) -> bool:
        if entry.phase is not Phase.IDLE:
            return False
        if entry.snapshot is None or entry.reload_at <= now:
            self._enqueue(entry, urgent=False)
            return False
        return True

    def _take_snapshot(self, entry: Entry[R], snapshot: R | None, wakes: tuple[Any, ...], now: float) -> None:
        entry.snapshot = snapshot
        entry.wakes = wakes
        # Of the first ones, loaded all at once, the second loads are spread over the whole time.
        share = entry.id * _SPREAD % 1 if entry.reload_at == 0.0 else 1.0
        entry.reload_at = now + self._reload_every * share

    def _first_run_ended(self, entry: Entry[R]) -> None:
        """What an earlier process left of this resource is accounted for."""
        entry.marked, entry.cut = None, False
        if entry.orphan:
            entry.orphan = False
            self._shards[entry.shard].orphans -= 1
            self._note_recovery(entry.shard)

    def _note_recovery(self, number: int) -> None:
        if self._shards[number].orphaned and not self._shards[number].orphans:
            self._recovered.append(number)

    def _remove(self, entry: Entry[R]) -> None:
        self._first_run_ended(entry)
        shard = self._shards[entry.shard]
        del shard.entries[entry.id]
        self._under_way.pop(entry.id, None)
        entry.phase = Phase.GONE
