"""The loop of one kind, from beginning to end.

Each resource of an owned shard has an entry in the agenda. `_sweep` runs each due resource on its snapshot in memory;
most of these runs have nothing to do. If a run has something to do or a wake arrives, `_run_batch` loads the resource
together with its wakes, and runs it on the fresh snapshot. This run may have nothing to do, or begin a step, or return
changes. `_commit_together` writes changes only if this process still owns the shard (the fence). Module `controller`
takes and gives back the shards.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, NoReturn, assert_never
from uuid import UUID

import anyio
import structlog

from farrier.controller.agenda import Agenda, AgendaEntry, Phase
from farrier.controller.host import LoopContext, asked
from farrier.controller.locked import AGAIN_AFTER, Ended, Locked
from farrier.controller.publish import Publisher
from farrier.controller.runner import BLOCKED, Acting, Run, Runner, log_blocked
from farrier.controller.seen_wakes import SeenWakes
from farrier.controller.signal import Bell, next_moment
from farrier.controller.steps import Steps
from farrier.controller.unknown_commits import Unsettled
from farrier.model.loop.controllers import ListedResources
from farrier.model.loop.outcome import Step, Update, Wait
from farrier.model.loop.runs import CommitResult, CommitVerdict, Due, Loaded, Turn
from farrier.protocols import Kind, StateHandler, StateIO
from farrier.protocols.loop import R, S, V, W
from farrier.slices import sliced, taken_in_slice

_log = structlog.stdlib.get_logger(__name__)

_SLICE = 36  # how many handlers one slice of the sweep calls at most, so that it hardly ever puts entries back
_PUBLISHED = 8  # how many runs are published together, because a publication has a fixed cost
_MANY = 1_000  # how many wakes are recorded before other tasks run: a millisecond of work
# How many resources for which nobody waits are loaded together: some 20 ms of work for the database. For _OTHERS_FOLLOW
# seconds after a wake, a pass loads fewer, because the next resource that is woken would wait for all of that work.
_MASS, _MASS_BESIDE_OTHERS, _OTHERS_FOLLOW = 64, 16, 2.0
# How often the sweep takes due entries, in seconds.
_TICK = 0.05
# The work on a wake has some ten parts, and each could wait for a slice. So for _WAKE seconds after a wake, the sweep
# pauses for _BETWEEN seconds between two slices, unless entries are later than _LATE seconds.
_WAKE, _BETWEEN, _LATE = 0.01, 0.001, 0.5
_QUERY_SECONDS = 10.0
# The largest age, in seconds, of a fresh snapshot. If the process was stopped after a load, the snapshots are older,
# and are loaded again.
_FRESH_SECONDS = 1.0
# How many commits of the outcomes of steps may run at the same time, for one kind.
_COMMITTERS = 3
# Seconds until the next attempt if the database failed or this process may not act.
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
        host: LoopContext,
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
        self._runner: Runner[R, S, W, V] = Runner(kind, handler, config, services=services)
        self.steps: Steps[R, S, W, V] = Steps(
            io, self.agenda, self._runner, host, kind=kind.name, ended=self._step_ended
        )
        self._unsettled: Unsettled[R, S, W, V] = Unsettled(io, self.agenda, self._publisher, self.steps, kind=kind.name)
        self._to_load, self._to_commit = Bell(), Bell()
        self._finished: list[Ended[R]] = []
        self._locked: Locked[R] = Locked()
        self._seen = SeenWakes()
        self._time: tuple[float, datetime] | None = None  # one moment, by this process' clock and the database's clock
        self._woken_at = -math.inf
        self._stopping = False

    # --- called by the controller

    def took(self, shards: Collection[int], listed: ListedResources) -> None:
        """Add shards that this process took. `listed` has the resources and the marked steps of these shards; a later
        statement read them."""
        for shard in shards:
            self.steps.lost(shard)
        self.agenda.took(shards, listed.ids, listed.steps)
        self._to_load.ring()

    def lost(self, shard: int) -> None:
        """Forget a shard that was lost or released, and cancel its steps."""
        self.steps.lost(shard)
        self.agenda.lost(shard)

    def is_quiet(self, shard: int) -> bool:
        """Return whether no work of the shard is running, so that the shard may be given back."""
        return self.agenda.is_quiet(shard) and self.steps.is_quiet(shard)

    def listed(self, shards: Collection[int], listed: ListedResources) -> None:
        """Compare the listed resources of these shards with their entries."""
        self.agenda.listed(shards, listed.ids)
        self._to_load.ring()

    def woken(self, ids: Iterable[int]) -> bool:
        """Enqueue these resources. Returns whether a poll has to look for some of them."""
        self._woken_at = self._clock.monotonic()
        unknown = self.agenda.woken(ids)
        self._to_load.ring()
        self.steps.woken()
        return unknown

    def polled(self, wakes: Mapping[int, AbstractSet[UUID]], *, loud: Container[int] | None = None) -> None:
        """Enqueue the resources of wakes that a poll found. See `Agenda.polled`."""
        self.agenda.polled(wakes, loud=loud)
        self._to_load.ring()
        self.steps.woken()

    async def woken_together(self, ids: Sequence[int]) -> None:
        """Enqueue the resources of very many wakes."""
        for first in range(0, len(ids), _MANY):
            self.agenda.woken_together(ids[first : first + _MANY])
            self._to_load.ring()
            await anyio.lowlevel.checkpoint()
        self.steps.woken()

    def timed(self, now: datetime) -> None:
        """Record the time of the database."""
        self._time = self._clock.monotonic(), now

    def woken_all(self) -> None:
        """Enqueue every resource, because wakes may have been lost."""
        self.agenda.woken_all()
        self._to_load.ring()

    def lag(self) -> float:
        """Return the delay in seconds of the most delayed run of this loop."""
        return self.agenda.lag(self._clock.monotonic())

    # --- the loop

    async def run(self, stop: anyio.Event) -> None:
        """Work until `stop` is set. Then load nothing more, let the running steps end, and commit their outcomes."""
        async with anyio.create_task_group() as background:
            for serve in (self._sweep, self._settle, self.steps.interrupt):
                background.start_soon(serve)
            for serve in (self._commit_locked, *[self._commit] * _COMMITTERS):
                background.start_soon(serve)
            async with anyio.create_task_group() as work:
                background.start_soon(self.steps.mark, work)
                for _ in range(self._host.config.passes):
                    work.start_soon(self._load)
                work.start_soon(partial(self._load, mass=True))
                await stop.wait()
                self._stopping = True
                self._to_load.ring()
                self.steps.close()
                _log.info("drain.begun", kind=self.kind, in_flight=len(self.agenda.under_way))
                background.start_soon(self._cut_off)
            while self._finished or self.agenda.under_way:  # noqa: ASYNC110 - work ends in many places
                await anyio.sleep(_TICK)
            while await self._seen.delete(self.io, self.kind) and self._seen:
                pass
            await self.steps.flush()
            _log.info("drain.done", kind=self.kind)
            background.cancel_scope.cancel()

    async def _cut_off(self) -> None:
        await anyio.sleep(self._host.config.drain_timeout.total_seconds())
        _log.warning("drain.cut_off", kind=self.kind, in_flight=len(self.agenda.under_way))
        self.steps.interrupt_all()

    async def _sweep(self) -> NoReturn:
        """Run the handler for the due resources on their snapshots in memory, slice by slice, until cancelled."""
        while True:
            more = self.sweep()
            if more:
                now = self._clock.monotonic()
                gives_way = now - self._woken_at < _WAKE and self.agenda.wheel.overdue(now) < _LATE
                await asyncio.sleep(_BETWEEN if gives_way else 0)
            else:
                await next_moment(_TICK)

    def sweep(self) -> bool:
        """Run the handler for one slice of the due resources, on their snapshots in memory. Steps that only observe
        begin. Any other decision except to do nothing is dropped, and the resource is loaded. Returns whether more
        resources may be due."""
        agenda, now = self.agenda, self._clock.monotonic()
        due: list[AgendaEntry[R]] = []
        if self._time is not None and not self._stopping and self._host.may_act():
            due = agenda.wheel.take(now, _SLICE)
            read_at, read = self._time
            at = read + timedelta(0, now - read_at)
        more, ran = len(due) == _SLICE, dict[str, list[float]]()
        began = time.perf_counter()
        for entry in taken_in_slice(due):
            if entry.snapshot is None or entry.reload_at <= now:
                agenda.reload(entry, now)
                continue
            decision = self._runner.remembered(entry.snapshot, at, entry.outcome, entry.hold)
            ended = time.perf_counter()
            if ended - began > BLOCKED:
                log_blocked(self.kind, entry, ended - began)
            if decision is None:
                agenda.requeue(entry)
            elif isinstance(decision, Step):
                self.steps.observe(entry, decision)
            else:
                delay = self._shortest + self._spread * random.random()
                if decision.requeue_after is not None:
                    delay = min(delay, decision.requeue_after.total_seconds())
                agenda.wheel.put(entry, now + delay)
                ran.setdefault("wait" if type(decision) is Wait else "do_nothing", []).append(ended - began)
            began = ended
        agenda.wheel.put_back(due, now)
        more = more or bool(due)
        self.steps.begin_observing(more=more)
        if ran:
            self._host.sink.ran(self.kind, ran)
        if agenda.load_at <= now:
            self._to_load.ring()
        return more

    async def _load(self, *, mass: bool = False) -> None:
        """Load, run and commit resources, one batch after another, until the process stops. With `mass`, take those for
        which nobody waits, in statements that are short and never two at a time, so that they leave the database and
        this process to others."""
        while not self._stopping:
            was_woken = self._clock.monotonic() - self._woken_at < _OTHERS_FOLLOW
            most = (_MASS_BESIDE_OTHERS if was_woken else _MASS) if mass else self._host.config.batch
            # While the process may not act, nothing is loaded. A later sweep rings the bell.
            may = self._host.may_act() and not (mass and self._seen.are_many)
            entries = self.agenda.load(most, mass=mass, now=self._clock.monotonic()) if may else ()
            if entries:
                finished = await self._run_batch(entries)
                if self._seen:  # the wakes of runs that had nothing to write
                    self._to_commit.ring()
                await self._commit_together(finished)
            else:
                await self._to_load.wait()

    async def _run_batch(self, entries: Sequence[AgendaEntry[R]]) -> list[Ended[R]]:
        """Run each resource one time over a fresh snapshot. Returns the runs that have something to write."""
        loaded = None
        with asked(
            _QUERY_SECONDS, lambda error: _log.warning("load.failed", kind=self.kind, rows=len(entries), error=error)
        ):
            loaded = await self.io.load([entry.id for entry in entries])
        if loaded is None:
            await anyio.sleep(_PAUSE)
            self.agenda.not_loaded(entries)
            self._to_load.ring()
            return []
        at = self._clock.monotonic()
        if loaded.is_partial:
            self.agenda.partly_loaded(entries)
        if loaded.resources:
            self._time = at, loaded.now
        if loaded.woken_at and self._time is not None:
            # The wait is never negative, even if the clock was set back.
            waited = [max(0.0, (self._now() - at).total_seconds()) for at in loaded.woken_at.values()]
            self._host.sink.waited(self.kind, waited)
        finished: list[Ended[R]] = []
        planned: list[Acting[R, S, W, V]] = []
        async for entry in sliced(entries):
            if self._take_in(entry, loaded, at) and (run := self._run_fresh(entry, loaded, at, planned)):
                self._hand_over(entry, run, finished)
        if planned or self.steps.slots.waiting:
            self.steps.begin(entries, planned)
        return finished

    def _take_in(self, entry: AgendaEntry[R], loaded: Loaded[R], now: float) -> bool:
        """Record the result of the load for one resource. Returns whether to run the resource."""
        wakes = loaded.wakes.get(entry.id, ())
        snapshot = loaded.resources.get(entry.id)
        entry.hold = loaded.holds.get(entry.id)
        if snapshot is not None and entry.confirmed is not None:
            stored, snapshot = snapshot, self._runner.confirmed(snapshot, entry.confirmed, loaded.now)
            entry.confirmed = None if snapshot is stored else snapshot
        if snapshot is not None or entry.id in loaded.unreadable:
            return self.agenda.loaded(entry, snapshot, wakes, now=now)
        self.steps.ended(entry)
        self.agenda.ended(entry)
        self._seen.add({entry.id: wakes})
        return False

    def _run_fresh(
        self, entry: AgendaEntry[R], loaded: Loaded[R], loaded_at: float, planned: list[Acting[R, S, W, V]]
    ) -> Run[R, S, W] | None:
        """Decide over a fresh snapshot. Returns the finished run, or plans the step."""
        if not self._host.may_act() or self._clock.monotonic() - loaded_at > _FRESH_SECONDS:
            self.agenda.requeue(entry)
            return None
        shard = self.kind, entry.shard
        turn = Turn(
            id=entry.id,
            epoch=self._host.ownership.held[shard],
            reruns=entry.reruns,
            outcome_key=loaded.keys.get(entry.id),
            wakes=entry.wakes,
            recovers=entry.step,
            hold=entry.hold,
            commit_id=loaded.commit_id,
        )
        if entry.snapshot is None:
            return self._runner.missing(turn, loaded.unreadable[entry.id])
        began = time.perf_counter()
        decision = self._runner.decide(turn, entry.snapshot, self._now())
        if (seconds := time.perf_counter() - began) > BLOCKED:
            log_blocked(self.kind, entry, seconds)
        if isinstance(decision, Run):
            return decision
        if isinstance(decision, Update):
            self._confirmed(entry, decision, seconds)
            return None
        if shard in self._host.ownership.closing:
            self.agenda.defer(entry, self._clock.monotonic() + _PAUSE)
        else:
            planned.append(Acting(entry, turn, decision, self._host.may_act))
        return None

    # --- results of runs

    def _step_ended(self, entry: AgendaEntry[R], result: Run[R, S, W] | Update[S, W], seconds: float) -> None:
        """Hand the outcome of a step over to the commit, in the same way as the outcome of a run."""
        if isinstance(result, Update):
            self._confirmed(entry, result, seconds)
            return
        self._hand_over(entry, result, self._finished)
        self._to_commit.ring()

    def _hand_over(self, entry: AgendaEntry[R], run: Run[R, S, W], finished_runs: list[Ended[R]]) -> None:
        """Hand a finished run over to the commit of these, if the run has anything to write now."""
        finished = run.finished
        # The time counts from the decision, so that a waiting commit does not delay the next run.
        due_at = self._clock.monotonic() + finished.delay.total_seconds()
        if finished.rests:
            self.steps.ended(entry, run.recovers)
            wakes = self.agenda.rests(entry, due_at, outcome=run.rests_on and run.rests_on[1])
            self._seen.add({entry.id: wakes})
            self._publisher.publish([run], {finished.id: _RESTED})
        elif self.agenda.commits(entry):
            run.due_at = due_at
            if not self._locked.takes((entry, run)):
                finished_runs.append((entry, run))

    def _confirmed(self, entry: AgendaEntry[R], update: Update[S, W], seconds: float) -> None:
        """Keep in memory that a run or step has confirmed the snapshot."""
        self.steps.ended(entry)
        delay = self._runner.delay(update.requeue_after).total_seconds()
        if wakes := self.agenda.confirms(entry, update.to, self._clock.monotonic() + delay):
            self._seen.add({entry.id: wakes})
            self._to_commit.ring()
        self._host.sink.ran(self.kind, {"update": (seconds,)})

    async def _commit(self) -> NoReturn:
        """Commit the outcomes of steps together, and delete the wakes of runs that had nothing to write, until
        cancelled."""
        many = self._host.config.batch
        while True:
            if self._finished:
                batch = self._finished[:many]
                del self._finished[:many]
                await self._commit_together(batch)
            elif self._seen:
                if not await self._seen.delete(self.io, self.kind):
                    await anyio.sleep(_PAUSE)
            else:
                await self._to_commit.wait()

    async def _commit_locked(self) -> NoReturn:
        """Repeat the commits of runs whose rows other transactions have locked, until cancelled."""
        while True:
            if not self._locked.waiting:
                await self._locked.added.wait()
            await anyio.sleep(AGAIN_AFTER)
            async with self._host.for_locked:
                # Runs that are locked again wait for the next turn.
                for _ in range(0, len(self._locked.waiting), self._host.config.batch):
                    await self._commit_together(self._locked.take(self._host.config.batch))

    async def _commit_together(self, batch: Sequence[Ended[R]]) -> None:
        """Commit these runs, and publish their results. Only a time limit interrupts the commit, no cancellation."""
        # The shard may have been lost since the run, and this process may own it again under another epoch.
        batch = [each for each in batch if each[0].phase is Phase.COMMITTING]
        if not batch:
            return
        runs = [run.finished for _, run in batch]
        id_ = self._host.ownership.id
        verdict = CommitVerdict.LOST if id_ is None else CommitVerdict.UNKNOWN
        results: Mapping[int, CommitResult] = {run.id: CommitResult(verdict) for run in runs}
        if id_ is not None:
            with asked(
                _QUERY_SECONDS,
                lambda error: _log.warning("commit.failed", kind=self.kind, runs=len(runs), error=error),
                shield=True,
            ):
                results = await self.io.commit(runs, id_)
            results = await self._report_locks(batch, results, id_)
        settled = [each for each in batch if each[0].id in results]
        with anyio.CancelScope(shield=True):
            async for some in sliced([settled[at : at + _PUBLISHED] for at in range(0, len(settled), _PUBLISHED)]):
                self._publisher.publish([run for _, run in some], results)
                for entry, run in some:
                    self._settle_entry(entry, run, results[entry.id])
        if self.agenda.load_at <= self._clock.monotonic():
            self._to_load.ring()

    async def _report_locks(
        self, batch: Sequence[Ended[R]], results: Mapping[int, CommitResult], id_: UUID
    ) -> Mapping[int, CommitResult]:
        """Return the results without those of runs whose commits are repeated because their rows are locked. If a run
        has waited long enough, its lock is stored as the outcome of the resource."""
        repeated, tired = self._locked.sort(batch, results, self._clock.monotonic())
        if tired:
            with asked(
                _QUERY_SECONDS,
                lambda error: _log.warning("commit.failed", kind=self.kind, runs=len(tired), error=error),
                shield=True,
            ):
                results = {**results, **await self.io.report_locked(tired, results, id_)}
        return {run: result for run, result in results.items() if run not in repeated}

    def _settle_entry(self, entry: AgendaEntry[R], run: Run[R, S, W], result: CommitResult) -> None:
        finished, now = run.finished, self._clock.monotonic()
        if result.verdict in (CommitVerdict.COMMITTED, CommitVerdict.REFUSED):
            self.steps.ended(entry, run.recovers)
        match result.verdict:
            case CommitVerdict.COMMITTED if finished.due is Due.NEVER:
                self.agenda.ended(entry)
            case CommitVerdict.COMMITTED if finished.due is Due.RERUN:
                self.agenda.committed(entry, None)
            case CommitVerdict.COMMITTED:
                self.agenda.committed(entry, run.due_at, run.rests_on)
            case CommitVerdict.REFUSED:
                self.agenda.committed(entry, now + self._period)
            case CommitVerdict.DEFERRED:
                self.agenda.defer(entry, now + result.due_in.total_seconds())
            case CommitVerdict.CONFLICT:
                self.agenda.requeue(entry)
            case CommitVerdict.LOST | CommitVerdict.LOCKED:
                self.agenda.defer(entry, now + 2 * _PAUSE)
            case CommitVerdict.UNKNOWN:
                self._unsettled.add(entry, run)
            case _ as never:
                assert_never(never)

    async def _settle(self) -> NoReturn:
        """Settle commits whose replies were lost, until cancelled."""
        while True:
            await next_moment(_PAUSE)
            if await self._unsettled.settle():
                self._to_load.ring()

    # --- internals

    def _now(self) -> datetime:
        """Return the current time of the database, computed from the last load."""
        assert self._time is not None, "runs come after a load"
        at, now = self._time
        return now + timedelta(0, self._clock.monotonic() - at)


_RESTED = CommitResult(CommitVerdict.COMMITTED)
