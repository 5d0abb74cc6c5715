"""The words the loop and its storage share: lanes, claims, finished runs and what became of them. Pure data,
no kind."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import msgspec

from farrier.errors import FarrierError
from farrier.model.measures import Sample
from farrier.model.outcome import Record

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")


def new_token() -> int:
    """A fencing token. Random and not from a sequence: a server that crashes may hand out the same numbers again."""
    return secrets.randbits(63)


class Lane(enum.IntEnum):
    """Which queue a row waits in. Each is first come, first served and claimed by a stream of its own, so
    neither a storm of wakes nor a large fleet can starve the other."""

    WOKEN = 0
    PERIODIC = 1


class Claimed(msgspec.Struct, frozen=True):
    """One row of a claim: `outcome_key` of the outcome last stored (None: none yet), `waited` past its due
    time, `reruns` in a row because of transitions. `taken_over`: an earlier run never gave the row back, and may have
    acted outside."""

    id: int
    outcome_key: int | None
    waited: timedelta
    reruns: int
    taken_over: bool = False


class Taken(msgspec.Struct, frozen=True):
    """Rows taken together under one fencing token."""

    token: int
    lane: Lane
    rows: tuple[Claimed, ...]


class Claim(Taken, frozen=True):
    """What was due. Up to `floor` the lane holds no due row any more, save those that others had locked or wrote
    at that moment, or that are committed late: the due time the next claim may scan from. `full` when it found as many
    as it might take, and so perhaps not all, even if it could not take each of them."""

    floor: datetime
    full: bool = False


class Loaded(msgspec.Struct, Generic[R], frozen=True):
    """Snapshots of one load and the database's time of it. An id in neither map has no resource behind it."""

    now: datetime
    resources: Mapping[int, R]
    unreadable: Mapping[int, FarrierError]


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
    """A request that a run answers: what the log says of it. `by` is whoever asked."""

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
    could not be read); `to` is None when no state is written."""

    id: int
    token: int
    version: int | None
    due: Due
    outcome: str
    delay: timedelta = timedelta(0)
    limited: bool = False  # it wanted to run again at once, and has done so too often in a row
    to: S | None = None
    moves: tuple[Move, ...] = ()
    writes: tuple[W, ...] = ()
    samples: tuple[Sample, ...] = ()
    record: Record | None = None
    outcome_key: int = 0
    reason: str = ""
    cause: str = ""
    source: str = ""

    @property
    def idle(self) -> bool:
        """True when nothing of the resource is written: only its schedule row, and what the run said if that is new."""
        return self.to is None and not self.writes and self.due is Due.PERIODIC


class Verdict(enum.StrEnum):
    """What became of a finished run at its commit."""

    COMMITTED = "committed"
    LOST = "lost"  # the claim is another's: nothing of the row was touched
    CONFLICT = "conflict"  # the resource's version moved on: due again at once
    LOCKED = "locked"  # somebody holds its schedule row, or what it writes: to be committed alone
    REFUSED = "refused"  # the database refuses these writes: the resource carries the blame
    UNKNOWN = "unknown"  # the connection broke, or time ran out; never written again, never published


class Result(msgspec.Struct, frozen=True):
    """Verdict of one run; `error` says why for `refused`. `again` when the row is due in the woken lane
    already, be it by its own transition or by a wake that came in meanwhile; `kept` when it was claimed anew for
    the run that follows at once; `at` is the database's time of the commit of a run that moved."""

    verdict: Verdict
    error: FarrierError | None = None
    again: bool = False
    kept: Claimed | None = None
    at: datetime | None = None
