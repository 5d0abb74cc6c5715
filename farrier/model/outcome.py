"""What one handler run decides, as data.

A handler returns exactly one `Outcome`, or a `Step` that will return one after talking to the outside.
Outcomes carry the source line that made them (shown by `node why` and kept in history) and `writes`: data
that the commit applies in the same transaction as the state. `samples` of the kind's own metrics are counted once the
commit has won. Nothing here acts; the controller commits.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, assert_never

import msgspec

from farrier.model.measures import Sample

S = TypeVar("S")  # the state a kind of resource owns
W = TypeVar("W")  # the writes a kind of resource may ask for
V = TypeVar("V")  # the services a kind's steps may use


@lru_cache(maxsize=4096)
def source_line(module: str, filename: str, line: int) -> str:
    """The line of code as `farrier/handlers/node/status.py:42`, from the name of the module, not from its directory."""
    file = filename.replace("\\", "/").rpartition("/")[2]
    package = module if file == "__init__.py" else module.rpartition(".")[0]
    return f"{package.replace('.', '/')}{'/' if package else ''}{file}:{line}"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that knows where it was made: `source` is the line that called the constructor (which has no
    Python frame of its own), unless it is given."""

    source: str = ""

    def __post_init__(self) -> None:
        if not self.source:
            at = sys._getframe(1)
            line = source_line(at.f_globals.get("__name__", ""), at.f_code.co_filename, at.f_lineno)
            msgspec.structs.force_setattr(self, "source", line)


class Transition(Made, Generic[S, W], frozen=True, kw_only=True):
    """Move to another state: commit, history row for each layer that changed, run again at once."""

    to: S
    reason: str
    cause: str
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class Update(Made, Generic[S, W], frozen=True, kw_only=True):
    """Change payload only: no layer may differ, so no history row, no SLA reset and no rerun. A `quiet` one keeps the
    stored outcome and its time. A quiet one that `confirms` changes nothing but how recently a fact was confirmed,
    and may stay in memory: the handler's `confirmed` restores it after each load.
    """

    to: S
    reason: str
    requeue_after: timedelta | None = None
    quiet: bool = False
    confirms: bool = False
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class Wait(Made, Generic[W], frozen=True, kw_only=True):
    """Stay, for a stated reason. The text must not vary from run to run (no ages, no counters): it is stored
    only when it changed. `requeue_after` can only bring the next periodic run nearer. `error` is an error's label
    where it waits for something that fails: it then counts among those that fail, in whatever state it is. `rests`:
    only the passing of time, or something that wakes the resource, ends the wait."""

    reason: str
    error: str = ""
    rests: bool = False
    requeue_after: timedelta | None = None
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class DoNothing(Made, Generic[W], frozen=True, kw_only=True):
    """All is as it should be; nothing is waited for, so it rests. `requeue_after` as for `Wait`."""

    requeue_after: timedelta | None = None
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


class Deleted(Made, Generic[W], frozen=True, kw_only=True):
    """The resource is in a terminal state and runs no more. Should a wake have come in meanwhile, the handler runs once
    more."""

    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()


Outcome: TypeAlias = Transition[S, W] | Update[S, W] | Wait[W] | DoNothing[W] | Deleted[W]


class Step(msgspec.Struct, Generic[S, W, V], frozen=True, kw_only=True):
    """A decision that needs the outside world first.

    `act` is awaited in a task of its own with the kind's services, at most `deadline` long, holding no
    database connection. It may run again after a crash. `reads_only` steps are cut short when an interrupting
    request arrives; a step that sends a mutation never is. `if_cut` is committed when it does not come to an outcome:
    because of such a request, of the process that stops, of its deadline, or of an error. Without one, nothing is.
    """

    name: str
    act: Callable[[V], Awaitable[Transition[S, W] | Update[S, W] | Wait[W] | DoNothing[W] | Deleted[W]]]
    deadline: timedelta
    reads_only: bool
    if_cut: Transition[S, W] | Update[S, W] | None = None


Decision: TypeAlias = Transition[S, W] | Update[S, W] | Wait[W] | DoNothing[W] | Deleted[W] | Step[S, W, V]
AnyOutcome: TypeAlias = Transition[Any, Any] | Update[Any, Any] | Wait[Any] | DoNothing[Any] | Deleted[Any]


Resting: TypeAlias = DoNothing[Any] | Wait[Any]

_AT_ONCE = timedelta(0)


def rests(decision: Any, before: Any) -> TypeGuard[Resting]:
    """Whether the decision writes nothing, equals the stored outcome `before`, and changes only after a wake or with
    time."""
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


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outcome as it is stored and shown: which, why, from which line; for a run that failed, or waits for what
    fails, the error's label."""

    outcome: str
    reason: str = ""
    source: str = ""
    error: str = ""


def describe(outcome: AnyOutcome) -> Record:
    """The stored form of `outcome`."""
    match outcome:
        case Transition():
            return Record("transition", outcome.reason, outcome.source)
        case Update():
            return Record("update", outcome.reason, outcome.source)
        case Wait():
            return Record("wait", outcome.reason, outcome.source, outcome.error)
        case DoNothing():
            return Record("do_nothing", "", outcome.source)
        case Deleted():
            return Record("deleted", "", outcome.source)
        case _ as never:
            assert_never(never)
