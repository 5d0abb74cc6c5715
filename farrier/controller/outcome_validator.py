"""From a decision to what is committed: the pure part of a run.

Checks that a handler returned an outcome at all, that every layer it moves takes an edge the model has, and
that an `Update` moves none; works out when the resource runs next and whether its stored outcome changed.
"""

from __future__ import annotations

import random
import zlib
from datetime import timedelta
from functools import lru_cache
from typing import Generic, TypeVar

from farrier.config import ControllerConfig
from farrier.controller.rest import Resting
from farrier.errors import FarrierError, HandlerGarbage, IllegalEdge, InternalError
from farrier.model.measures import Sample
from farrier.model.outcome import (
    AnyOutcome,
    Deleted,
    DoNothing,
    Record,
    Transition,
    Update,
    Wait,
    describe,
)
from farrier.model.runs import Due, Finished, Move, Turn
from farrier.protocols import Kind

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")


@lru_cache(maxsize=65536)
def _key(record: Record) -> int:
    """Checksum of a record, the same in every process, as a signed 32-bit integer."""
    text = "\0".join((record.outcome, record.reason, record.source, record.error))
    return zlib.crc32(text.encode()) - (1 << 31)


# A resource that stays where it is and still wants to look again at once has spun by then. One that moves gets
# somewhere, and is let through.
_SPINNING = timedelta(seconds=1)


def _samples(outcome: AnyOutcome) -> tuple[Sample, ...]:
    """The samples of an outcome, which must be a tuple of them."""
    samples: object = outcome.samples
    if samples and not (isinstance(samples, tuple) and all(isinstance(each, Sample) for each in samples)):
        raise HandlerGarbage("samples that are no tuple of Sample")
    return outcome.samples


class OutcomeValidator(Generic[R, S, W]):
    """Turns the outcomes of one kind into `Finished` runs."""

    def __init__(self, kind: Kind[R, S], config: ControllerConfig) -> None:
        self._kind = kind
        self._config = config
        self._period = config.period.total_seconds()

    def finish(self, turn: Turn, resource: R, outcome: object, then: Resting | None = None) -> Finished[S, W]:
        """The run as it is to be committed; a transition with what is decided `then`, if that is known and rests.
        Raises `HandlerGarbage` or `IllegalEdge`."""
        match outcome:
            case Wait() | DoNothing():
                return self._stayed(turn, resource, outcome, to=None)
            case Transition():
                return self._moved(turn, resource, outcome, then)
            case Update():
                if self._moves(resource, outcome.to):
                    raise HandlerGarbage(f"an Update at {outcome.source} that moves a layer; that takes a Transition")
                return self._stayed(turn, resource, outcome, to=outcome.to)
            case Deleted():
                _, version = self._kind.identify(resource)
                return Finished(
                    id=turn.id,
                    epoch=turn.epoch,
                    wakes=turn.wakes,
                    version=version,
                    due=Due.NEVER,
                    outcome="deleted",
                    writes=outcome.writes,
                    samples=_samples(outcome),
                )
            case _:
                raise HandlerGarbage(f"{type(outcome).__name__}, which is neither an outcome nor a step")

    def fail(self, turn: Turn, version: int | None, error: FarrierError) -> Finished[S, W]:
        """A run that ended in `error`: stored and shown like any outcome, tried again next period."""
        detail = "see the log" if isinstance(error, InternalError) else str(error)
        record = Record("error", detail, "", error.label)
        key = _key(record)
        return Finished(
            id=turn.id,
            epoch=turn.epoch,
            wakes=turn.wakes,
            version=version,
            due=Due.PERIODIC,
            outcome="error",
            delay=self._delay(None),
            record=None if key == turn.outcome_key else record,
            outcome_key=key,
        )

    def _moved(self, turn: Turn, resource: R, outcome: Transition[S, W], then: Resting | None) -> Finished[S, W]:
        """The run of an outcome that moves a layer."""
        moves = self._moves(resource, outcome.to)
        if not moves:
            raise HandlerGarbage(f"a Transition at {outcome.source} that moves nothing; that takes an Update")
        self._check(moves)
        _, version = self._kind.identify(resource)
        record = describe(outcome if then is None else then)
        tired = then is None and turn.reruns >= self._config.rerun_limit
        return Finished(
            id=turn.id,
            epoch=turn.epoch,
            wakes=turn.wakes,
            version=version,
            due=Due.RERUN if then is None and not tired else Due.PERIODIC,
            delay=timedelta(0) if then is None else self._delay(then.requeue_after),
            limited=tired,
            outcome="transition",
            to=outcome.to,
            moves=moves,
            writes=outcome.writes,
            samples=_samples(outcome),
            record=record,
            outcome_key=_key(record),
            reason=outcome.reason,
            cause=outcome.cause,
            source=outcome.source,
        )

    def _stayed(
        self,
        turn: Turn,
        resource: R,
        outcome: Update[S, W] | Wait[W] | DoNothing[W],
        *,
        to: S | None,
    ) -> Finished[S, W]:
        """The run of an outcome that moves no layer."""
        _, version = self._kind.identify(resource)
        record = describe(outcome)
        key = _key(record)
        told = key == turn.outcome_key or (isinstance(outcome, Update) and outcome.quiet)
        # At once means at once, as after a transition, and as often in a row: one that always asks for it has a limit.
        at_once = outcome.requeue_after is not None and outcome.requeue_after <= timedelta(0)
        tired = at_once and turn.reruns >= self._config.rerun_limit
        return Finished(
            id=turn.id,
            epoch=turn.epoch,
            wakes=turn.wakes,
            version=version,
            due=Due.RERUN if at_once and not tired else Due.PERIODIC,
            limited=tired,
            outcome=record.outcome,
            delay=self._delay(_SPINNING if tired else outcome.requeue_after),
            to=to,
            confirms=isinstance(outcome, Update) and outcome.confirms,
            writes=outcome.writes,
            samples=_samples(outcome),
            record=None if told else record,
            outcome_key=key,
        )

    def _moves(self, resource: R, to: S) -> tuple[Move, ...]:
        """The layers that differ from those of the snapshot."""
        places = self._kind.current_layers(resource)
        moves = []
        for layer, value in self._kind.target_layers(to).items():
            place = places.get(layer)
            if place is None:
                moves.append(Move(layer, None, value, None))
            elif place.value != value:
                moves.append(Move(layer, place.value, value, place.entered_at))
        return tuple(moves)

    def _check(self, moves: tuple[Move, ...]) -> None:
        for move in moves:
            edges = self._kind.edges.get(move.layer, frozenset())
            if move.source is not None and (move.source, move.target) not in edges:
                raise IllegalEdge(kind=self._kind.name, layer=move.layer, source=move.source, target=move.target)

    def _delay(self, requeue_after: timedelta | None) -> timedelta:
        """The period with its jitter, or less when the handler wants to look sooner."""
        seconds = self._period * (1 + self._config.jitter * (2 * random.random() - 1))
        if requeue_after is not None:
            seconds = min(seconds, max(requeue_after.total_seconds(), 0.0))
        return timedelta(0, seconds)
