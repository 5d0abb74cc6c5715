"""The parameters of an intent of a simple kind, and the two answers to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from farrier.errors import RefusedByModel
from farrier.model.intents.params import Params
from farrier.model.kinds.resource import Answer, Pending, Resource

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Resource)


class AnsweredResource(msgspec.Struct, Generic[R], frozen=True):
    """The resource after its intents, the answers to these intents, and an accepted deletion if there is one."""

    to: R
    answers: tuple[Answer, ...]
    deletion: Pending | None = None


def settle(resource: R, act: Callable[[R, Pending], R]) -> AnsweredResource[R]:
    """Answer the intents in order, up to the intent that begins the deletion; the next run answers the intents after
    it. `act` returns the resource after an intent. It raises ValueError or RefusedByModel with the reason for a
    refusal."""
    to, answers = resource, list[Answer]()
    for request in resource.requests:
        try:
            to = act(to, request)
        except (RefusedByModel, ValueError) as refusal:
            answers.append(reject(request, str(refusal)))
            continue
        answers.append(accept(request))
        if request.action == "delete":
            return AnsweredResource(to, tuple(answers), request)
    return AnsweredResource(to, tuple(answers))


def accept(request: Pending, reason: str = "") -> Answer:
    """Accept the intent: its action begins or is completed in this commit."""
    return Answer(request.id, True, reason)


def reject(request: Pending, reason: str) -> Answer:
    """Reject the intent, with the reason."""
    return Answer(request.id, False, reason)


def params_of(request: Pending, type_: type[P]) -> P:
    """Return the parameters of an intent. The database has already checked the same rules. If the rules have changed
    since, raises RefusedByModel; its `text` is suitable for `reject`."""
    try:
        return msgspec.convert(request.params, type_)
    except msgspec.ValidationError as error:
        raise RefusedByModel(f"{request.action}: {error}") from None
