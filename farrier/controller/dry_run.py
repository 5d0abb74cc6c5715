"""Asks a handler how it would answer an intent. The handler decides as in a run, and its outcome is thrown away."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar, assert_never

from farrier.model.intents.preview import Foreseen, PreviewVerdict
from farrier.model.intents.requests import IntentStatus
from farrier.model.loop.outcome import Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.protocols import Kind, Snapshot, StateHandler

R = TypeVar("R", bound=Snapshot)
S = TypeVar("S")
W = TypeVar("W")
V = TypeVar("V")


def foresee(kind: Kind[R, S], handler: StateHandler[R, S, W, V], asked: R, intent: int, now: datetime) -> Foreseen:
    """Return the answer of the handler to the pending intent with this ID, as if the resource had no other pending
    intent."""
    alone: R = kind.asked_alone(asked, intent)
    decision = handler.handle(alone, now)
    match decision:
        case Step():
            return Foreseen(PreviewVerdict.DEPENDS, f"depends on a reading: {decision.name.replace('_', ' ')}")
        case Transition() | Update() | Wait() | DoNothing() | Deleted():
            for answer in kind.answers(alone, decision.writes):
                if answer.request == intent:
                    is_accepted = answer.verdict == IntentStatus.ACCEPTED
                    return Foreseen(PreviewVerdict.ACCEPTED if is_accepted else PreviewVerdict.REJECTED, answer.reason)
        case _ as never:
            assert_never(never)
    reason = "" if isinstance(decision, DoNothing | Deleted) else decision.reason
    return Foreseen(PreviewVerdict.DEPENDS, f"depends on a reading, or on the end of a wait: {reason}")
