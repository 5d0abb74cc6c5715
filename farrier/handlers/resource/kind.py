"""Implements `protocols.Kind` from a `KindSpec`, and the handler that receives only the intents that a resource's state
accepts, according to this spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec
from typing_extensions import override

from farrier.handlers.resource.requests import reject
from farrier.model.intents.acceptance import Refused
from farrier.model.kinds.measures import Sample
from farrier.model.kinds.resource import Answer, Pending, Resource
from farrier.model.kinds.spec import KindSpec, check, label
from farrier.model.loop.outcome import Change, Decision, Step, Wait
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import AnsweredIntent, LayerState
from farrier.protocols import Snapshot, StateHandler

R = TypeVar("R", bound=Resource)
T_contra = TypeVar("T_contra", bound=Snapshot, contravariant=True)
R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)


class LayeredKind(Generic[T_contra]):
    """Implements, from the spec of a kind, the methods of `protocols.Kind` that concern layers. A snapshot has a field
    for each layer column in the kind's table."""

    def __init__(self, spec: KindSpec) -> None:
        self.name = spec.name
        self.edges: Mapping[str, frozenset[tuple[str, str]]] = {each.name: each.pairs for each in spec.every_layer}
        first = next(iter(spec.every_layer))
        self._first, self._terminal = first.name, first.terminal
        self._columns = {each.name: f"{each.name}_entered_at" for each in spec.every_layer if not each.relation}

    def current_layers(self, resource: T_contra) -> Mapping[str, LayerState]:
        return {
            name: LayerState(getattr(resource, name), getattr(resource, since)) for name, since in self._columns.items()
        }

    def has_ended(self, resource: T_contra) -> bool:
        return getattr(resource, self._first) in self._terminal

    def target_layers(self, to: T_contra, /) -> Mapping[str, str]:
        return {name: getattr(to, name) for name in self._columns}

    def unwritten(self, _resource: T_contra, _to: T_contra, /) -> Sequence[str]:
        return ()


class ResourceKind(LayeredKind[R_contra]):
    """Implements `protocols.Kind` for kinds whose tables have the columns of `farrier.resources`. `kept` are the fields
    of the snapshot that a run must not change, because its commit does not write them."""

    def __init__(self, spec: KindSpec, *, kept: Sequence[str] = ()) -> None:
        super().__init__(spec)
        self._spec = spec
        self._kept = kept

    def guarded(self, handler: StateHandler[Any, Any, Any, Any]) -> Guarded[Any]:
        """Return the handler for the loop, which gets only the intents that the resource's state accepts."""
        return Guarded(self._spec, handler)

    @override
    def unwritten(self, resource: R_contra, to: R_contra, /) -> Sequence[str]:
        return [name for name in self._kept if getattr(resource, name) != getattr(to, name)]

    def label(self, resource: R_contra) -> tuple[str, str]:
        return label(resource.state)

    def asked_alone(self, resource: R_contra, intent: int, /) -> Any:
        return resource.but(requests=tuple(each for each in resource.requests if each.id == intent))

    def answers(self, resource: R_contra, writes: Sequence[object], /) -> Sequence[AnsweredIntent]:
        asked = {request.id: request for request in resource.requests}
        return [
            AnsweredIntent(
                write.request,
                asked[write.request].action,
                "accepted" if write.accepted else "rejected",
                write.reason,
                asked[write.request].requested_by,
            )
            for write in writes
            if isinstance(write, Answer) and write.request in asked
        ]

    def samples(self, _resource: R_contra, _to: R_contra, /) -> Sequence[Sample]:
        return ()  # the handler puts samples into its outcomes


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
    def after(self, resource: R, changed: Change[R, Any], now: datetime) -> R | None:
        return self._inner.after(resource, changed, now)

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
