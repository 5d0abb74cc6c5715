"""The decisions of a handler run, as data.

A handler returns exactly one `Outcome`, or a `Step` that returns an `Outcome` after calls to outside services. An
outcome contains the source line that created it; `node why` and the history show this line. Its `writes` are data that
the commit applies in the same transaction as the state. The loop counts the `samples` of the kind's own metrics after
the commit. This module changes nothing; the controller commits outcomes.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from types import CodeType
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, assert_never, cast

import msgspec

from farrier.errors import HandlerGarbage
from farrier.model.kinds.measures import Sample

S = TypeVar("S")  # the state of a kind of resource
W = TypeVar("W")  # the writes of a kind of resource
V = TypeVar("V")  # the services of a kind's steps

_AT_ONCE = timedelta(0)


@lru_cache(maxsize=4096)
def source_line(module: str, filename: str, line: int) -> str:
    """Return the line of code, such as `farrier/handlers/node/rules/status.py:42`; the path comes from the module's
    name, not from the file's directory."""
    file = filename.replace("\\", "/").rpartition("/")[2]
    package = module if file == "__init__.py" else module.rpartition(".")[0]
    return f"{package.replace('.', '/')}{'/' if package else ''}{file}:{line}"


# The source lines by the code that constructs a decision and the position in this code, because an idle node makes a
# decision in each run, and computing a line number takes longer. The code is kept, so that its ID stays unique.
_SOURCES: dict[tuple[int, int], tuple[CodeType, str]] = {}


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """The common base of decisions. `source` is the source line of the decision: by default, the line that called the
    constructor. The constructor itself has no Python frame."""

    source: str = ""

    def __post_init__(self) -> None:
        if not self.source:
            at = sys._getframe(1)
            known = _SOURCES.get((id(at.f_code), at.f_lasti))
            if known is None:
                line = source_line(at.f_globals.get("__name__", ""), at.f_code.co_filename, at.f_lineno)
                known = _SOURCES[id(at.f_code), at.f_lasti] = at.f_code, line
            msgspec.structs.force_setattr(self, "source", known[1])


class Transition(Made, Generic[S, W], frozen=True, kw_only=True):
    """Changes the state. The commit adds a history row for each changed layer, and the resource runs again at once."""

    to: S
    reason: str
    cause: str
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class Update(Made, Generic[S, W], frozen=True, kw_only=True):
    """Changes only the payload. No layer may differ, so there is no history row, no new start of an SLA clock and no
    rerun. `quiet` keeps the stored outcome and its time. If `confirms` is also set, the update changes only how
    recently a fact was confirmed, and may stay in memory. The handler's method `confirmed` then restores the
    confirmation after each load."""

    to: S
    reason: str
    requeue_after: timedelta | None = None
    quiet: bool = False
    confirms: bool = False
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class EndsBy(StrEnum):
    """What ends a wait. The order is the order of urgency."""

    PERSON = "person"  # an operator has to act, in farrier or outside
    CONFIRMATION = "confirmation"  # one reading contradicts the state; a second reading has to confirm this
    ITSELF = "itself"  # a service, a machine or the time ends the wait


_URGENCY = tuple(EndsBy)


def most_urgent(ends: Iterable[EndsBy]) -> EndsBy:
    """Return what has to happen first to end all of these waits."""
    return min(ends, key=_URGENCY.index, default=EndsBy.ITSELF)


class Wait(Made, Generic[W], frozen=True, kw_only=True):
    """Keeps the state, for a stated reason. The text must not vary from run to run (no ages, no counters), because it
    is stored only when it changes. `ends_by` is what ends the wait. `requeue_after` can only make the next run earlier.
    If the resource waits for a service or resource that fails, `error` is the label of the error; the resource then
    counts as failing, in any state. If `rests` is set, only a wake or the passing of time ends the wait."""

    reason: str
    error: str = ""
    ends_by: EndsBy = EndsBy.ITSELF
    rests: bool = False
    requeue_after: timedelta | None = None
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class DoNothing(Made, Generic[W], frozen=True, kw_only=True):
    """The resource is in its target state and waits for nothing, so it rests. `requeue_after` has the same meaning as
    in `Wait`."""

    requeue_after: timedelta | None = None
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class Deleted(Made, Generic[W], frozen=True, kw_only=True):
    """The resource is in a terminal state, and its handler does not run any more. If a wake arrived meanwhile, the
    handler runs one more time."""

    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


Change: TypeAlias = Transition[S, W] | Update[S, W]
Outcome: TypeAlias = Change[S, W] | Wait[W] | DoNothing[W] | Deleted[W]


def only_confirms(outcome: object) -> TypeGuard[Update[Any, Any]]:
    """Return whether the outcome changes nothing but the time at which a fact was confirmed, so it may stay in
    memory."""
    if type(outcome) is not Update or not (outcome.confirms and outcome.quiet):
        return False
    again: timedelta | None = outcome.requeue_after
    return not outcome.writes and not outcome.samples and (again is None or again > _AT_ONCE)


class Step(msgspec.Struct, Generic[S, W, V], frozen=True, kw_only=True):
    """A decision that requires calls to outside services first.

    The loop awaits `act` in a separate task with the kind's services, at most for `deadline`, without a database
    connection. After a crash, `act` may run again. An interrupting intent cancels a step with `reads_only`; it never
    cancels a step that sends a change. `if_interrupted` is committed if the step returns no outcome because of such an
    intent, the end of the process, the deadline or an error. Without `if_interrupted`, nothing is committed. If `act`
    raises, `if_failed` takes precedence. Either may be a function that returns the outcome.

    A step with `observes` only reads facts that the snapshot has already, such as the power of a machine. It may begin
    on the snapshot in memory, without a load. Raises HandlerGarbage for a name that cannot be stored, for a deadline
    that is no timedelta, and for a step that observes and does not only read.
    """

    name: str
    act: Callable[[V], Awaitable[Transition[S, W] | Update[S, W] | Wait[W] | DoNothing[W] | Deleted[W]]]
    deadline: timedelta
    reads_only: bool
    if_interrupted: Transition[S, W] | Update[S, W] | Callable[[], Transition[S, W] | Update[S, W]] | None = None
    if_failed: Transition[S, W] | Update[S, W] | Callable[[], Transition[S, W] | Update[S, W]] | None = None
    observes: bool = False

    def __post_init__(self) -> None:
        name, deadline = cast("tuple[object, object]", (self.name, self.deadline))
        if not (isinstance(name, str) and name and name.isprintable()):
            raise HandlerGarbage(f"a Step whose name is {name!r}; expected a printable text")
        if not isinstance(deadline, timedelta):
            raise HandlerGarbage(f"a Step {name} whose deadline is {deadline!r}; expected a timedelta")
        if self.observes and not self.reads_only:
            raise HandlerGarbage(f"a Step {name} with observes, but without reads_only")

    def when_interrupted(self) -> Transition[S, W] | Update[S, W] | None:
        """Return the outcome of `if_interrupted`."""
        return self.if_interrupted() if callable(self.if_interrupted) else self.if_interrupted

    def when_failed(self) -> Transition[S, W] | Update[S, W] | None:
        """Return the outcome of `if_failed` or, without it, of `if_interrupted`."""
        failed = self.if_failed() if callable(self.if_failed) else self.if_failed
        return failed or self.when_interrupted()


Decision: TypeAlias = Transition[S, W] | Update[S, W] | Wait[W] | DoNothing[W] | Deleted[W] | Step[S, W, V]
AnyOutcome: TypeAlias = Transition[Any, Any] | Update[Any, Any] | Wait[Any] | DoNothing[Any] | Deleted[Any]


Resting: TypeAlias = DoNothing[Any] | Wait[Any]


def rests(decision: Any, before: Any) -> TypeGuard[Resting]:
    """Return whether the decision writes nothing, equals the stored outcome `before`, and can change only after a wake
    or with time."""
    kind = type(decision)
    if kind is Wait:
        if not (decision.rests and type(before) is Wait and _is_stored(decision, before)):
            return False
    elif kind is not DoNothing or type(before) is not DoNothing:
        return False
    if decision.source != before.source:
        return False
    again: timedelta | None = decision.requeue_after
    return not decision.writes and not decision.samples and (again is None or again > _AT_ONCE)


def waits(decision: object) -> TypeGuard[Resting]:
    """Return whether the decision writes nothing, and requests no run at once."""
    if not isinstance(decision, (Wait, DoNothing)) or decision.writes or decision.samples:
        return False
    return decision.requeue_after is None or decision.requeue_after > _AT_ONCE


def _is_stored(decision: Wait[Any], before: Wait[Any]) -> bool:
    same = decision.reason == before.reason and decision.error == before.error
    return same and decision.ends_by is before.ends_by


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of an outcome: its type, reason and source line. `error` is the error label of a run that failed,
    or that waits for a failing service or resource. `ends_by` is what ends a wait; empty for any other outcome."""

    outcome: str
    reason: str = ""
    source: str = ""
    error: str = ""
    ends_by: str = ""


def describe(outcome: AnyOutcome) -> Record:
    """Return the stored form of `outcome`."""
    match outcome:
        case Transition():
            return Record("transition", outcome.reason, outcome.source)
        case Update():
            return Record("update", outcome.reason, outcome.source)
        case Wait():
            return Record("wait", outcome.reason, outcome.source, outcome.error, outcome.ends_by)
        case DoNothing():
            return Record("do_nothing", "", outcome.source)
        case Deleted():
            return Record("deleted", "", outcome.source)
        case _ as never:
            assert_never(never)
