"""The parameters of an intent of a simple kind, and the two answers to it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from farrier.errors import RefusedByModel
from farrier.model.params import Params
from farrier.model.resource import Answer, Pending

P = TypeVar("P", bound=Params)


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
