"""One run of one resource. The run decides, calls outside services if the decision is a step, and returns the result.
It commits nothing.

Only this module of the loop catches every exception, so a fault of a handler affects only one run. The module
distinguishes why a step ended: its deadline, a lost lease, an interrupting intent, or the shutdown.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from functools import partial
from types import coroutine
from typing import Any, Generic

import anyio
import msgspec
import structlog

from farrier.config import ControllerConfig
from farrier.controller.agenda import AgendaEntry
from farrier.controller.outcome_validator import OutcomeValidator, recorded
from farrier.errors import FarrierError, HandlerGarbage, HandlerTimeout, HeldAfterRestore, InternalError, LeaseLost
from farrier.model.loop.outcome import Decision, Record, Resting, Step, Transition, Update, Wait, rests, waits
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import Finished, Turn
from farrier.protocols import Kind, StateHandler
from farrier.protocols.loop import R, S, V, W
from farrier.protocols.permit import acting_while

_log = structlog.stdlib.get_logger(__name__)

# Exceptions of a handler that do not affect other runs. A decision awaits nothing, so only the handler itself can have
# raised a cancellation.
_ITS_OWN = (Exception, SystemExit)
_ITS_OWN_OR_CANCELLED = (*_ITS_OWN, asyncio.CancelledError)
_AT_ONCE = timedelta(0)
# The time, in seconds, in which a step has to end after its deadline has cancelled it.
_ENDS_WITHIN = 5.0

# If a part of a run blocks all other tasks for more than this number of seconds, the part is logged. Longer parts
# endanger the lease, which the process has to renew within six seconds.
BLOCKED = 1.0


class Run(msgspec.Struct, Generic[R, S, W]):
    """A run that ended: the data to commit, and the data to publish after the commit. `rests_on` is the snapshot after
    the commit, together with the next decision, which the handler made from that snapshot. `rests_on` is set only if
    this decision is to do nothing. `due_at` is when the resource runs again, by this process' clock. `recovers` is the
    step from which the run failed to recover. `error` is the record of the error in which the run ended; the run
    commits this record only if the outcome differs from the previous one."""

    finished: Finished[S, W]
    seconds: float
    resource: R | None
    error: Record | None = None
    rests_on: tuple[R, Resting] | None = None
    due_at: float = 0.0
    recovers: str | None = None

    @property
    def name(self) -> str | None:
        """The name of the resource, or None if the resource could not be read."""
        return None if self.resource is None else self.resource.name


class Acting(Generic[R, S, W, V]):
    """A step that a run on `entry.snapshot` decided on. Other tasks end the step by `cancel` and `interrupt`."""

    def __init__(self, entry: AgendaEntry[R], turn: Turn, step: Step[S, W, V], may_act: Callable[[], bool]) -> None:
        self.entry = entry
        self.turn = turn
        self.step = step
        self._may_act = may_act
        self.scope = anyio.CancelScope()
        self.interrupted = False
        self.lost: LeaseLost | None = None

    def interrupt(self) -> None:
        """End the step, because an intent must not wait for it or because the process stops."""
        self.interrupted = True
        self.scope.cancel()

    def cancel(self) -> None:
        """End the step, because the process may no longer act on the resource."""
        self.lost = self.lost or LeaseLost("the process lost its lease before the step ended")
        self.scope.cancel()

    def may_begin(self) -> bool:
        """Return whether the step may begin: neither `interrupt` nor `cancel` was called since it was planned, and the
        process may act."""
        return not self.interrupted and self.lost is None and self._may_act()

    def require(self) -> None:
        """Raise `LeaseLost` if the step must not act now. The run then ends, even if the step catches this error. Raise
        `HeldAfterRestore` for a held resource, for which no step may change anything."""
        if self.turn.hold is not None:
            raise HeldAfterRestore
        if self.lost is None and not self._may_act():
            self.lost = LeaseLost("the process lost its lease before the step acted; nothing was sent")
        if self.lost is not None:
            raise self.lost


class Runner(Generic[R, S, W, V]):
    """Runs the handler of one kind."""

    def __init__(
        self,
        kind: Kind[R, S],
        handler: StateHandler[R, S, W, V],
        config: ControllerConfig,
        *,
        services: V,
    ) -> None:
        self._kind = kind
        self._handler = handler
        self._validator: OutcomeValidator[R, S, W] = OutcomeValidator(kind, config)
        self._services = services
        self._limit = config.max_handling_time
        self._idle: dict[str, Resting] = {}  # by source line

    def remembered(
        self, resource: R, now: datetime, before: Resting | None, hold: Hold | None = None
    ) -> Resting | Step[S, W, V] | None:
        """Return the decision from a snapshot in memory, if it is to do nothing and equals the previous decision
        `before`, or if it is a step that only observes. Returns None for any other decision, and if the handler raises;
        the run on a fresh snapshot then acts, or reports the error."""
        try:
            decision = self._handler.handle(resource, now) if hold is None else self._observed(resource, now, hold)
            if rests(decision, before):
                return decision
            return decision if type(decision) is Step and decision.observes and hold is None else None
        except _ITS_OWN_OR_CANCELLED:
            return None

    def _observed(self, resource: R, now: datetime, hold: Hold) -> Decision[S, W, V]:
        """Return the decision for a resource that is held after a restore. It answers no intent and continues no
        workflow. If its step nevertheless tries to send a change, `Acting.require` refuses the request. Raises
        `HandlerGarbage` for a step that does not only read."""
        decision = self._handler.observe(resource, now, hold)
        if isinstance(decision, Step) and not decision.reads_only:
            raise HandlerGarbage(
                f"step {decision.name} for a resource that is held after a restore; expected a step that only reads"
            )
        return decision

    def confirmed(self, stored: R, remembered: R, now: datetime) -> R:
        """Return the loaded snapshot, updated with the confirmations that are only in memory. If the handler raises,
        return the loaded snapshot unchanged."""
        try:
            return self._handler.confirmed(stored, remembered, now)
        except _ITS_OWN_OR_CANCELLED:
            return stored

    def decide(self, turn: Turn, resource: R, now: datetime) -> Run[R, S, W] | Update[S, W] | Step[S, W, V]:
        """Decide from a fresh snapshot, without any I/O. Returns the run, the update if it only confirms the snapshot,
        or the step."""
        started = time.perf_counter()
        try:
            if turn.hold is not None:
                decision = self._observed(resource, now, turn.hold)
            elif turn.recovers is None:
                decision = self._handler.handle(resource, now)
            else:
                decision = self._handler.recover(resource, now, turn.recovers)
            if isinstance(decision, Step):
                return decision
            if self._validator.confirms(decision, resource):
                return decision
            then = self._then(resource, decision, now, turn.hold)
            finished = self._validator.finish(turn, resource, decision, None if then is None else then[1])
        except _ITS_OWN_OR_CANCELLED as error:
            run = self._failed(turn, resource, error, started)
            run.recovers = turn.recovers
            return run
        rests_on = (then[0], self._shared(then[1])) if then is not None and rests(then[1], then[1]) else None
        return Run(finished, time.perf_counter() - started, resource, rests_on=rests_on)

    def _shared(self, outcome: Resting) -> Resting:
        """Return one shared outcome for all idle resources whose outcome comes from the same source line. Later runs
        compare only the line. Without sharing, a million outcomes would take 100 MB."""
        return outcome if type(outcome) is Wait else self._idle.setdefault(outcome.source, outcome)

    def _then(self, resource: R, decision: object, now: datetime, hold: Hold | None) -> tuple[R, Resting] | None:
        """If the resource waits or rests after the commit of `decision`, return the snapshot after the commit, together
        with the next decision. Otherwise return None, also if that snapshot cannot be computed."""
        if isinstance(decision, (Transition, Update)):
            if hold is not None or (
                isinstance(decision, Update) and (decision.quiet or decision.requeue_after != _AT_ONCE)
            ):
                return None  # the resource does not run again at once
            try:
                after = self._handler.after(resource, decision, now)
                if after is None:
                    return None
                resource, decision = after, self._handler.handle(after, now)
            except _ITS_OWN_OR_CANCELLED:  # the change is committed, and the next run loads the resource
                return None
        return (resource, decision) if waits(decision) else None

    async def act(self, acting: Acting[R, S, W, V], resource: R) -> Run[R, S, W] | Update[S, W] | None:
        """Await the step, which was decided from this snapshot, and return the resulting run, or the update if it only
        confirms the snapshot. Returns None if the step was interrupted and has no `if_interrupted` outcome; the
        resource is then run again. Raises `LeaseLost` if the process lost its right to act; nothing is then
        committed."""
        started = time.perf_counter()
        turn, step = acting.turn, acting.step
        limit = min(step.deadline, self._limit)
        outcome: object = None
        late = limit.total_seconds() + _ENDS_WITHIN
        overdue = asyncio.get_running_loop().call_later(late, self._overdue, acting, resource, late)
        try:
            with acting.scope:
                acting.scope.deadline = anyio.current_time() + limit.total_seconds()
                outcome = await self._awaited(acting, resource)
        finally:
            overdue.cancel()
        if acting.lost is not None:
            raise acting.lost
        if acting.scope.cancelled_caught:
            if not acting.interrupted:
                outcome = HandlerTimeout(step.name, limit)
            else:
                outcome = self._instead(step.when_interrupted)
            if outcome is None:
                return None
        run = self._conclude(turn, resource, outcome, started)
        if isinstance(run, Update):
            return run
        raised = isinstance(outcome, Exception) and not isinstance(outcome, HandlerTimeout)
        if run.error is None:
            return run
        instead = self._instead(step.when_failed if raised else step.when_interrupted)
        if instead is None:
            return run
        kept = self._conclude(turn, resource, instead, started)
        return run if isinstance(kept, Update) or kept.error is not None else _with_error(kept, run)

    @staticmethod
    def _instead(outcome: Callable[[], object]) -> object:
        """Return the outcome that a step has for its interruption or failure, or the error that it raised."""
        try:
            return outcome()
        except _ITS_OWN as error:
            return error

    async def _awaited(self, acting: Acting[R, S, W, V], resource: R) -> object:
        """Await the step, and return its outcome or its error. Raises a cancellation from outside."""
        try:
            with acting_while(acting.require):
                work = acting.step.act(self._services)
                return await watched(work, partial(self._blocked, acting, resource))
        except _ITS_OWN as error:
            return error
        except anyio.get_cancelled_exc_class():
            if acting.scope.cancel_called or anyio.current_effective_deadline() == -math.inf:
                raise
            return InternalError("the step cancelled itself")

    def _blocked(self, acting: Acting[R, S, W, V], resource: R, seconds: float) -> None:
        """Log a step that blocked all other tasks of the process."""
        kind, name = self._kind.name, resource.name
        _log.warning(
            "step.blocked", kind=kind, id=acting.turn.id, name=name, step=acting.step.name, seconds=round(seconds, 1)
        )

    def _overdue(self, acting: Acting[R, S, W, V], resource: R, seconds: float) -> None:
        """Log a step that has not ended although its deadline has cancelled it."""
        kind, name = self._kind.name, resource.name
        _log.warning("step.overdue", kind=kind, id=acting.turn.id, name=name, step=acting.step.name, seconds=seconds)

    def delay(self, requeue_after: timedelta | None) -> timedelta:
        """Return the period with its jitter, or `requeue_after` if it is shorter."""
        return self._validator.delay(requeue_after)

    def missing(self, turn: Turn, error: FarrierError) -> Run[R, S, W]:
        """Return the failed run of a resource that could not be read."""
        record = recorded(error)
        finished: Finished[S, W] = self._validator.fail(turn, None, record)
        return Run(finished, 0.0, None, record, recovers=turn.recovers)

    def _conclude(self, turn: Turn, resource: R, outcome: object, started: float) -> Run[R, S, W] | Update[S, W]:
        """Return the run that commits the result of a step, or the update if it only confirms the snapshot."""
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            if self._validator.confirms(outcome, resource):
                return outcome
            finished = self._validator.finish(turn, resource, outcome)
        except _ITS_OWN as error:
            return self._failed(turn, resource, error, started)
        return Run(finished, time.perf_counter() - started, resource)

    def _failed(self, turn: Turn, resource: R, error: BaseException, started: float) -> Run[R, S, W]:
        if isinstance(error, InternalError) or not isinstance(error, FarrierError):
            _log.error("handler.crashed", kind=self._kind.name, id=turn.id, name=resource.name, exc_info=error)
        if not isinstance(error, FarrierError):
            error = InternalError(f"{type(error).__name__} in the handler")
        finished: Finished[S, W]
        try:
            record = recorded(error)
            finished = self._validator.fail(turn, resource.version, record)
        except _ITS_OWN as unreadable:
            _log.error("handler.crashed", kind=self._kind.name, id=turn.id, name=resource.name, exc_info=unreadable)
            record = recorded(InternalError(f"{type(error).__name__}, whose text or label cannot be read"))
            finished = self._validator.fail(turn, resource.version, record)
        return Run(finished, time.perf_counter() - started, resource, record)


def _with_error(kept: Run[R, S, W], failed: Run[R, S, W]) -> Run[R, S, W]:
    """Return the run of a failed step: it commits the state and writes of `kept`, and the error of `failed`."""
    error = failed.finished
    finished = msgspec.structs.replace(
        kept.finished, outcome=error.outcome, record=error.record, outcome_key=error.outcome_key
    )
    return msgspec.structs.replace(kept, finished=finished, error=failed.error)


@coroutine
def watched(work: Awaitable[object], stalled: Callable[[float], None]) -> Generator[Any, Any, object]:
    """Await `work` and return its result. If a part between two awaits takes longer than `BLOCKED`, call `stalled` with
    the duration of this part in seconds. Tasks that the work starts are not measured."""
    parts = _awaited(work)
    resume: Callable[[Any], Any] = parts.send
    value: Any = None
    while True:
        began = time.perf_counter()
        try:
            waits_for = resume(value)
        except StopIteration as end:
            return end.value
        finally:
            seconds = time.perf_counter() - began
            if seconds > BLOCKED:
                stalled(seconds)
        try:
            resume, value = parts.send, (yield waits_for)
        except BaseException as error:  # a cancellation, which the work itself has to receive
            resume, value = parts.throw, error


async def _awaited(work: Awaitable[object]) -> object:
    return await work


def log_blocked(kind: str, entry: AgendaEntry[Any], seconds: float) -> None:
    """Log a decision that blocked everything else in this process, even the renewal of its row."""
    name = None if entry.snapshot is None else entry.snapshot.name
    _log.warning("handler.blocked", kind=kind, id=entry.id, name=name, seconds=round(seconds, 1))
