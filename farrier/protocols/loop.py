"""The controller and the kinds it runs: what a kind brings, what the loop reports, and the clock it counts by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from farrier.model.measures import Sample
from farrier.model.outcome import Decision
from farrier.model.schedule import Answered, Claim, Finished, Lane, Loaded, Place, Result

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
W = TypeVar("W")
V = TypeVar("V")


class Clock(Protocol):
    """Monotonic seconds of this process: leases and deadlines, never a time that is stored."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""


class Kind(Protocol[R_contra, S_contra]):
    """What the loop must know about a kind of resource, as data and pure functions."""

    @property
    def name(self) -> str:
        """The `kind` of its schedule rows."""

    @property
    def edges(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        """Layer → allowed (from, to) pairs. A layer's first value is no edge."""

    def identify(self, resource: R_contra) -> tuple[int, int]:
        """(id, version) of a snapshot."""

    def called(self, resource: R_contra) -> str:
        """What people call it: the log has it beside the id."""

    def places(self, resource: R_contra) -> Mapping[str, Place]:
        """Where the snapshot stands in each of its layers."""

    def values(self, to: S_contra) -> Mapping[str, str]:
        """The layers' values in a state that a handler returned."""

    def label(self, resource: R_contra) -> tuple[str, str]:
        """(state, substate) of the snapshot as metric labels: both from finite sets."""

    def answers(self, resource: R_contra, writes: Sequence[object], /) -> Sequence[Answered]:
        """The requests that a run on this snapshot answers with its writes, for the log."""

    def samples(self, resource: R_contra, to: S_contra, /) -> Sequence[Sample]:
        """What is counted of a run that made `to` of this snapshot, besides the samples in its outcome."""


class StateHandler(Protocol[R_contra, S, W, V]):
    """Decides. Pure and synchronous: the same snapshot and time give the same decision."""

    def handle(self, resource: R_contra, now: datetime) -> Decision[S, W, V]:
        """One run. Must be idempotent: it may be called again after any crash, at any point."""

    def recover(self, resource: R_contra, now: datetime) -> Decision[S, W, V]:
        """The same for a row that an earlier run never gave back: its process died, or could not say how it ended, so
        its step may have acted outside. A handler for which that makes no difference inherits this."""
        return self.handle(resource, now)


class StateIO(Protocol[R, S, W]):
    """Storage of one kind and of its schedule rows. No method holds a connection when it returns. All raise
    `DatabaseUnreachable` when the database cannot be asked now; what they had begun is then left to the
    leases."""

    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        """Take up to `limit` due rows of a lane, oldest first, under a fresh token, for one lease. Scans
        from `floor` (None: from the start). Rows that others have locked are passed over."""

    async def bring_back(self, lane: Lane, limit: int, reach: timedelta) -> int:
        """Make up to `limit` rows of a lane due that are due further ahead than `reach`, because the database's clock
        was set back; one that is claimed, after `reach`. Answers how many."""

    async def load(self, ids: Sequence[int]) -> Loaded[R]:
        """Snapshots of all layers. A second statement on purpose: joined to the claim it could take over a
        `wake_seq` whose cause its snapshot cannot see."""

    async def commit(
        self, runs: Sequence[Finished[S, W]], *, patient: bool = False, keep: int | None = None
    ) -> Mapping[int, Result]:
        """Commit finished runs together, each all or nothing, and give their rows back. Answers for every run and never
        raises for one; those that it did not get to in time are `unknown`. A run whose row, or what it writes, somebody
        holds is `locked` and untouched; `patient` waits for that up to a second. With `keep`, rows that are to run
        again at once are not given back but claimed under this token, on disk."""

    async def renew(self, tokens: Mapping[int, int]) -> frozenset[int]:
        """Extend the leases of {id: token}; answers the ids renewed. Rows locked by others are passed
        over."""

    async def lost(self, tokens: Mapping[int, int]) -> frozenset[int]:
        """Of {id: token} the ids that are claimed under another token, or not at all."""

    async def give_back(self, tokens: Mapping[int, int], delay: timedelta, lane: Lane) -> None:
        """Make claimed rows due in `lane` after `delay`, without an outcome. May be called twice."""

    async def interrupted(self, ids: Collection[int]) -> frozenset[int]:
        """Those of `ids` for which a request waits that is worth cutting a reading step short."""


class MetricsSink(Protocol):
    """What the loop reports; called only after the commit it speaks of. Must not block or raise."""

    def ran(self, kind: str, runs: Mapping[str, Sequence[float]]) -> None:
        """Runs were committed: outcome → how many seconds each took."""

    def failed(self, kind: str, state: str, substate: str, error: str) -> None:
        """One run ended with an error (its label)."""

    def moved(self, kind: str, layer: str, source: str | None, target: str, seconds: float | None) -> None:
        """A layer changed; `seconds` is the time spent in `source`."""

    def sampled(self, kind: str, samples: Sequence[Sample]) -> None:
        """Runs counted this of the kind's own metrics. What the kind has not declared is dropped."""

    def claimed(self, kind: str, lane: str, waits: Sequence[float]) -> None:
        """Rows were claimed that had been due for `waits` seconds."""

    def conflicted(self, kind: str, verdict: str) -> None:
        """A commit did not win: lost lease, version conflict, refusal, unknown."""

    def lease_lost(self, kind: str) -> None:
        """A step was cut off because its lease could not be renewed."""

    def rerun_limited(self, kind: str) -> None:
        """A resource was sent to the periodic lane after too many immediate reruns."""

    def woken(self, source: str) -> None:
        """The loop was woken: by a notification, its own transition, or the poll."""


class Signal(Protocol):
    """Something happened that makes rows due: set by the listener, awaited by the loop."""

    async def wait(self, timeout: timedelta) -> str:
        """Until the next signal, at most `timeout`; answers its source (`notify`, `transition`, `poll`). A
        signal set before the call is not lost."""

    def set(self, source: str) -> None:
        """Wake whoever waits. May be called any number of times."""
