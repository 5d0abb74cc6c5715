"""One run of one resource: decide, perhaps act outside, and say how it ended. Commits nothing.

The only place of the loop that catches every exception: whatever a handler does costs its own run and no
other. What ended a step — its own limit, the lease, an interrupting request, the shutdown — is
told apart here.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar

import anyio
import msgspec
import structlog

from farrier.controller.lease import Leases
from farrier.controller.verdict import Assessor
from farrier.errors import FarrierError, HandlerTimeout, InternalError, LeaseLost
from farrier.model.outcome import Step
from farrier.model.schedule import Claimed, Finished
from farrier.protocols import Kind, StateHandler
from farrier.protocols.acting import acting_while

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")

_log = structlog.stdlib.get_logger(__name__)

# What a handler may raise at the cost of its own run only. Awaiting nothing, its decision cannot be cancelled
# from outside, so a cancellation that comes out of it is of its own making.
_ITS_OWN = (Exception, SystemExit)
_ITS_OWN_OR_CANCELLED = (*_ITS_OWN, asyncio.CancelledError)


class Run(msgspec.Struct, Generic[R, S, W], frozen=True):
    """How one run ended: what to commit, and what to publish once that is done."""

    finished: Finished[S, W]
    seconds: float
    resource: R | None
    error: str = ""


class _Required:
    """The lease that a step is to have. Once it was lost that ends the run, whatever the step makes of the error."""

    def __init__(self, require: Callable[[], None]) -> None:
        self._require = require
        self.lost: LeaseLost | None = None

    def require(self) -> None:
        try:
            self._require()
        except LeaseLost as lost:
            self.lost = lost
            raise


class Attempt(Generic[R, S, W, V]):
    """Runs the handler of one kind."""

    def __init__(
        self,
        kind: Kind[R, S],
        handler: StateHandler[R, S, W, V],
        assessor: Assessor[R, S, W],
        *,
        services: V,
        leases: Leases,
        max_handling_time: timedelta,
    ) -> None:
        self._kind = kind
        self._handler = handler
        self._assessor = assessor
        self._services = services
        self._leases = leases
        self._limit = max_handling_time

    def name_of(self, resource: R) -> str:
        """What the log calls it."""
        return self._kind.called(resource)

    def decide(self, claimed: Claimed, token: int, resource: R, now: datetime) -> Run[R, S, W] | Step[S, W, V]:
        """The synchronous part: all of a run that needs nothing from outside."""
        started = time.perf_counter()
        handle = self._handler.recover if claimed.taken_over else self._handler.handle
        try:
            decision = handle(resource, now)
            if isinstance(decision, Step):
                return decision
            finished = self._assessor.finish(claimed, token, resource, decision)
        except _ITS_OWN_OR_CANCELLED as error:
            return self._failed(claimed, token, resource, error, started)
        return Run(finished, time.perf_counter() - started, resource)

    async def act(self, claimed: Claimed, token: int, resource: R, step: Step[S, W, V]) -> Run[R, S, W] | None:
        """Await a step under its lease. None when it was interrupted, or the process stops, and the step says nothing
        of that: give the row back. Raises `LeaseLost` when the lease ended first: leave the row alone."""
        started = time.perf_counter()
        limit = min(step.deadline, self._limit)
        outcome: object = None
        claim = _Required(partial(self._leases.require, claimed.id, token))
        with anyio.CancelScope() as scope:
            self._leases.enter(claimed.id, token, scope, limit=limit, reads_only=step.reads_only)
            try:
                with acting_while(claim.require):
                    outcome = await step.act(self._services)
            except _ITS_OWN as error:
                outcome = error
            except anyio.get_cancelled_exc_class():
                if scope.cancel_called or anyio.current_effective_deadline() == -math.inf:
                    raise  # somebody cancelled it; otherwise it did so to itself
                outcome = InternalError("the step cancelled itself")
            finally:
                self._leases.leave(claimed.id, token)
        if claim.lost is not None:
            raise claim.lost
        if scope.cancelled_caught:
            if self._leases.interrupted(claimed.id, token):
                if step.if_cut is None:
                    return None
                outcome = step.if_cut
            elif self._leases.expired(claimed.id, token):
                raise LeaseLost(f"the lease of {self._kind.name} {claimed.id} ended during {step.name}")
            else:
                outcome = HandlerTimeout(limit)
        run = self._conclude(claimed, token, resource, outcome, started)
        if not run.error or step.if_cut is None:
            return run
        kept = self._conclude(claimed, token, resource, step.if_cut, started)
        return run if kept.error else _telling(kept, run)

    def missing(self, claimed: Claimed, token: int, error: FarrierError) -> Run[R, S, W]:
        """A row whose resource could not be read."""
        finished: Finished[S, W] = self._assessor.fail(claimed, token, None, error)
        return Run(finished, 0.0, None, error.label)

    def _conclude(self, claimed: Claimed, token: int, resource: R, outcome: object, started: float) -> Run[R, S, W]:
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            finished = self._assessor.finish(claimed, token, resource, outcome)
        except _ITS_OWN as error:
            return self._failed(claimed, token, resource, error, started)
        return Run(finished, time.perf_counter() - started, resource)

    def _failed(self, claimed: Claimed, token: int, resource: R, error: BaseException, started: float) -> Run[R, S, W]:
        if not isinstance(error, FarrierError):
            name = self.name_of(resource)
            _log.error("handler.crashed", kind=self._kind.name, id=claimed.id, name=name, exc_info=error)
            error = InternalError(f"{type(error).__name__} in the handler")
        _, version = self._kind.identify(resource)
        finished: Finished[S, W] = self._assessor.fail(claimed, token, version, error)
        return Run(finished, time.perf_counter() - started, resource, error.label)


def _telling(kept: Run[R, S, W], failed: Run[R, S, W]) -> Run[R, S, W]:
    """What a step that `failed` wants `kept` of it, told and counted as the error it is."""
    error = failed.finished
    finished = msgspec.structs.replace(
        kept.finished, outcome=error.outcome, record=error.record, outcome_key=error.outcome_key
    )
    return msgspec.structs.replace(kept, finished=finished, error=failed.error)
