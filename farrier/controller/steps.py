"""Steps: the parts of runs that call outside services. Each step runs in a separate task.

The number of running steps is limited. A mark is written to disk before a step begins. The mark is removed when the
database has recorded that the step ended. If a controller takes a shard over, it recovers the interrupted steps whose
marks it finds. One statement writes and removes the marks of many steps. If an intent must not wait, it interrupts a
running step that only reads. The process also cancels a step when the process stops or may no longer act.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Generic, NoReturn

import anyio
import structlog
from anyio.abc import TaskGroup

from farrier.controller.agenda import Agenda, AgendaEntry, Phase
from farrier.controller.host import LoopContext, asked
from farrier.controller.runner import Acting, Run, Runner
from farrier.controller.signal import Wakeup
from farrier.errors import LeaseLost
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.outcome import Step, Update
from farrier.model.loop.runs import Marking, Turn
from farrier.protocols import StateIO
from farrier.protocols.loop import R, S, V, W

_log = structlog.stdlib.get_logger(__name__)

_QUERY_SECONDS = 5.0
# The delay, in seconds, after which a resource is loaded again because its earlier step has not ended yet, or because
# its step does not begin while the process stops.
_AGAIN_AFTER = 1.0
# The shortest interval between two queries for intents that interrupt steps, in seconds.
_ASK_AT_MOST_EVERY = 0.1
# The shortest interval between two statements about marks, in seconds.
_MARK_EVERY = 0.1
# So many steps that only observe are marked at once, while the sweep plans further ones.
_MARKED_TOGETHER = 128
# So many steps begin before other tasks run.
_BEGUN_TOGETHER = 4
# The pause after a statement that failed, in seconds.
_PAUSE = 0.5


class Slots(Generic[R]):
    """The slots of the steps of one kind, and the queue of resources whose steps wait for a slot. Does no I/O.

    A free slot is promised to the first resource in the queue; this resource is loaded and runs again. If the run still
    needs the slot, the run takes the slot; otherwise, the slot is promised to the next resource. A resource in the
    queue also runs every period, and leaves the queue when a run needs no slot.
    """

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


class Steps(Generic[R, S, W, V]):
    """The steps of one kind."""

    def __init__(
        self,
        io: StateIO[R, S, W],
        agenda: Agenda[R],
        runner: Runner[R, S, W, V],
        host: LoopContext,
        *,
        kind: str,
        ended: Callable[[AgendaEntry[R], Run[R, S, W] | Update[S, W], float], None],
    ) -> None:
        self._kind = kind
        self._io = io
        self._agenda = agenda
        self._runner = runner
        self._host = host
        self._with_result = ended
        self._acting: dict[int, Acting[R, S, W, V]] = {}  # also steps that have not begun
        self._planned: list[Acting[R, S, W, V]] = []
        self._observing: list[Acting[R, S, W, V]] = []
        self._ended: set[int] = set()  # IDs whose marks must be removed
        self._removing: set[int] = set()  # IDs whose marks the current statement removes
        self._markings = 0
        self._marking = anyio.Lock()  # one statement at a time, so that they run in order
        self._news = Wakeup()
        self.slots: Slots[R] = Slots()
        self._closed = False
        self._maybe_interrupted = Wakeup()

    def __len__(self) -> int:
        return len(self._acting)

    def begin(self, ran: Sequence[AgendaEntry[R]], planned: Sequence[Acting[R, S, W, V]]) -> None:
        """Begin the steps that the runs of a batch decided on, as soon as the marks of these steps are on disk. Steps
        without a free slot wait in the queue."""
        now = self._host.clock.monotonic()
        # The shard may have been lost since the run. Or an earlier step of the same resource, which began before the
        # shard was lost, may not have ended yet.
        still = [p for p in planned if p.entry.phase is Phase.RUNNING and p.entry.id not in self._acting]
        ready = {} if self._closed else {plan.entry.id: plan for plan in still}
        taking = self.slots.take(ran, [plan.entry for plan in ready.values()], free=self._free_slots())
        chosen = [ready[entry.id] for entry in taking]
        for plan in chosen:
            self._agenda.acts(plan.entry, plan.step.name)
            self._acting[plan.entry.id] = plan
        self._planned += chosen
        for plan in planned:
            waits = self._host.config.period.total_seconds() if plan.entry.id in ready else _AGAIN_AFTER
            self._agenda.defer(plan.entry, now + waits)
        self._call()
        if chosen:
            self._news.set()

    def observe(self, entry: AgendaEntry[R], step: Step[S, W, V]) -> None:
        """Plan a step that only observes, which a run on the snapshot in memory decided on. `begin_observing` begins
        it."""
        shard = self._kind, entry.shard
        epoch = self._host.ownership.held.get(shard)
        if epoch is None or shard in self._host.ownership.closing or entry.step is not None:
            self._agenda.requeue(entry)
            return
        self._agenda.remembers(entry)
        self._observing.append(Acting(entry, Turn(id=entry.id, epoch=epoch), step, self._host.may_act))

    def begin_observing(self, *, more: bool) -> None:
        """Begin the steps that `observe` planned; a few wait if `more` may follow at once."""
        if len(self._observing) >= (_MARKED_TOGETHER if more else 1):
            planned, self._observing = self._observing, []
            self.begin([plan.entry for plan in planned], planned)

    def _free_slots(self) -> int:
        return self._host.config.max_in_flight - len(self._acting)

    def _call(self) -> None:
        """Load and run the first resources in the queue, as many as there are free slots."""
        for entry in self.slots.promise(self._free_slots()):
            if entry.phase is Phase.IDLE:  # otherwise it is being loaded
                self._agenda.requeue(entry)

    # --- marks

    async def mark(self, tasks: TaskGroup) -> NoReturn:
        """Mark steps and begin them in `tasks`, and remove the marks of ended steps, until cancelled."""
        while True:
            await self._news.wait(math.inf)
            planned, self._planned = self._planned, []
            marked = await self._mark({plan.entry.id: plan.step.name for plan in planned})
            await anyio.lowlevel.checkpoint_if_cancelled()  # after a cancellation, `tasks` may have ended
            for number, plan in enumerate(planned, start=1):
                if number % _BEGUN_TOGETHER == 0:
                    await anyio.lowlevel.checkpoint()
                if marked and plan.entry.id in marked and not self._closed:
                    tasks.start_soon(self._run, plan, name=f"{self._kind} {plan.entry.id} {plan.step.name}")
                else:
                    self._not_begun(plan)
            if self._ended:  # also after a failure: a shard with such marks cannot be given back
                self._news.set()
            await anyio.sleep(_PAUSE if marked is None else _MARK_EVERY)

    async def _mark(self, begun: Mapping[int, str]) -> AbstractSet[int] | None:
        """Write and remove marks. Returns the marked resources, none of lost shards; None if the statement failed."""
        async with self._marking:
            self._removing, self._ended = self._ended, set()
            own, ids = self._host.ownership, {*begun, *self._removing}
            shards = {id_ % SHARDS for id_ in ids}
            epochs = {each: own.held[self._kind, each] for each in shards if (self._kind, each) in own.held}
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
            self._ended |= self._removing  # retried with the next statement
            self._removing = set()
            return marked

    async def flush(self) -> None:
        """Remove the marks of all ended steps before the process stops."""
        await self._mark({})

    def ended(self, entry: AgendaEntry[R], recovers: str | None = None) -> None:
        """Remove the mark of the entry's step, because the end of the step is recorded. If the run has not recovered
        from an earlier step, `recovers` names that step; the mark stays, and the next run recovers from that step."""
        if entry.step is not None and recovers is None and entry.phase is not Phase.GONE:
            self._ended.add(entry.id)
            self._news.set()
        entry.step = recovers

    def is_quiet(self, shard: int) -> bool:
        """Return whether the marks of all ended steps in the shard have been removed."""
        return not any(id_ % SHARDS == shard for id_ in (*self._ended, *self._removing))

    def lost(self, shard: int) -> None:
        """Forget a lost shard and its marks, and cancel its steps."""
        self.cancel(shard)
        self._ended = {id_ for id_ in self._ended if id_ % SHARDS != shard}
        self._removing = {id_ for id_ in self._removing if id_ % SHARDS != shard}
        self.slots.forget(shard)

    def _not_begun(self, plan: Acting[R, S, W, V]) -> None:
        self._over(plan.entry)
        self._nothing_done(plan)

    def _over(self, entry: AgendaEntry[R]) -> None:
        """Free the slot of a step that has ended."""
        del self._acting[entry.id]
        if self.slots.waiting:
            self._call()

    def _nothing_done(self, plan: Acting[R, S, W, V]) -> None:
        """Run the resource again: its step had no effect. A recovery from an earlier step is repeated, too."""
        self.ended(plan.entry, plan.turn.recovers)
        self._agenda.requeue(plan.entry)

    # --- ends

    def close(self) -> None:
        """Begin no more steps. Running steps continue."""
        self._closed = True
        self._news.set()

    def woken(self) -> None:
        """Check whether intents interrupt the running steps, because a wake may concern one of their resources."""
        self._maybe_interrupted.set()

    def interrupt_all(self, shard: int | None = None) -> None:
        """Interrupt all steps, or the steps of one shard, because the time that they had to finish has passed."""
        for id_, acting in self._acting.items():
            if shard is None or id_ % SHARDS == shard:
                acting.interrupt()

    def cancel(self, shard: int | None = None) -> None:
        """Cancel all steps, or the steps of one shard, because the process may no longer act on their resources."""
        for id_, acting in self._acting.items():
            if shard is None or id_ % SHARDS == shard:
                acting.cancel()

    async def interrupt(self) -> NoReturn:
        """Interrupt each running step that only reads and whose resource has a pending intent that interrupts. Runs
        until cancelled."""
        while True:
            await self._maybe_interrupted.wait(self._host.config.poll_interval.total_seconds())
            reading = [id_ for id_, acting in self._acting.items() if acting.step.reads_only]
            if reading:
                with asked(
                    _QUERY_SECONDS, lambda error: _log.warning("interrupt.failed", kind=self._kind, error=error)
                ):
                    for id_ in await self._io.interrupted(reading):
                        if id_ in self._acting:
                            self._acting[id_].interrupt()
            await anyio.sleep(_ASK_AT_MOST_EVERY)

    async def _run(self, acting: Acting[R, S, W, V]) -> None:
        """Run one step, and hand its outcome over to the commit, or keep the confirmation that it returned."""
        began = self._host.clock.monotonic()
        entry, step, resource = acting.entry, acting.step, acting.entry.snapshot
        assert resource is not None, "a run without a snapshot begins no step"
        name = resource.name
        if not acting.may_begin():  # nothing was done yet, so there is nothing to recover from
            self._not_begun(acting)
            return
        try:
            with structlog.contextvars.bound_contextvars(kind=self._kind, id=entry.id, name=name):
                run = await self._runner.act(acting, resource)
        except LeaseLost as lost:
            self._host.sink.step_cancelled(self._kind)
            _log.warning("step.cancelled", kind=self._kind, id=entry.id, name=name, step=step.name, error=str(lost))
            self._agenda.requeue(entry)
            return
        finally:
            self._over(entry)
        if run is not None:
            self._with_result(entry, run, self._host.clock.monotonic() - began)
        elif step.reads_only:
            self._nothing_done(acting)
        else:
            self._agenda.requeue(entry)
