"""A handler that receives only the intents that the resource's state accepts, according to the spec of its kind."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from typing_extensions import override

from farrier.handlers.resource.requests import reject
from farrier.model.intents.acceptance import Refused
from farrier.model.kinds.resource import Answer, Pending, Resource
from farrier.model.kinds.spec import KindSpec, check
from farrier.model.loop.outcome import Decision, Step, Transition, Wait
from farrier.model.loop.restores import Hold
from farrier.protocols import StateHandler

R = TypeVar("R", bound=Resource)


class Guarded(StateHandler[R, R, Any, Any]):
    """Makes the same decisions as `inner`, and rejects the intents that the state does not accept. The rejections are
    committed with the decision of `inner`. If this decision is a step, the run only commits the rejections, and the
    next run begins the step."""

    def __init__(self, spec: KindSpec, inner: StateHandler[R, R, Any, Any]) -> None:
        self._spec = spec
        self._inner = inner

    @override
    def handle(self, resource: R, now: datetime) -> Decision[R, Any, Any]:
        accepted, refusals = self._sorted(resource)
        return _with(refusals, self._inner.handle(accepted, now))

    @override
    def recover(self, resource: R, now: datetime, step: str) -> Decision[R, Any, Any]:
        accepted, refusals = self._sorted(resource)
        decision = self._inner.recover(accepted, now, step)
        # A run that only answers would be recorded as the end of the recovery, so the run after the step gives the
        # answers.
        return decision if isinstance(decision, Step) else _with(refusals, decision)

    @override
    def observe(self, resource: R, now: datetime, hold: Hold) -> Decision[R, Any, Any]:
        return self._inner.observe(resource.but(requests=()) if resource.requests else resource, now, hold)

    @override
    def after(self, resource: R, moved: Transition[R, Any], now: datetime) -> R | None:
        return self._inner.after(resource, moved, now)

    @override
    def confirmed(self, stored: R, remembered: R, now: datetime) -> R:
        return self._inner.confirmed(stored, remembered, now)

    def _sorted(self, resource: R) -> tuple[R, tuple[Answer, ...]]:
        """Return the resource with only the intents that its state accepts, and the rejections of all other intents."""
        accepted: list[Pending] = []
        refusals: list[Answer] = []
        for request in resource.requests:
            answer = check(self._spec, request.action, resource.state)
            if isinstance(answer, Refused):
                refusals.append(reject(request, answer.reason))
            else:
                accepted.append(request)
        if not refusals:
            return resource, ()
        return resource.but(requests=tuple(accepted)), tuple(refusals)


def _with(refusals: tuple[Answer, ...], decision: Decision[R, Any, Any]) -> Decision[R, Any, Any]:
    if not refusals:
        return decision
    if isinstance(decision, Step):
        return Wait(reason="answers an intent", requeue_after=timedelta(0), writes=refusals)
    return msgspec.structs.replace(decision, writes=(*refusals, *decision.writes))
