"""Decides for a resource that is held after a restore: it reads the outside services, and changes nothing in them.

This is the only place in the loop that knows holds. A held resource runs `StateHandler.observe` instead of `handle`, so
it answers no intent and continues no workflow. A step that could change something is refused before it begins. If a
step nevertheless tries to send a change, `Acting.require` refuses this request.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from farrier.errors import HandlerGarbage
from farrier.model.loop.outcome import Decision, Step
from farrier.model.loop.restores import Hold
from farrier.protocols import Snapshot, StateHandler

R = TypeVar("R", bound=Snapshot)
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")


def observe(handler: StateHandler[R, S, W, V], resource: R, now: datetime, hold: Hold) -> Decision[S, W, V]:
    """Return the decision of the handler for a held resource. Raises `HandlerGarbage` for a step that does not only
    read."""
    decision = handler.observe(resource, now, hold)
    if isinstance(decision, Step) and not decision.reads_only:
        raise HandlerGarbage(
            f"step {decision.name} for a resource that is held after a restore; expected a step that only reads"
        )
    return decision
