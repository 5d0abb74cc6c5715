"""One kind's loop, from beginning to end.

Each resource of an owned shard has an entry in the agenda. What is due runs over its snapshot in memory, in `_sweep`:
if that finds nothing to do, that is all. Everything else goes through `_pass`: load the resource together with its
wakes, decide, and hand over what came of it: to `_commit`, which writes it under the fence of its shard, to a step, or
to nothing at all. `controller` says which shards there are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, assert_never
from uuid import UUID

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from farrier.controller.agenda import Agenda, Entry, Phase
from farrier.controller.attempt import Attempt, Run
from farrier.controller.host import Host
from farrier.controller.publish import Publisher
from farrier.controller.rest import rests, rests_as_before
from farrier.controller.steps import Planned, Steps
from farrier.controller.verdict import Assessor
from farrier.errors import DatabaseUnreachable, UndecodableState
from farrier.model.outcome import Wait
from farrier.model.runs import Due, Loaded, Result, Turn, Verdict
from farrier.protocols import Kind, StateHandler, StateIO

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")

# Runs that came to an end, with their entries.
Batch: TypeAlias = Sequence[tuple[Entry[Any], Run[Any, Any, Any]]]

_log = structlog.stdlib.get_logger(__name__)

# After so many handlers the event loop serves others: about half a millisecond of work.
_SLICE = 64
# How often the wheel is looked at, in seconds.
_TICK = 0.05
_LOAD_SECONDS = 10.0
_COMMIT_SECONDS = 10.0
_SETTLE_SECONDS = 10.0
# Commits of one kind at a time: while PostgreSQL works on one, the next is decided and sent.
_COMMITTERS = 3
# Without the database, or the right to act, seconds until the next try.
_PAUSE = 0.5


class Loop(Generic[R, S, W, V]):
    """Runs the handler of one kind over every resource of the shards that this process owns."""

    def __init__(
        self,
        kind: Kind[R, S],
        handler: StateHandler[R, S, W, V],
        io: StateIO[R, S, W],
        *,
        services: V,
        host: Host,
    ) -> None:
        config = host.config
        self.kind = kind.name
        self.io = io
        self.agenda: Agenda[R] = Agenda(reload_every=config.resync.total_seconds())
        self._host = host
        self._clock = host.clock
        self._period = config.period.total_seconds()
        self._shortest, self._spread = self._period * (1 - config.jitter), 2 * self._period * config.jitter
        self._publisher: Publisher[R, S] = Publisher(kind, sink=host.sink)
        self._attempt: Attempt[R, S, W, V] = Attempt(
            kind, handler, Assessor(kind, config), services=services, max_handling_time=config.max_handling_time
        )
        self._steps: Steps[R, S, W, V] = Steps(
            io, self.agenda, self._attempt, host, kind=kind.name, commit=self._step_ended
        )
        self._versions: dict[int, tuple[Entry[R], Run[R, S, W]]] = {}  # of runs whose commit is unknown
        self._to_load = anyio.Event()
        self._to_commit = anyio.Event()
        self._finished: list[tuple[Entry[R], Run[R, S, W]]] = []
        self._seen: dict[int, Sequence[UUID]] = {}  # wakes of runs that had nothing to write
        self._time: tuple[float, datetime] | None = None  # of this process and of the database, at one moment
        self._unrecovered: dict[int, datetime] = {}  # by shard
        self._stopping = False
        self._loaded_up_at = host.clock.monotonic()  # when nothing waited to be loaded last

    # --- called by the owner and the listener

    def took(self, shard: int, epoch: int, ids: Mapping[int, bool], unrecovered: datetime | None) -> None:
        """A shard was taken, and its resources were listed; true for those that were woken."""
        self._cut(self.agenda.took(shard, epoch, ids, orphaned=unrecovered is not None))
        if unrecovered is not None:
            self._unrecovered[shard] = unrecovered
        self._to_load.set()

    def lost(self, shard: int) -> None:
        """A shard is another's, or was given back."""
        self._unrecovered.pop(shard, None)
        self._cut(self.agenda.lost(shard))

    def listed(self, shard: int, ids: Collection[int]) -> None:
        """These are the shard's resources now."""
        self.agenda.listed(shard, ids)
        self._to_load.set()

    def cut(self) -> None:
        """This process may not act any more: end all steps. The entries stay, and are loaded again before they run."""
        self._steps.cut_all()
        self.agenda.distrust()

    def interrupt(self, shard: int) -> None:
        """End the steps of a shard that has been closing for long enough."""
        self._steps.interrupt_all(shard)

    def woken(self, ids: Iterable[int]) -> None:
        """These resources were woken."""
        self.agenda.woken(ids)
        self._to_load.set()
        self._steps.woken()

    def polled(self, wakes: Mapping[int, AbstractSet[UUID]]) -> None:
        """These wakes were found."""
        self.agenda.polled(wakes)
        self._to_load.set()
        self._steps.woken()

    def timed(self, now: datetime) -> None:
        """This is the database's time."""
        self._time = self._clock.monotonic(), now

    def woken_all(self) -> None:
        """Nothing is known of what happened meanwhile."""
        self.agenda.woken_all()
        self._to_load.set()

    def lag(self) -> float:
        """By how many seconds the latest of its runs is overdue."""
        now = self._clock.monotonic()
        if not self.agenda.has_to_load:
            self._loaded_up_at = now
        return max(self.agenda.overdue(now), now - self._loaded_up_at)

    @property
    def acting(self) -> int:
        """How many steps there are, those included that are still to end."""
        return len(self._steps)

    def recovered(self) -> dict[int, int]:
        """Orphaned shards of which every resource had its first run since the last call, with their epochs."""
        shards = {shard: self.agenda.epoch_of(shard) for shard in self.agenda.recovered()}
        for shard in shards:
            self._unrecovered.pop(shard, None)
        return {shard: epoch for shard, epoch in shards.items() if epoch is not None}

    # --- the loop

    async def run(self, stop: anyio.Event) -> None:
        """Work until `stop` is set, then drain: load nothing more, let steps end, commit what they say."""
        async with anyio.create_task_group() as background:
            for serve in (self._sweep, self._settle, self._steps.interrupt):
                background.start_soon(serve)
            background.start_soon(self._commit, background)
            async with anyio.create_task_group() as work:
                work.start_soon(self._load, work)
                await stop.wait()
                self._stopping = True
                self._to_load.set()
                self._steps.close()
                _log.info("drain.begun", kind=self.kind, in_flight=self.agenda.under_way)
                background.start_soon(self._cut_off)
            while self._finished or self.agenda.under_way:  # noqa: ASYNC110 - many paths end one
                await anyio.sleep(_TICK)
            await self._delete_seen()
            _log.info("drain.done", kind=self.kind)
            background.cancel_scope.cancel()

    async def _cut_off(self) -> None:
        await anyio.sleep(self._host.config.drain_timeout.total_seconds())
        _log.warning("drain.cut_off", kind=self.kind, in_flight=self.agenda.under_way)
        self._steps.interrupt_all()

    async def _sweep(self) -> NoReturn:
        while True:
            more = self.sweep()
            await anyio.sleep(0 if more else _TICK)

    def sweep(self) -> bool:
        """Run what is due over what is in memory: one slice. Returns whether there may be more."""
        due: Sequence[Entry[R]] = ()
        if self._time is not None and not self._stopping and self._host.may_act():
            due = self.agenda.due(self._clock.monotonic(), _SLICE)
            self._run_remembered(due)
        if self.agenda.has_to_load:
            self._to_load.set()
        return len(due) == _SLICE

    def _run_remembered(self, due: Sequence[Entry[R]]) -> None:
        """Memory may only say that there is nothing to do; whatever else it says, the resource is loaded."""
        if not due:
            return
        now, at = self._clock.monotonic(), self._now()
        remembered, put_off, clock = self._attempt.remembered, self.agenda.rests, time.perf_counter
        done: list[float] = []
        waited: list[float] = []
        began = clock()
        for entry in due:
            decision = remembered(entry.snapshot, at)  # type: ignore[arg-type]
            if rests_as_before(decision, entry.outcome):
                put_off(entry, now + self._delay(decision.look_again), outcome=decision)  # type: ignore[union-attr]
                ended = clock()
                (waited if type(decision) is Wait else done).append(ended - began)
                began = ended
            else:
                self.agenda.requeue(entry)
        self._host.sink.ran(self.kind, {name: each for name, each in (("do_nothing", done), ("wait", waited)) if each})

    async def _load(self, tasks: TaskGroup) -> None:
        """Load what has to be, until the process stops: some passes side by side, each over what waits when it
        begins."""
        passes = anyio.CapacityLimiter(self._host.config.passes)
        while not self._stopping:
            await self._to_load.wait()
            self._to_load = anyio.Event()
            # Behind with commits, or without the right to act, the next commit or sweep asks again.
            while self.agenda.has_to_load and self._has_room() and not self._stopping:
                place = object()
                await passes.acquire_on_behalf_of(place)
                entries = self.agenda.load(self._host.config.batch)
                if entries and not self._stopping:
                    tasks.start_soon(self._in_place, entries, tasks, passes, place)
                else:
                    self.agenda.not_loaded(entries)
                    passes.release_on_behalf_of(place)

    def _has_room(self) -> bool:
        return self._host.may_act() and len(self._finished) <= 2 * self._host.config.batch

    async def _in_place(
        self, entries: Sequence[Entry[R]], tasks: TaskGroup, passes: anyio.CapacityLimiter, place: object
    ) -> None:
        try:
            await self._pass(entries, tasks)
        finally:
            passes.release_on_behalf_of(place)

    async def _pass(self, entries: Sequence[Entry[R]], tasks: TaskGroup) -> None:
        """One run of each over a fresh snapshot."""
        try:
            with anyio.fail_after(_LOAD_SECONDS):
                loaded = await self.io.load([entry.id for entry in entries])
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("load.failed", kind=self.kind, rows=len(entries), error=str(error))
            await anyio.sleep(_PAUSE)
            self.agenda.not_loaded(entries)
            self._to_load.set()
            return
        now = self._clock.monotonic()
        if loaded.resources:
            self._time = now, loaded.now
        if loaded.woken_at and self._time is not None:
            # A clock that was set back makes no time negative.
            waited = [max(0.0, (self._now() - at).total_seconds()) for at in loaded.woken_at.values()]
            self._host.sink.waited(self.kind, waited)
        for entry in entries:
            self._take_in(entry, loaded, now)
        planned: list[Planned[R, S, W, V]] = []
        while chosen := self.agenda.ready(_SLICE):
            for entry in chosen:
                self._run_fresh(entry, planned)
            await anyio.lowlevel.checkpoint()
        self._to_commit.set()  # only now: what is loaded together is committed together
        if planned:
            await self._steps.begin(tasks, planned)

    def _take_in(self, entry: Entry[R], loaded: Loaded[R], now: float) -> None:
        wakes = loaded.wakes.get(entry.id, ())
        entry.key = loaded.keys.get(entry.id)
        if entry.id in loaded.resources:
            snapshot = loaded.resources[entry.id]
            if entry.confirmed is not None:
                stored, snapshot = snapshot, self._attempt.confirmed(snapshot, entry.confirmed, loaded.now)
                entry.confirmed = None if snapshot is stored else snapshot
            self.agenda.loaded(entry, snapshot, wakes, now=now, marked=loaded.marks.get(entry.id))
        elif entry.id in loaded.unreadable:
            self.agenda.loaded(entry, None, wakes, now=now)
            entry.error = loaded.unreadable[entry.id]
        else:
            self.agenda.absent(entry)
            if wakes:
                self._consume({entry.id: wakes})

    def _run_fresh(self, entry: Entry[R], planned: list[Planned[R, S, W, V]]) -> None:
        if not self._host.may_act():
            self.agenda.requeue(entry)
            return
        turn = Turn(
            id=entry.id,
            epoch=self.agenda.epoch(entry),
            reruns=entry.reruns,
            outcome_key=entry.key,
            wakes=entry.wakes,
            recover_until=self._recover_until(entry),
        )
        if entry.snapshot is None:
            self._hand_over(
                entry, self._attempt.missing(turn, entry.error or UndecodableState(self.kind, "no snapshot"))
            )
            return
        decision = self._attempt.decide(turn, entry.snapshot, self._now())
        if isinstance(decision, Run):
            self._hand_over(entry, decision)
        elif self.agenda.may_step(entry):
            planned.append(Planned(entry=entry, turn=turn, resource=entry.snapshot, step=decision))
        else:
            self.agenda.defer(entry, self._clock.monotonic() + _PAUSE)

    def _recover_until(self, entry: Entry[R]) -> datetime | None:
        """Steps that began before that may have acted without anyone having seen their end."""
        if entry.marked or entry.cut:
            return self._now()
        return self._unrecovered.get(entry.shard) if entry.orphan else None

    # --- what runs led to

    def _step_ended(self, entry: Entry[R], run: Run[R, S, W]) -> None:
        self._hand_over(entry, run)
        self._to_commit.set()

    def _hand_over(self, entry: Entry[R], run: Run[R, S, W]) -> None:
        """A run came to an end: what it says is committed, if it says anything new."""
        if entry.marked and not run.finished.acted:  # the mark goes with this commit
            run = msgspec.structs.replace(run, finished=msgspec.structs.replace(run.finished, acted=True))
        finished = run.finished
        # Counted from the decision: a commit that waits makes the next run no later.
        due_at = self._clock.monotonic() + finished.delay.total_seconds()
        if finished.rests or finished.stays_in_memory:
            if finished.confirms:
                wakes = self.agenda.confirms(entry, finished.to, due_at)
            else:
                wakes = self.agenda.rests(entry, due_at, outcome=run.decision if rests(run.decision) else None)
            self._consume({entry.id: wakes})
            self._publisher.publish([run], {finished.id: _RESTED})
        elif self.agenda.commits(entry):
            self._finished.append((entry, msgspec.structs.replace(run, due_at=due_at)))

    def _consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        for id_, seen in wakes.items():
            if seen:
                self._seen[id_] = (*self._seen.get(id_, ()), *seen)

    async def _commit(self, tasks: TaskGroup) -> NoReturn:
        """Commit what runs led to, for ever: all that waits goes into one commit."""
        commits = anyio.CapacityLimiter(_COMMITTERS)
        while True:
            await self._to_commit.wait()
            self._to_commit = anyio.Event()
            while self._finished:
                place = object()
                await commits.acquire_on_behalf_of(place)
                many = self._host.config.batch
                batch, self._finished = self._finished[:many], self._finished[many:]
                tasks.start_soon(self._commit_in_place, batch, tasks, commits, place)
            await self._delete_seen()

    async def _commit_in_place(
        self, batch: Batch, tasks: TaskGroup, commits: anyio.CapacityLimiter, place: object
    ) -> None:
        try:
            for each in await self._commit_together(batch, patient=False):
                tasks.start_soon(self._commit_alone, each)
        finally:
            commits.release_on_behalf_of(place)

    async def _commit_alone(self, each: tuple[Entry[Any], Run[Any, Any, Any]]) -> None:
        """What it writes is held by another transaction: wait for it, out of the way of others."""
        await self._commit_together([each], patient=True)

    async def _commit_together(self, batch: Batch, *, patient: bool) -> Batch:
        """Commit and publish; returns those of which another transaction holds what they write. Shielded and bounded:
        a run that was decided is not torn by a cancellation."""
        # A shard that was lost since may be owned again, under another epoch than that of the run.
        batch = [each for each in batch if each[0].phase is not Phase.GONE]
        if not batch:
            return []
        runs = [run for _, run in batch]
        id_ = self._host.ownership.id
        results: Mapping[int, Result] = {run.finished.id: Result(Verdict.UNKNOWN) for run in runs}
        if id_ is None:
            results = {run.finished.id: Result(Verdict.LOST) for run in runs}
        else:
            try:
                with anyio.fail_after(_COMMIT_SECONDS, shield=True):
                    results = await self.io.commit([run.finished for run in runs], id_, patient=patient)
            except (DatabaseUnreachable, TimeoutError) as error:
                _log.warning("commit.failed", kind=self.kind, runs=len(runs), error=str(error))
        locked = frozenset() if patient else {id_ for id_, each in results.items() if each.verdict is Verdict.LOCKED}
        settled = [each for each in batch if each[1].finished.id not in locked]
        self._publisher.publish([run for _, run in settled], results)
        for entry, run in settled:
            self._settle_entry(entry, run, results[run.finished.id])
        if self.agenda.has_to_load:
            self._to_load.set()
        return [each for each in batch if each[1].finished.id in locked]

    def _settle_entry(self, entry: Entry[R], run: Run[R, S, W], result: Result) -> None:
        finished, now = run.finished, self._clock.monotonic()
        match result.verdict:
            case Verdict.COMMITTED if finished.due is Due.NEVER:
                self.agenda.ended(entry)
            case Verdict.COMMITTED if finished.due is Due.RERUN:
                self.agenda.committed(entry, None)
            case Verdict.COMMITTED:
                self.agenda.committed(entry, run.due_at)
            case Verdict.REFUSED:
                self.agenda.committed(entry, now + self._period)
            case Verdict.CONFLICT:
                delay = result.due_in.total_seconds()
                self.agenda.not_committed(entry, now + delay if delay > 0 else None)
            case Verdict.LOST | Verdict.LOCKED:
                self.agenda.not_committed(entry, now + 2 * _PAUSE)
            case Verdict.UNKNOWN:
                self.agenda.unknown(entry)
                if entry.phase is Phase.UNKNOWN:
                    self._versions[entry.id] = entry, run
            case _ as never:
                assert_never(never)

    async def _delete_seen(self) -> None:
        seen, self._seen = self._seen, {}
        if not seen:
            return
        try:
            with anyio.fail_after(_COMMIT_SECONDS):
                await self.io.consume(seen)
        except (DatabaseUnreachable, TimeoutError) as error:  # the poll finds them, and their resources run once more
            _log.warning("consume.failed", kind=self.kind, rows=len(seen), error=str(error))

    async def _settle(self) -> NoReturn:
        """Find out what became of commits whose reply was lost, for ever."""
        while True:
            await anyio.sleep(_PAUSE)
            entries = [entry for entry in self.agenda.to_settle() if entry.id in self._versions]
            id_ = self._host.ownership.id
            if not entries or id_ is None:
                continue
            runs = {entry.id: self._versions[entry.id][1] for entry in entries}
            versions = {each: run.finished.version or 0 for each, run in runs.items()}
            try:
                with anyio.fail_after(_SETTLE_SECONDS):
                    moved = await self.io.settle(versions, id_)
            except (DatabaseUnreachable, TimeoutError) as error:
                _log.warning("settle.failed", kind=self.kind, rows=len(entries), error=str(error))
                continue
            for entry in entries:
                del self._versions[entry.id]
                if (at := moved.get(entry.id)) is not None:
                    self._publisher.publish([runs[entry.id]], {entry.id: Result(Verdict.COMMITTED, at=at)})
                self.agenda.settled(entry)
            self._to_load.set()

    # --- inside

    def _cut(self, entries: Iterable[Entry[R]]) -> None:
        self._steps.cut([entry.id for entry in entries])

    def _now(self) -> datetime:
        """The database's time."""
        assert self._time is not None, "runs come after a load"
        at, now = self._time
        return now + timedelta(0, self._clock.monotonic() - at)

    def _delay(self, look_again: timedelta | None) -> float:
        """The period with its jitter, or less when the handler wants to look sooner."""
        delay = self._shortest + self._spread * random.random()
        if look_again is None:
            return delay
        seconds = look_again.total_seconds()
        return min(delay, seconds)


_RESTED = Result(Verdict.COMMITTED)
