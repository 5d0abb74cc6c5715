"""Answers questions how handlers would answer intents, about the resources of the shards that this process owns. A
handler decides as in a run, and its outcome is thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn, assert_never

import anyio
import structlog

from farrier.controller.host import LoopContext, asked
from farrier.controller.signal import Wakeup
from farrier.errors import DatabaseUnreachable, FarrierError
from farrier.model.intents.preview import Foreseen, PreviewVerdict, Question
from farrier.model.intents.requests import IntentStatus
from farrier.model.loop import restores
from farrier.model.loop.outcome import Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.protocols import Kind, Questions, StateHandler
from farrier.protocols.loop import R, S, V, W

_log = structlog.stdlib.get_logger(__name__)

# Seconds between two polls. A question is announced by a notification; a poll finds it if the notification is lost.
_POLL_EVERY = 1.0
_QUERY_SECONDS = 5.0
# How many questions are answered at a time, so that a client with many does not keep others waiting.
_AT_ONCE = 50


class Foreseer:
    """Answers questions of clients. `kinds` are the kinds that this process runs, with their handlers."""

    def __init__(
        self,
        questions: Questions,
        kinds: Sequence[tuple[Kind[Any, Any], StateHandler[Any, Any, Any, Any]]],
        host: LoopContext,
    ) -> None:
        self._questions = questions
        self._kinds = kinds
        self._host = host
        self._asked = Wakeup()

    def ring(self) -> None:
        """Look for questions now. Never blocks."""
        self._asked.set()

    async def run(self) -> NoReturn:
        """Answer questions until cancelled."""
        while True:
            await self._asked.wait(_POLL_EVERY)
            for kind, handler in self._kinds:
                with asked(_QUERY_SECONDS, lambda error: _log.warning("questions.failed", error=error)):
                    while await self._answer(kind, handler):
                        pass

    async def _answer(self, kind: Kind[Any, Any], handler: StateHandler[Any, Any, Any, Any]) -> bool:
        """Answer some open questions of a kind. Returns whether more may be open."""
        shards = [shard for name, shard in self._host.ownership.held if name == kind.name]
        if not shards or not self._host.may_act():
            return False
        found = await self._questions.open(kind.name, shards, _AT_ONCE)
        if found:
            await self._questions.answer({each.id: await self._foreseen(kind, handler, each) for each in found})
        await anyio.lowlevel.checkpoint()
        return len(found) == _AT_ONCE

    async def _foreseen(
        self, kind: Kind[Any, Any], handler: StateHandler[Any, Any, Any, Any], question: Question
    ) -> Foreseen:
        try:
            posed = await self._questions.load(kind.name, question)
            if posed.held_since is not None:  # a held resource answers no intent
                return Foreseen(PreviewVerdict.DEPENDS, restores.until_lifted(posed.held_since))
            return foresee(kind, handler, posed.resource, posed.intent, posed.now)
        except DatabaseUnreachable:
            raise
        except FarrierError as error:  # the database refuses the intent, or the snapshot cannot be read
            return Foreseen(PreviewVerdict.REJECTED, str(error))


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
