"""One kind's loop: two claim streams, passes over what they claim, steps, and an orderly end.

A pass loads all snapshots in one query, decides in memory and commits together. The order at the end: stop
claiming, let passes and steps finish, cut off what does not, give rows back, return. Whatever is not given
back runs out by its lease.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Generic, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup

from farrier.controller.attempt import Attempt, Run
from farrier.controller.backlog import SOONEST
from farrier.controller.host import Core, Host
from farrier.controller.lease import Leases
from farrier.controller.publish import Publisher
from farrier.controller.settle import Settler
from farrier.controller.signal import Wakeup
from farrier.controller.steps import Planned, Steps
from farrier.controller.stream import Stream
from farrier.controller.verdict import Assessor
from farrier.errors import DatabaseUnreachable, UndecodableState
from farrier.model.outcome import Step
from farrier.model.schedule import Claimed, Lane, Loaded, Taken
from farrier.protocols import Kind, StateHandler, StateIO

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")

_log = structlog.stdlib.get_logger(__name__)

# After so many handlers of a batch the event loop serves others: about a millisecond of work.
_SLICE = 32
_NOW = timedelta(0)
_LOAD_SECONDS = 10.0


class Processor(Generic[R, S, W, V]):
    """Runs the handler of one kind over everything that is due, beside any number of replicas."""

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
        leases = Leases(
            host.clock, lease=config.lease, start_margin=config.start_margin, cancel_after=config.cancel_after
        )
        self._core: Core[R, S, W] = Core(kind=kind.name, io=io, leases=leases, host=host)
        self._woken, self._periodic = Wakeup(), Wakeup()
        publisher: Publisher[R, S] = Publisher(kind, leases=leases, sink=host.sink, signal=self._woken)
        self._attempt: Attempt[R, S, W, V] = Attempt(
            kind,
            handler,
            Assessor(kind, config),
            services=services,
            leases=leases,
            max_handling_time=config.max_handling_time,
        )
        self._settler: Settler[R, S, W] = Settler(self._core, publisher)
        self._steps: Steps[R, S, W, V] = Steps(self._core, self._attempt, self._settler)
        self._streams = (
            Stream(self._core, Lane.WOKEN, self._woken),
            Stream(self._core, Lane.PERIODIC, self._periodic),
        )

    @property
    def kind(self) -> str:
        """The kind this processor runs."""
        return self._core.kind

    @property
    def in_flight(self) -> int:
        """Rows claimed and not yet given back."""
        return len(self._core.leases)

    def wake(self) -> None:
        """Rows may be due: claim at once, and see whether a running step should make way. Never blocks."""
        self._woken.set("notify")
        self._steps.woken()

    async def run(self, stop: anyio.Event) -> None:
        """Work until `stop` is set, then drain. Cancelling instead leaves the rows to their leases."""
        async with anyio.create_task_group() as background:
            for serve in (self._steps.renew, self._steps.interrupt):
                background.start_soon(serve)
            async with anyio.create_task_group() as work:
                small = self._pass_in(work)
                self._settler.serve(background, lambda kept: work.start_soon(small.go_on, kept))
                async with anyio.create_task_group() as streams:
                    for stream in self._streams:
                        streams.start_soon(stream.run, work, self._pass_in(work), stop)
                    await stop.wait()
                    self._settler.close()
                    self._woken.set("stop")
                    self._periodic.set("stop")
                self._steps.close()
                _log.info("drain.begun", kind=self._core.kind, in_flight=self.in_flight)
                background.start_soon(self._cut_off)
            await self._settler.give_back(self._core.leases.tokens(), _NOW, Lane.WOKEN)
            _log.info("drain.done", kind=self._core.kind)
            background.cancel_scope.cancel()

    async def _cut_off(self) -> None:
        await anyio.sleep(self._core.host.config.drain_timeout.total_seconds())
        _log.warning("drain.cut_off", kind=self._core.kind, in_flight=self.in_flight)
        self._core.leases.cancel_steps()

    def _pass_in(self, tasks: TaskGroup) -> _Pass[R, S, W, V]:
        return _Pass(self._core, self._attempt, self._settler, self._steps, tasks)


class _Pass(Generic[R, S, W, V]):
    """Load, decide, commit: one claim at a time, any number side by side."""

    def __init__(
        self,
        core: Core[R, S, W],
        attempt: Attempt[R, S, W, V],
        settler: Settler[R, S, W],
        steps: Steps[R, S, W, V],
        tasks: TaskGroup,
    ) -> None:
        self._kind = core.kind
        self._io = core.io
        self._leases = core.leases
        self._attempt = attempt
        self._settler = settler
        self._steps = steps
        self._tasks = tasks
        self._going_on = anyio.CapacityLimiter(core.host.config.passes)

    async def __call__(self, claim: Taken) -> None:
        """What was due. What runs again at once finds room before another claim takes the place of this pass."""
        kept = await self._once(claim, on_disk=False)
        if kept is not None:
            place = object()
            await self._going_on.acquire_on_behalf_of(place)
            self._tasks.start_soon(self._in_place, kept, place)

    async def _in_place(self, taken: Taken, place: object) -> None:
        try:
            await self.go_on(taken)
        finally:
            self._going_on.release_on_behalf_of(place)

    async def go_on(self, taken: Taken) -> None:
        """Rows that their last commit kept, until none is left."""
        left: Taken | None = taken
        while left is not None:
            left = await self._once(left, on_disk=True)

    async def _once(self, claim: Taken, *, on_disk: bool) -> Taken | None:
        """One run of each; answers those that go on at once. `on_disk`: the claim outlives a crash of the server."""
        loaded = await self._load(claim)
        if loaded is None:
            return None
        runs: list[Run[R, S, W]] = []
        planned: list[Planned[R, S, W, V]] = []
        put_off: list[Claimed] = []
        for count, claimed in enumerate(claim.rows):
            if count % _SLICE == _SLICE - 1:
                await anyio.lowlevel.checkpoint()
            if not self._leases.may_start(claimed.id, claim.token):
                put_off.append(claimed)
                continue
            begun = self._decide(claimed, claim.token, loaded)
            if isinstance(begun, Run):
                runs.append(begun)
            else:
                planned.append(begun)
        # Somebody waits for what was woken; what goes on has been answered.
        kept = await self._settler.settle(runs, share=on_disk) if runs else None
        delay = SOONEST
        if planned:
            refused, delay = await self._steps.begin(self._tasks, planned, on_disk=on_disk)
            put_off += [plan.claimed for plan in refused]
        # One that was taken over is left to its lease: given back, its next run would not know of the one before.
        again = {claimed.id: claim.token for claimed in put_off if not claimed.taken_over}
        await self._settler.give_back(again, delay, claim.lane)
        self._leases.drop((claimed.id, claim.token) for claimed in put_off)
        return kept

    def _decide(self, claimed: Claimed, token: int, loaded: Loaded[R]) -> Run[R, S, W] | Planned[R, S, W, V]:
        """A finished run, or a step to begin."""
        resource = loaded.resources.get(claimed.id)
        if resource is None:
            error = loaded.unreadable.get(claimed.id) or UndecodableState(
                f"{self._kind} {claimed.id}", "there is a schedule row but no such resource"
            )
            return self._attempt.missing(claimed, token, error)
        decision = self._attempt.decide(claimed, token, resource, loaded.now)
        if isinstance(decision, Step):
            return Planned(claimed=claimed, token=token, resource=resource, step=decision)
        return decision

    async def _load(self, claim: Taken) -> Loaded[R] | None:
        """Snapshots of the claim; None when the database is away, and then the leases run out."""
        ids = [row.id for row in claim.rows]
        try:
            with anyio.fail_after(_LOAD_SECONDS):
                return await self._io.load(ids)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("load.failed", kind=self._kind, rows=len(ids), error=str(error))
            self._leases.drop((id_, claim.token) for id_ in ids)
            return None
