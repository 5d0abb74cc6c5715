"""Whether a run over a remembered snapshot may end there: memory may only say that there is nothing to do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeGuard

from farrier.model.outcome import DoNothing, Wait

_AT_ONCE = timedelta(0)


def rests(decision: object) -> TypeGuard[DoNothing[Any] | Wait[Any]]:
    """Whether only a wake, or the passing of time, changes this decision; it writes nothing."""
    kind = type(decision)
    if kind is not DoNothing and (kind is not Wait or not decision.rests):  # type: ignore[attr-defined]
        return False
    again: timedelta | None = decision.requeue_after  # type: ignore[attr-defined]
    return not decision.writes and not decision.samples and (again is None or again > _AT_ONCE)  # type: ignore[attr-defined]


def rests_as_before(decision: Any, before: Any) -> bool:
    """Whether a decision rests, and is stored as the one before it is, which rested."""
    resting = type(decision) is type(before) and decision.source == before.source and rests(decision)
    if not resting or type(decision) is DoNothing:
        return resting
    return bool(decision.reason == before.reason and decision.error == before.error)
