"""Steps: the runs that need the outside world, each a task of its own.

They are bounded in number. One that may change something outside is marked on disk before it acts. They are cut short
when a request comes that should not wait for a reading step, and cut off when the process stops or may not act any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NoReturn, TypeVar

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from farrier.controller.agenda import Agenda, Entry
from farrier.controller.attempt import Acting, Attempt, Run
from farrier.controller.backlog import SOONEST, Backlog
from farrier.controller.host import Host
from farrier.controller.signal import Wakeup
from farrier.errors import DatabaseUnreachable, LeaseLost
from farrier.model.controllers import SHARDS
from farrier.model.outcome import Step
from farrier.model.runs import Turn
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


class Planned(msgspec.Struct, Generic[R, S, W, V], frozen=True, kw_only=True):
    """A run that was decided to need the outside world."""

    entry: Entry[R]
    turn: Turn
    resource: R
    step: Step[S, W, V]


class Steps(Generic[R, S, W, V]):
    """Everything of one kind that is waiting for an outside service."""

    def __init__(
        self,
        io: StateIO[R, S, W],
        agenda: Agenda[R],
        attempt: Attempt[R, S, W, V],
        host: Host,
        *,
        kind: str,
        commit: Callable[[Entry[R], Run[R, S, W]], None],
    ) -> None:
        self._kind = kind
        self._io = io
        self._agenda = agenda
        self._attempt = attempt
        self._host = host
        self._commit = commit
        self._acting: dict[int, Acting] = {}
        self._backlog = Backlog(host.clock)
        self._closed = False
        self._maybe_interrupted = Wakeup()

    def __len__(self) -> int:
        return len(self._acting)

    async def begin(self, tasks: TaskGroup, planned: Sequence[Planned[R, S, W, V]]) -> None:
        """Begin steps in `tasks`; those for which there is no room are put off."""
        room = 0 if self._closed else max(0, self._host.config.max_in_flight - len(self._acting))
        chosen: list[Planned[R, S, W, V]] = []
        others: list[Planned[R, S, W, V]] = []
        for plan in planned:
            # An earlier step of the same resource, of before its shard was lost, may still be dying.
            if len(chosen) < room and plan.entry.id not in self._acting:
                if self._agenda.acts(plan.entry):
                    self._acting[plan.entry.id] = Acting(self._host.may_act, reads_only=plan.step.reads_only)
                    chosen.append(plan)
            else:
                others.append(plan)
        if others:
            delay = SOONEST if self._closed else self._backlog.put_off(len(others))
            due_at = self._host.clock.monotonic() + delay.total_seconds()
            for plan in others:
                self._agenda.defer(plan.entry, due_at)
        elif len(self._acting) < self._host.config.max_in_flight * _ROOM:
            self._backlog.over()
        marked = await self._mark([plan for plan in chosen if not plan.step.reads_only])
        for plan in chosen:
            if plan.step.reads_only or plan.entry.id in marked:
                tasks.start_soon(self._run, plan, name=f"{self._kind} {plan.entry.id} {plan.step.name}")
            else:
                del self._acting[plan.entry.id]
                # The statement may have been carried out: nothing acted, but its mark may be there.
                self._agenda.cut(plan.entry)
        self._backlog.let_in(len(chosen))

    async def _mark(self, planned: Sequence[Planned[R, S, W, V]]) -> frozenset[int]:
        id_ = self._host.ownership.id
        if not planned or id_ is None:
            return frozenset()
        steps = {plan.entry.id: plan.step.name for plan in planned}
        epochs = {plan.entry.shard: plan.turn.epoch for plan in planned}
        try:
            with anyio.fail_after(_QUERY_SECONDS):
                return await self._io.mark(steps, epochs, id_)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("mark.failed", kind=self._kind, rows=len(steps), error=str(error))
            return frozenset()

    def close(self) -> None:
        """Begin no more steps; those that run go on."""
        self._closed = True

    def woken(self) -> None:
        """Something was asked for: perhaps of a resource whose step runs now."""
        self._maybe_interrupted.set("notify")

    def interrupt_all(self, shard: int | None = None) -> None:
        """The process stops, or gives a shard back, and has waited long enough."""
        for id_, acting in self._acting.items():
            if shard is None or id_ % SHARDS == shard:
                acting.interrupt()

    def cut_all(self) -> None:
        """The process may not act any more."""
        self.cut(self._acting)

    def cut(self, ids: Iterable[int]) -> None:
        """It may not act on these any more."""
        for id_ in ids:
            if id_ in self._acting:
                self._acting[id_].cut()

    async def interrupt(self) -> NoReturn:
        """Cut reading steps short for which a request waits, for ever."""
        while True:
            await self._maybe_interrupted.wait(self._host.config.poll_interval)
            reading = [id_ for id_, acting in self._acting.items() if acting.reads_only]
            if reading:
                await self._interrupt(reading)
            await anyio.sleep(_ASK_AT_MOST_EVERY)

    async def _interrupt(self, reading: Sequence[int]) -> None:
        try:
            with anyio.fail_after(_QUERY_SECONDS):
                for id_ in await self._io.interrupted(reading):
                    if id_ in self._acting:
                        self._acting[id_].interrupt()
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("interrupt.failed", kind=self._kind, error=str(error))

    async def _run(self, plan: Planned[R, S, W, V]) -> None:
        entry, step = plan.entry, plan.step
        name = self._attempt.name_of(plan.resource)
        try:
            with structlog.contextvars.bound_contextvars(kind=self._kind, id=entry.id, name=name):
                run = await self._attempt.act(plan.turn, plan.resource, step, self._acting[entry.id])
        except LeaseLost as lost:
            self._host.sink.step_cut(self._kind)
            _log.warning("step.cut", kind=self._kind, id=entry.id, name=name, step=step.name, error=str(lost))
            self._agenda.cut(entry)
            return
        finally:
            del self._acting[entry.id]
        if run is not None:
            finished = msgspec.structs.replace(run.finished, acted=not step.reads_only)
            self._commit(entry, msgspec.structs.replace(run, finished=finished))
        elif step.reads_only:
            self._agenda.requeue(entry)
        else:
            self._agenda.cut(entry)
