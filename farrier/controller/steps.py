"""Steps: the runs that need the outside world, each a task of its own under its lease.

They are bounded in number, renewed while they last, cut short when a request comes that should not wait for a
reading step, and cut off when the process stops or the lease could not be renewed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Generic, NoReturn, TypeVar

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from farrier.controller.attempt import Attempt
from farrier.controller.backlog import SOONEST, Backlog
from farrier.controller.host import Core
from farrier.controller.settle import Settler
from farrier.controller.signal import Wakeup
from farrier.errors import DatabaseUnreachable, LeaseLost
from farrier.model.outcome import Step
from farrier.model.schedule import Claimed, Lane

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")

_log = structlog.stdlib.get_logger(__name__)

_NOW = timedelta(0)
_QUERY_SECONDS = 5.0
# Of what was not renewed: the next renewal of all others waits for it.
_LOOK_SECONDS = 1.0
# Share of the interval of renewals. Small: a lease passed over now has to last until the renewal after the next,
# in case the next fails.
_WORTH_RENEWING = 0.2
# Of all slots taken. One that is free for a moment while hundreds wait is not the end of waiting.
_ROOM = 0.5
# A storm of wakes asks the database about running steps no more often than this.
_ASK_AT_MOST_EVERY = 0.1


class Planned(msgspec.Struct, Generic[R, S, W, V], frozen=True, kw_only=True):
    """A run that was decided to need the outside world: on which claim, from which snapshot."""

    claimed: Claimed
    token: int
    resource: R
    step: Step[S, W, V]


class Steps(Generic[R, S, W, V]):
    """Everything of one kind that is waiting for an outside service."""

    def __init__(self, core: Core[R, S, W], attempt: Attempt[R, S, W, V], settler: Settler[R, S, W]) -> None:
        self._kind = core.kind
        self._io = core.io
        self._leases = core.leases
        self._config = core.host.config
        self._sink = core.host.sink
        self._clock = core.host.clock
        self._attempt = attempt
        self._settler = settler
        self._running = 0
        self._backlog = Backlog(core.host.clock)
        self._closed = False
        self._maybe_interrupted = Wakeup()

    async def begin(
        self, tasks: TaskGroup, planned: Sequence[Planned[R, S, W, V]], *, on_disk: bool
    ) -> tuple[list[Planned[R, S, W, V]], timedelta]:
        """Begin steps in `tasks`; answers those for which there is no room, or whose claim could not be confirmed, and
        how long to leave them.

        A claim does not wait for the disk, so a server that crashes may forget it and give the row to another. That is
        harmless for a decision, which its commit would refuse, but not for what a BMC is told: before a step acts, its
        claim is on disk. One that a commit made is so already, and only has to be fresh enough.
        """
        room = 0 if self._closed else max(0, self._config.max_in_flight - self._running)
        chosen = planned[:room]
        self._running += len(chosen)
        ours = {plan.claimed.id: plan.token for plan in chosen}
        confirmed = self._fresh(ours) if on_disk else await self._confirm(ours) or frozenset()
        self._running -= len(chosen) - len(confirmed)
        for plan in chosen:
            if plan.claimed.id in confirmed:
                tasks.start_soon(self._run, plan, name=f"{self._kind} {plan.claimed.id} {plan.step.name}")
        if not on_disk:  # whoever goes on had a slot a moment ago
            self._backlog.let_in(len(confirmed))
        return [plan for plan in planned if plan.claimed.id not in confirmed], self._until_room(len(planned) - room)

    def _fresh(self, ours: Mapping[int, int]) -> frozenset[int]:
        """Those with enough left of their lease: a commit of others may have been waited for meanwhile."""
        return frozenset(id_ for id_, token in ours.items() if self._leases.may_start(id_, token))

    def _until_room(self, without: int) -> timedelta:
        if without > 0 and not self._closed:
            return self._backlog.put_off(without)
        if self._running < self._config.max_in_flight * _ROOM:
            self._backlog.over()
        return SOONEST

    def close(self) -> None:
        """Begin no more steps; those that run go on."""
        self._closed = True

    def woken(self) -> None:
        """Something was asked for: perhaps of a resource whose step runs now."""
        self._maybe_interrupted.set("notify")

    async def renew(self) -> NoReturn:
        """Extend the leases of all that runs, for ever."""
        while True:
            await anyio.sleep(self._config.renew_every.total_seconds())
            await self._renew_once()

    async def interrupt(self) -> NoReturn:
        """Cut reading steps short for which a request waits, for ever."""
        while True:
            await self._maybe_interrupted.wait(self._config.poll_interval)
            await self._interrupt_once()
            await anyio.sleep(_ASK_AT_MOST_EVERY)

    async def _run(self, plan: Planned[R, S, W, V]) -> None:
        claimed, token, step = plan.claimed, plan.token, plan.step
        name = self._attempt.name_of(plan.resource)
        try:
            with structlog.contextvars.bound_contextvars(kind=self._kind, id=claimed.id, name=name):
                run = await self._attempt.act(claimed, token, plan.resource, step)
        except LeaseLost as lost:
            self._leases.drop([(claimed.id, token)])
            self._sink.lease_lost(self._kind)
            _log.warning("lease.lost", kind=self._kind, id=claimed.id, name=name, step=step.name, error=str(lost))
            return
        finally:
            self._running -= 1
        if run is None:
            await self._settler.give_back({claimed.id: token}, _NOW, Lane.WOKEN)
            self._leases.drop([(claimed.id, token)])
        else:
            await self._settler.submit([run])

    async def _interrupt_once(self) -> None:
        reading = self._leases.reading()
        if not reading:
            return
        try:
            with anyio.fail_after(_QUERY_SECONDS):
                self._leases.interrupt(await self._io.interrupted(reading))
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("interrupt.failed", kind=self._kind, error=str(error))

    async def _renew_once(self) -> None:
        ageing = self._leases.ageing(self._config.renew_every * _WORTH_RENEWING)
        renewed = await self._confirm(ageing)
        if renewed is not None and len(renewed) < len(ageing):
            await self._cut_off_lost({id_: token for id_, token in ageing.items() if id_ not in renewed})

    async def _cut_off_lost(self, doubtful: dict[int, int]) -> None:
        """Their rows are locked, and keep what is left of their leases, or somebody else runs them already."""
        try:
            with anyio.fail_after(_LOOK_SECONDS):
                self._leases.lost(await self._io.lost(doubtful), doubtful)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("renew.failed", kind=self._kind, rows=len(doubtful), error=str(error))

    async def _confirm(self, tokens: dict[int, int]) -> frozenset[int] | None:
        """Extend these leases, on disk; answers the ids that are still ours, or None if nobody can say."""
        if not tokens:
            return frozenset()
        sent_at = self._clock.monotonic()
        try:
            with anyio.fail_after(_QUERY_SECONDS):
                renewed = await self._io.renew(tokens)
        except (DatabaseUnreachable, TimeoutError) as error:
            _log.warning("renew.failed", kind=self._kind, rows=len(tokens), error=str(error))
            return None
        self._leases.renewed(renewed, sent_at)
        return renewed
