"""Converts an outcome to a run that can be committed. Pure.

The validator checks that the handler returned an outcome, that every change of a layer is an edge of the model, that an
`Update` changes no layer, and that the commit writes every other change. The validator computes when the resource runs
next and whether its stored outcome changes.
"""

from __future__ import annotations

import random
import zlib
from datetime import timedelta
from functools import lru_cache
from typing import Generic, TypeGuard

from farrier.config import ControllerConfig
from farrier.errors import FarrierError, HandlerGarbage, IllegalEdge, InternalError
from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import (
    Deleted,
    DoNothing,
    Record,
    Resting,
    Transition,
    Update,
    Wait,
    describe,
    only_confirms,
)
from farrier.model.loop.runs import Due, Finished, Move, Turn
from farrier.protocols import Kind
from farrier.protocols.loop import R, S, W

_AT_ONCE = timedelta(0)
_OUTCOMES = (Transition, Update, Wait, DoNothing, Deleted)
# The pause of a resource that has too often requested an immediate rerun without a transition.
_SPINNING = timedelta(seconds=1)


@lru_cache(maxsize=65536)
def _key(record: Record) -> int:
    """Return a checksum of a record as a signed 32-bit integer. The checksum is the same in every process."""
    text = "\0".join((record.outcome, record.reason, record.source, record.error))
    return zlib.crc32(text.encode()) - (1 << 31)


def _storable(text: str) -> str:
    """Return the text of an error without the characters that the database cannot store."""
    return text.replace("\0", "\ufffd").encode(errors="backslashreplace").decode()


def recorded(error: FarrierError) -> Record:
    """Return the stored form of an error in which a run ended."""
    detail = "see the log" if isinstance(error, InternalError) else _storable(str(error))
    return Record("error", detail, "", error.label)


class OutcomeValidator(Generic[R, S, W]):
    """Converts the outcomes of one kind to `Finished` runs."""

    def __init__(self, kind: Kind[R, S], config: ControllerConfig) -> None:
        self._kind = kind
        self._config = config
        self._period = config.period.total_seconds()

    def finish(self, turn: Turn, resource: R, outcome: object, then: Resting | None = None) -> Finished[S, W]:
        """Validate an outcome, and return the run that is to be committed. After a change, `then` is the next
        decision, made from the new state. `then` is set only if this decision is known, and is to wait or to do
        nothing. Raises `HandlerGarbage` or `IllegalEdge`."""
        if not isinstance(outcome, _OUTCOMES):
            raise HandlerGarbage(f"{type(outcome).__name__}, which is neither an outcome nor a step")
        samples: object = outcome.samples
        if samples and not (isinstance(samples, tuple) and all(isinstance(each, Sample) for each in samples)):
            raise HandlerGarbage("samples that are not a tuple of Sample")
        to: S | None = outcome.to if isinstance(outcome, (Transition, Update)) else None
        moves = () if to is None else self._moves(resource, to)
        if moves and isinstance(outcome, Update):
            raise HandlerGarbage(f"an Update at {outcome.source} that changes a layer; use a Transition")
        if to is not None and (lost := self._kind.unwritten(resource, to)):
            raise HandlerGarbage(
                f"an outcome at {outcome.source} that changes {', '.join(lost)}, but no commit would write this "
                "change; a run may change only layers, last_error, and the fields in `columns` of the Extension"
            )
        reason, cause, source, again = "", "", "", None
        if isinstance(outcome, Transition):
            if not moves:
                raise HandlerGarbage(f"a Transition at {outcome.source} that changes no layer; use an Update")
            reason, cause, source = outcome.reason, outcome.cause, outcome.source
            again = _AT_ONCE if then is None else then.requeue_after
        elif not isinstance(outcome, Deleted):
            again = outcome.requeue_after if then is None else then.requeue_after
        elif not self._kind.has_ended(resource):
            raise HandlerGarbage(f"a Deleted at {outcome.source} although the state of the resource is not terminal")
        # A resource that always requests an immediate rerun has the same limit as a chain of transitions.
        at_once = again is not None and again <= _AT_ONCE
        tired = at_once and turn.reruns >= self._config.rerun_limit
        record = describe(outcome)
        stored = record if then is None else describe(then)
        key = _key(stored)
        is_quiet = isinstance(outcome, Deleted) or (isinstance(outcome, Update) and outcome.quiet)
        return Finished(
            id=turn.id,
            epoch=turn.epoch,
            commit_id=turn.commit_id,
            wakes=turn.wakes,
            version=resource.version,
            due=Due.NEVER if isinstance(outcome, Deleted) else Due.RERUN if at_once and not tired else Due.PERIODIC,
            limited=tired,
            outcome=record.outcome,
            delay=self.delay(_SPINNING if tired and not moves else again),
            to=to,
            was=None if to is None else resource,
            moves=moves,
            writes=outcome.writes,
            samples=outcome.samples,
            record=None if is_quiet or key == turn.outcome_key else stored,
            outcome_key=key,
            reason=reason,
            cause=cause,
            source=source,
        )

    def confirms(self, outcome: object, resource: R) -> TypeGuard[Update[S, W]]:
        """Return whether the outcome is an update that may stay in memory. Any other outcome goes through `finish`."""
        if not only_confirms(outcome):
            return False
        places = {layer: place.value for layer, place in self._kind.current_layers(resource).items()}
        return self._kind.target_layers(outcome.to) == places and not self._kind.unwritten(resource, outcome.to)

    def fail(self, turn: Turn, version: int | None, record: Record) -> Finished[S, W]:
        """Return the run that commits the record of an error. The record is stored and shown like an outcome, and the
        resource is retried after the period."""
        key = _key(record)
        return Finished(
            id=turn.id,
            epoch=turn.epoch,
            commit_id=turn.commit_id,
            wakes=turn.wakes,
            version=version,
            due=Due.PERIODIC,
            outcome=record.outcome,
            delay=self.delay(None),
            record=None if key == turn.outcome_key else record,
            outcome_key=key,
        )

    def _moves(self, resource: R, to: S) -> tuple[Move, ...]:
        """Return the changes of layers that the outcome makes. Raises `IllegalEdge` if a change follows no edge."""
        places = self._kind.current_layers(resource)
        moves = []
        for layer, value in self._kind.target_layers(to).items():
            place = places.get(layer)
            if place is None:
                moves.append(Move(layer, None, value, None))
            elif place.value != value:
                if (place.value, value) not in self._kind.edges.get(layer, frozenset()):
                    raise IllegalEdge(kind=self._kind.name, layer=layer, source=place.value, target=value)
                moves.append(Move(layer, place.value, value, place.entered_at))
        return tuple(moves)

    def delay(self, requeue_after: timedelta | None) -> timedelta:
        """Return the period with its jitter, or `requeue_after` if it is shorter."""
        seconds = self._period * (1 + self._config.jitter * (2 * random.random() - 1))
        if requeue_after is not None:
            seconds = min(seconds, max(requeue_after.total_seconds(), 0.0))
        return timedelta(0, seconds)
