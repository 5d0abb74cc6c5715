"""Requests as every simple kind treats them: oldest first, decoded, refused in words that say when they would do."""

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
    """It is begun or done in this commit."""
    return Answer(request.id, True, reason)


def reject(request: Pending, reason: str) -> Answer:
    """It is not done, and why."""
    return Answer(request.id, False, reason)


def params_of(request: Pending, type_: type[P]) -> P:
    """What a request asks for. The database checked the same rules; raises RefusedByModel, whose `text` is fit for
    `reject`, when they were others then."""
    try:
        return msgspec.convert(request.params, type_)
    except msgspec.ValidationError as error:
        raise RefusedByModel(f"{request.action}: {error}") from None


def sort(
    spec: KindSpec, resource: Resource, accepted_in: Mapping[str, Collection[str]]
) -> tuple[tuple[Pending, ...], tuple[Answer, ...]]:
    """Pending requests that this state accepts, oldest first, and refusals of the others. `accepted_in` says for each
    action in which states; an action that it lacks is accepted in none."""
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
