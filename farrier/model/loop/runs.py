"""The data that the loop and its storage exchange: loads, finished runs and results of commits. Pure, for all kinds."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID, uuid4

import msgspec

from farrier.errors import FarrierError
from farrier.model.kinds.measures import Sample
from farrier.model.loop.outcome import Record
from farrier.model.loop.restores import Hold

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")


class Loaded(msgspec.Struct, Generic[R], frozen=True):
    """The result of a load, with the database's time. If a resource's ID is in neither `resources` nor `unreadable`,
    the resource does not exist.

    `wakes` contains the wakes that were visible with the snapshots, and `woken_at` is when the first of these wakes was
    inserted. `keys` identify the stored outcomes. `holds` contains the holds of resources after a restore. If
    `is_partial` is set, the resources have more wakes than one load reads. A run commits under the `commit_id` of its
    load, which is unique for its resource, because a load is followed by at most one run of each resource.
    """

    now: datetime
    resources: Mapping[int, R]
    unreadable: Mapping[int, FarrierError]
    wakes: Mapping[int, tuple[UUID, ...]] = {}
    woken_at: Mapping[int, datetime] = {}
    keys: Mapping[int, int] = {}
    holds: Mapping[int, Hold] = {}
    is_partial: bool = False
    commit_id: UUID = msgspec.field(default_factory=uuid4)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a resource over a fresh snapshot. `epoch` is the epoch of the resource's shard, and `reruns` is the
    number of immediate reruns before this run.

    `outcome_key` identifies the stored outcome. `recovers` is the name of a step that may have acted and whose end is
    not recorded. `hold` is set while the resource is held after a restore. `commit_id` identifies the commit of this
    run among those of its resource.
    """

    id: int
    epoch: int = 0
    reruns: int = 0
    outcome_key: int | None = None
    wakes: tuple[UUID, ...] = ()
    recovers: str | None = None
    hold: Hold | None = None
    commit_id: UUID = msgspec.field(default_factory=uuid4)


class LayerState(msgspec.Struct, frozen=True):
    """The state of a resource in one layer, and the time at which the resource entered this state."""

    value: str
    entered_at: datetime


class Move(msgspec.Struct, frozen=True):
    """A change of one layer, which had been in state `source` since `since`. Both are None when the layer begins, such
    as when a workflow is created."""

    layer: str
    source: str | None
    target: str
    since: datetime | None


class Failure(msgspec.Struct, frozen=True):
    """The error of a run: its label, the name of the resource, and the metric labels of the resource's state. If the
    resource could not be read, its name is missing."""

    error: str
    name: str | None
    state: str = "unknown"
    substate: str = ""


class AnsweredIntent(msgspec.Struct, frozen=True):
    """An answer that a run gives to an intent, as the log shows it. `by` is the client that submitted the intent."""

    request: int
    action: str
    verdict: str
    reason: str
    by: str | None


_INTENT = "intent"


def cause_of_intent(id_: int) -> str:
    """Return the cause of a transition that this intent requests. Queries of the history use this cause to find the
    client of the intent."""
    return f"{_INTENT} {id_}"


def is_requested(cause: str) -> bool:
    """Return whether the cause of a transition is an intent."""
    return cause.partition(" ")[0] == _INTENT


class Due(enum.StrEnum):
    """When the loop runs a resource again after a finished run."""

    RERUN = "rerun"
    PERIODIC = "periodic"
    NEVER = "never"


class Finished(msgspec.Struct, Generic[S, W], frozen=True, kw_only=True):
    """A finished run, ready to commit. `outcome` is the name of the outcome in metrics. `record` is None if the outcome
    is already stored. `version` is the version of the snapshot, or None if the snapshot could not be read. `to` is None
    if no state is written. `was` is the snapshot on which the run decided. `wakes` contains the wakes that were visible
    with the snapshot. The resource stores `commit_id`."""

    id: int
    epoch: int
    version: int | None
    due: Due
    outcome: str
    wakes: tuple[UUID, ...] = ()
    delay: timedelta = timedelta(0)
    limited: bool = False  # the resource requested an immediate rerun too often in a row
    to: S | None = None
    was: object = None
    moves: tuple[Move, ...] = ()
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()
    record: Record | None = None
    outcome_key: int = 0
    reason: str = ""
    cause: str = ""
    source: str = ""
    commit_id: UUID = msgspec.field(default_factory=uuid4)

    @property
    def rests(self) -> bool:
        """Whether the run has nothing to write."""
        return self.to is None and not self.writes and self.record is None and self.due is Due.PERIODIC


class Marking(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the marks that record running steps of one kind. `begun` has the names of the steps that began, by
    resource. `ended` lists the resources whose steps ended, and `epochs` has the epochs of shards. A change has no
    effect if a change with a higher `number` was already applied."""

    number: int
    begun: Mapping[int, str]
    ended: AbstractSet[int]
    epochs: Mapping[int, int]


class Settled(msgspec.Struct, frozen=True):
    """Whether a commit whose reply was lost has happened; if not, it never will. `at` is the time of a commit that
    changed a layer."""

    happened: bool
    at: datetime | None = None


class CommitVerdict(enum.StrEnum):
    """How the commit of a finished run ended."""

    COMMITTED = "committed"
    LOST = "lost"  # another controller has the shard; nothing was written
    CONFLICT = "conflict"  # the resource has changed during the run; the loop decides again
    DEFERRED = "deferred"  # the run has to wait, as for a limit or a short lock; the loop decides again a little later
    LOCKED = "locked"  # another transaction has locked rows of the run; the loop repeats the commit
    REFUSED = "refused"  # the database refuses the writes; the error becomes the outcome of the resource
    UNKNOWN = "unknown"  # the connection broke or time ran out; the loop finds out before it loads the resource again


class CommitResult(msgspec.Struct, frozen=True):
    """The result of one run. `error` is the reason for the verdicts `refused`, `locked` and `unknown`. After verdict
    `deferred`, the loop runs the resource again after `due_in`. `at` is the database's time of the commit, if the run
    changed a layer."""

    verdict: CommitVerdict
    error: FarrierError | None = None
    due_in: timedelta = timedelta(0)
    at: datetime | None = None
