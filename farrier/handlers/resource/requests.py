"""Intents of simple kinds: oldest first, decoded, and refused with the states that would accept them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from farrier.errors import RefusedByModel
from farrier.model.kinds import KindSpec
from farrier.model.params import Params
from farrier.model.resource import Answer, Pending, Resource

P = TypeVar("P", bound=Params)


def accept(request: Pending, reason: str = "") -> Answer:
    """Accept the intent: it is begun or done in this commit."""
    return Answer(request.id, True, reason)


def reject(request: Pending, reason: str) -> Answer:
    """Reject the intent, with the reason."""
    return Answer(request.id, False, reason)


def params_of(request: Pending, type_: type[P]) -> P:
    """The parameters of an intent. The database checked the same rules. Raises RefusedByModel, whose `text` suits
    `reject`, if the rules have changed since."""
    try:
        return msgspec.convert(request.params, type_)
    except msgspec.ValidationError as error:
        raise RefusedByModel(f"{request.action}: {error}") from None


def sort(
    spec: KindSpec, resource: Resource, accepted_in: Mapping[str, Collection[str]]
) -> tuple[tuple[Pending, ...], tuple[Answer, ...]]:
    """The pending intents that this state accepts, oldest first, and rejections of the others. `accepted_in` maps each
    action to the states that accept it; an action that it lacks is never accepted."""
    fitting: list[Pending] = []
    refusals: list[Answer] = []
    for request in resource.requests:
        states = accepted_in.get(request.action, ())
        if resource.state in states:
            fitting.append(request)
        else:
            refusals.append(reject(request, _refusal(spec, resource, request.action, states)))
    return tuple(fitting), tuple(refusals)


def _refusal(spec: KindSpec, resource: Resource, action: str, states: Collection[str]) -> str:
    this = f"this {spec.noun}"
    if resource.state in spec.terminal:
        return f"{this} has ended"
    accepted = [state for state in spec.states if state in states]
    if not accepted:
        return f"{action} is not an action of any {spec.noun}"
    return f"{action} is accepted in state {' or '.join(accepted)}; {this} is {resource.state}"
