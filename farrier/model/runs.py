"""The words the loop and its storage share: loads, finished runs and what became of them. Pure data, no kind."""

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
    """What one statement returned, and the database's time of it. An id in none of the first two maps has no resource.

    `wakes` are those that the snapshots saw, `woken_at` when the first of them was inserted. `keys` says which outcome
    was stored last."""

    now: datetime
    resources: Mapping[int, R]
    unreadable: Mapping[int, FarrierError]
    wakes: Mapping[int, tuple[UUID, ...]] = {}
    woken_at: Mapping[int, datetime] = {}
    keys: Mapping[int, int] = {}


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a resource over a fresh snapshot: under which epoch of its shard, after how many runs at once.

    `outcome_key` is that of the stored outcome. `recovers`: the name of a step that may have acted and
    whose end is not recorded."""

    id: int
    epoch: int = 0
    reruns: int = 0
    outcome_key: int | None = None
    wakes: tuple[UUID, ...] = ()
    recovers: str | None = None


class Place(msgspec.Struct, frozen=True):
    """Where a resource stands in one layer, and since when."""

    value: str
    entered_at: datetime


class Move(msgspec.Struct, frozen=True):
    """A change of one layer, which was in `source` from `since` on. Both are None when the layer begins (a workflow is
    created)."""

    layer: str
    source: str | None
    target: str
    since: datetime | None


class Answered(msgspec.Struct, frozen=True):
    """An intent that a run answers, as it is logged. `by` is its client."""

    request: int
    action: str
    verdict: str
    reason: str
    by: str | None


class Due(enum.StrEnum):
    """When a finished row runs next."""

    RERUN = "rerun"
    PERIODIC = "periodic"
    NEVER = "never"


class Finished(msgspec.Struct, Generic[S, W], frozen=True, kw_only=True):
    """One run, decided and ready to commit. `record` is None when the stored outcome is already this one;
    `outcome` names it for metrics; `version` is the one the snapshot had (None: it
    could not be read); `to` is None when no state is written. `wakes` are those that the snapshot saw. `confirms`: `to`
    may stay in memory."""

    id: int
    epoch: int
    version: int | None
    due: Due
    outcome: str
    wakes: tuple[UUID, ...] = ()
    delay: timedelta = timedelta(0)
    limited: bool = False  # it wanted to run again at once, and has done so too often in a row
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
        """Whether the run has nothing to write."""
        return self.to is None and not self.writes and self.record is None and self.due is Due.PERIODIC

    @property
    def stays_in_memory(self) -> bool:
        """Whether all that the run has to write can be written later."""
        nothing_else = not self.writes and not self.samples and self.record is None
        return self.confirms and nothing_else and self.due is Due.PERIODIC


class Marking(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the marks of one kind's steps: names of `begun` ones by resource, and `epochs` by shard. One of a
    lower `number` has no effect after one of a higher."""

    number: int
    begun: Mapping[int, str]
    ended: AbstractSet[int]
    epochs: Mapping[int, int]


class Verdict(enum.StrEnum):
    """What became of a finished run at its commit."""

    COMMITTED = "committed"
    LOST = "lost"  # the shard is another's: nothing was written
    CONFLICT = "conflict"  # the resource's version moved on: decided anew
    LOCKED = "locked"  # another transaction holds what it writes: to be committed alone
    REFUSED = "refused"  # the database refuses these writes: the resource carries the blame
    UNKNOWN = "unknown"  # the connection broke, or time ran out: to be settled before the resource is loaded again


class Result(msgspec.Struct, frozen=True):
    """Verdict of one run; `error` says why for `refused`; `due_in` when a `conflict` is decided anew; `at` is the
    database's time of the commit of a run that moved."""

    verdict: Verdict
    error: FarrierError | None = None
    due_in: timedelta = timedelta(0)
    at: datetime | None = None
