"""Whether a run may end where it is: memory may only say that there is nothing to do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias, TypeGuard

from farrier.model.outcome import DoNothing, Wait

Resting: TypeAlias = DoNothing[Any] | Wait[Any]

_AT_ONCE = timedelta(0)


def rests(decision: Any, before: Any) -> TypeGuard[Resting]:
    """Whether only a wake, or the passing of time, changes this decision; it writes nothing, and is stored as the one
    `before` it is."""
    kind = type(decision)
    if kind is Wait:
        is_stored = type(before) is Wait and decision.reason == before.reason and decision.error == before.error
        if not (decision.rests and is_stored):
            return False
    elif kind is not DoNothing or type(before) is not DoNothing:
        return False
    if decision.source != before.source:
        return False
    again: timedelta | None = decision.requeue_after
    return not decision.writes and not decision.samples and (again is None or again > _AT_ONCE)
