"""Steps: the runs that need the outside world, each a task of its own.

They are bounded in number. Each is marked on disk before it begins, and its mark is removed after its end was recorded:
a controller that takes a shard over recovers from the steps whose marks it finds. One statement marks all that are to
begin, and removes all marks that are to go. Steps are cut short when a request comes that should not wait for a reading
step, and cut off when the process stops or may not act any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, NoReturn, TypeVar

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from farrier.controller.agenda import Agenda, Entry, Phase
from farrier.controller.backlog import SOONEST, Backlog
from farrier.controller.host import Host, asked
from farrier.controller.runner import Acting, Run, Runner
from farrier.controller.signal import Wakeup
from farrier.errors import LeaseLost
from farrier.model.controllers import SHARDS
from farrier.model.outcome import Step
from farrier.model.runs import Marking, Turn
from farrier.protocols import StateIO

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")

_log = structlog.stdlib.get_logger(__name__)

_QUERY_SECONDS = 5.0
# Of all slots taken. One that is free for a moment while hundreds wait is not the end of waiting.
_ROOM = 0.5
# A storm of wakes asks the database about running steps no more often than this.
_ASK_AT_MOST_EVERY = 0.1
# How long a mark may outlive its step, in seconds; steps that begin meanwhile wait for each other.
_MARK_EVERY = 0.1
# Without the database, until the next try to remove marks.
_PAUSE = 0.5


class Planned(msgspec.Struct, Generic[R, S, W, V], frozen=True):
    """A run over the entry's snapshot that was decided to need the outside world."""

    entry: Entry[R]
    turn: Turn
    step: Step[S, W, V]


class Steps(Generic[R, S, W, V]):
    """Everything of one kind that is waiting for an outside service."""

    def __init__(
        self,
        io: StateIO[R, S, W],
        agenda: Agenda[R],
        runner: Runner[R, S, W, V],
        host: Host,
        *,
        kind: str,
        commit: Callable[[Entry[R], Run[R, S, W]], None],
    ) -> None:
        self._kind = kind
        self._io = io
        self._agenda = agenda
        self._runner = runner
        self._host = host
        self._commit = commit
        self._acting: dict[int, Acting] = {}  # those included that are still to begin
        self._planned: list[Planned[R, S, W, V]] = []
        self._ended: set[int] = set()  # whose marks are to be removed
        self._removing: set[int] = set()  # by the statement under way
        self._markings = 0
        self._marking = anyio.Lock()  # one statement at a time: an earlier one may not come after a later one
        self._news = Wakeup()
        self._backlog = Backlog(host.clock)
        self._closed = False
        self._maybe_interrupted = Wakeup()

    def __len__(self) -> int:
        return len(self._acting)

    def begin(self, planned: Sequence[Planned[R, S, W, V]]) -> None:
        """Begin steps, once their marks are on disk; those for which there is no room are put off."""
        room = 0 if self._closed else max(0, self._host.config.max_in_flight - len(self._acting))
        chosen: list[Planned[R, S, W, V]] = []
        others: list[Planned[R, S, W, V]] = []
        for plan in planned:
            # An earlier step of the same resource, of before its shard was lost, may still be dying.
            if len(chosen) < room and plan.entry.id not in self._acting:
                if self._agenda.acts(plan.entry, plan.step.name):
                    self._acting[plan.entry.id] = Acting(self._host.may_act, reads_only=plan.step.reads_only)
                    chosen.append(plan)
            else:
                others.append(plan)
        if others:
            delay = SOONEST if self._closed else self._backlog.put_off(len(others))
            due_at = self._host.clock.monotonic() + delay.total_seconds()
            for plan in others:
                self._agenda.defer(plan.entry, due_at)
        self._backlog.let_in(len(chosen))
        self._planned += chosen
        self._news.set("step")

    # --- marks

    async def mark(self, tasks: TaskGroup) -> NoReturn:
        """Mark steps and begin them in `tasks`, and remove the marks of those that have ended, for ever."""
        while True:
            await self._news.wait(math.inf)
            planned, self._planned = self._planned, []
            marked = await self._mark({plan.entry.id: plan.step.name for plan in planned})
            for plan in planned:
                if marked and plan.entry.id in marked and not self._closed:
                    tasks.start_soon(self._run, plan, name=f"{self._kind} {plan.entry.id} {plan.step.name}")
                else:
                    self._not_begun(plan)
            if self._ended:  # those of a statement that failed, too: without them no shard is given back
                self._news.set("step")
            await anyio.sleep(_PAUSE if marked is None else _MARK_EVERY)

    async def _mark(self, begun: Mapping[int, str]) -> AbstractSet[int] | None:
        """Returns those that are marked, none of a shard that is not owned any more; None without the database."""
        async with self._marking:
            self._removing, self._ended = self._ended, set()
            own, ids = self._host.ownership, {*begun, *self._removing}
            epochs = {each: epoch for each in {id_ % SHARDS for id_ in ids} if (epoch := own.epoch((self._kind, each)))}
            marked: AbstractSet[int] | None = None
            with asked(
                _QUERY_SECONDS, lambda error: _log.warning("mark.failed", kind=self._kind, rows=len(ids), error=error)
            ):
                if own.id is not None and epochs:
                    self._markings += 1
                    marking = Marking(number=self._markings, begun=begun, ended=self._removing, epochs=epochs)
                    marked = await self._io.mark(marking, own.id)
                else:
                    marked = frozenset()
                self._removing = set()
            self._ended |= self._removing  # again with the next marks
            self._removing = set()
            return marked

    async def flush(self) -> None:
        """Remove the marks of all steps that have ended; before the process stops."""
        await self._mark({})

    def ended(self, entry: Entry[R], run: Run[R, S, W] | None = None) -> None:
        """The end of the entry's step, if it had one, is recorded; not by a `run` that failed to recover from it."""
        left = None if run is None else run.recovers
        if entry.step is not None and left is None and entry.phase is not Phase.GONE:
            self._ended.add(entry.id)
            self._news.set("step")

    def is_quiet(self, shard: int) -> bool:
        """Whether no mark of the shard is still to be removed."""
        return not any(id_ % SHARDS == shard for id_ in (*self._ended, *self._removing))

    def lost(self, shard: int) -> None:
        """Forget a lost shard, with its marks."""
        self._ended = {id_ for id_ in self._ended if id_ % SHARDS != shard}
        self._removing = {id_ for id_ in self._removing if id_ % SHARDS != shard}

    def _not_begun(self, plan: Planned[R, S, W, V]) -> None:
        self._over(plan.entry)
        self._nothing_done(plan)

    def _over(self, entry: Entry[R]) -> None:
        """Free the slot of a step that has ended."""
        del self._acting[entry.id]
        if len(self._acting) < self._host.config.max_in_flight * _ROOM:
            self._backlog.over()

    def _nothing_done(self, plan: Planned[R, S, W, V]) -> None:
        """The step changed nothing outside, and spent nothing: its resource is loaded and run again. What the run
        recovered from is still to be recovered from."""
        entry, before = plan.entry, plan.turn.recovers
        if before is None:
            self.ended(entry)
        entry.step = before
        self._agenda.requeue(entry)

    # --- ends

    def close(self) -> None:
        """Begin no more steps; those that run go on."""
        self._closed = True
        self._news.set("step")

    def woken(self) -> None:
        """Check the running steps for intents that interrupt them: a wake may concern one of their resources."""
        self._maybe_interrupted.set("notify")

    def interrupt_all(self, shard: int | None = None) -> None:
        """The process stops, or gives a shard back, and has waited long enough."""
        for id_, acting in self._acting.items():
            if shard is None or id_ % SHARDS == shard:
                acting.interrupt()

    def cut(self, ids: Iterable[int]) -> None:
        """The process may not act on these any more."""
        for id_ in ids:
            if id_ in self._acting:
                self._acting[id_].cut()

    def cut_all(self) -> None:
        """It may not act on anything any more."""
        self.cut(self._acting)

    async def interrupt(self) -> NoReturn:
        """Cut reading steps short for which a request waits, for ever."""
        while True:
            await self._maybe_interrupted.wait(self._host.config.poll_interval.total_seconds())
            reading = [id_ for id_, acting in self._acting.items() if acting.reads_only]
            if reading:
                with asked(
                    _QUERY_SECONDS, lambda error: _log.warning("interrupt.failed", kind=self._kind, error=error)
                ):
                    for id_ in await self._io.interrupted(reading):
                        if id_ in self._acting:
                            self._acting[id_].interrupt()
            await anyio.sleep(_ASK_AT_MOST_EVERY)

    async def _run(self, plan: Planned[R, S, W, V]) -> None:
        """Run one step, and hand its outcome over to the commit."""
        entry, step, resource = plan.entry, plan.step, plan.entry.snapshot
        assert resource is not None, "a step is decided over a snapshot"
        acting, name = self._acting[entry.id], self._runner.name_of(resource)
        if not acting.may_begin():  # since it was planned: nothing is to be accounted for
            self._not_begun(plan)
            return
        try:
            with structlog.contextvars.bound_contextvars(kind=self._kind, id=entry.id, name=name):
                run = await self._runner.act(plan.turn, resource, step, acting)
        except LeaseLost as lost:
            self._host.sink.step_cut(self._kind)
            _log.warning("step.cut", kind=self._kind, id=entry.id, name=name, step=step.name, error=str(lost))
            self._agenda.requeue(entry)
            return
        finally:
            self._over(entry)
        if run is not None:
            self._commit(entry, run)
        elif step.reads_only:
            self._nothing_done(plan)
        else:
            self._agenda.requeue(entry)
