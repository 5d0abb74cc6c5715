"""The data that the loop and its storage exchange: loads, finished runs and results of commits. Pure, for all kinds."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from farrier.errors import FarrierError
from farrier.model.measures import Sample
from farrier.model.outcome import Record

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")


class Loaded(msgspec.Struct, Generic[R], frozen=True):
    """The result of a load, with the database's time. A resource whose ID is in neither `resources` nor `unreadable`
    does not exist.

    `wakes` are the wakes that were visible with the snapshots, and `woken_at` is when the first of these wakes was
    inserted. `keys` identify the stored outcomes.
    """

    now: datetime
    resources: Mapping[int, R]
    unreadable: Mapping[int, FarrierError]
    wakes: Mapping[int, tuple[UUID, ...]] = {}
    woken_at: Mapping[int, datetime] = {}
    keys: Mapping[int, int] = {}


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a resource over a fresh snapshot. `epoch` is that of its shard, and `reruns` the number of immediate
    reruns before this run.

    `outcome_key` identifies the stored outcome. `recovers`: the name of a step that may have acted and whose end is not
    recorded.
    """

    id: int
    epoch: int = 0
    reruns: int = 0
    outcome_key: int | None = None
    wakes: tuple[UUID, ...] = ()
    recovers: str | None = None


class Place(msgspec.Struct, frozen=True):
    """The state of a resource in one layer, with the time of its entry."""

    value: str
    entered_at: datetime


class Move(msgspec.Struct, frozen=True):
    """A change of one layer, which was in `source` since `since`. Both are None when the layer begins (a workflow is
    created)."""

    layer: str
    source: str | None
    target: str
    since: datetime | None


class Failure(msgspec.Struct, frozen=True):
    """The error of a run by its label, and the resource: its name and the metric labels of its state. A resource that
    could not be read has no name."""

    error: str
    name: str | None
    state: str = "unknown"
    substate: str = ""


class Answered(msgspec.Struct, frozen=True):
    """An intent that a run answers, as the log shows it. `by` is its client."""

    request: int
    action: str
    verdict: str
    reason: str
    by: str | None


_INTENT = "intent"


def cause_of_intent(id_: int) -> str:
    """The cause of a transition that this intent requests. History finds the client of the intent by it."""
    return f"{_INTENT} {id_}"


def is_requested(cause: str) -> bool:
    """Whether an intent is the cause of a transition."""
    return cause.partition(" ")[0] == _INTENT


class Due(enum.StrEnum):
    """When a resource runs again after a run."""

    RERUN = "rerun"
    PERIODIC = "periodic"
    NEVER = "never"


class Finished(msgspec.Struct, Generic[S, W], frozen=True, kw_only=True):
    """A finished run, ready to commit. `outcome` is the name of the outcome in metrics; `record` is None if the outcome
    is already stored. `version` is the version of the snapshot (None: it could not be read). `to` is None if no state
    is written. `wakes` are the wakes that were visible with the snapshot. `confirms`: `to` may stay in memory."""

    id: int
    epoch: int
    version: int | None
    due: Due
    outcome: str
    wakes: tuple[UUID, ...] = ()
    delay: timedelta = timedelta(0)
    limited: bool = False  # the resource requested an immediate rerun too often in a row
    to: S | None = None
    confirms: bool = False
    moves: tuple[Move, ...] = ()
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()
    record: Record | None = None
    outcome_key: int = 0
    reason: str = ""
    cause: str = ""
    source: str = ""

    @property
    def rests(self) -> bool:
        """Whether the run has nothing to write, or only what may stay in memory."""
        is_stored = self.to is None or self.confirms
        return is_stored and not self.writes and self.record is None and self.due is Due.PERIODIC


class Marking(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the marks of one kind's steps: the names of `begun` steps by resource, the resources whose steps
    `ended`, and `epochs` by shard. A change with a lower `number` has no effect after a change with a higher number."""

    number: int
    begun: Mapping[int, str]
    ended: AbstractSet[int]
    epochs: Mapping[int, int]


class Verdict(enum.StrEnum):
    """The result of a finished run at its commit."""

    COMMITTED = "committed"
    LOST = "lost"  # another controller has the shard; nothing was written
    CONFLICT = "conflict"  # the version of the resource has changed; the loop decides again
    LOCKED = "locked"  # another transaction has locked rows of the run; the loop commits it alone
    REFUSED = "refused"  # the database refuses the writes; the error becomes the outcome of the resource
    UNKNOWN = "unknown"  # the connection broke or time ran out; the loop finds out before it loads the resource again


class Result(msgspec.Struct, frozen=True):
    """The verdict of one run. `error` is the reason of `refused`. `due_in`: when the loop decides again after
    `conflict`. `at` is the database's time of the commit of a run that changed a layer."""

    verdict: Verdict
    error: FarrierError | None = None
    due_in: timedelta = timedelta(0)
    at: datetime | None = None
