"""The controller and the kinds it runs: what a kind brings, what the loop reports, and the clock it counts by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from farrier.model.controllers import Listed, Seen, Woken
from farrier.model.measures import Sample
from farrier.model.outcome import Decision, Transition
from farrier.model.runs import Answered, Finished, Loaded, Marking, Place, Result

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
W = TypeVar("W")
V = TypeVar("V")


class Clock(Protocol):
    """Monotonic seconds of this process: renewals and deadlines, never a time that is stored."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment of this process."""


class Kind(Protocol[R_contra, S_contra]):
    """What the loop must know about a kind of resource, as data and pure functions."""

    @property
    def name(self) -> str:
        """What it is called in `farrier.shards`."""

    @property
    def edges(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        """Layer → allowed (from, to) pairs. A layer's first value is no edge."""

    def identify(self, resource: R_contra) -> tuple[int, int]:
        """The ID and the version of a snapshot."""

    def display_name(self, resource: R_contra) -> str:
        """The name of the resource, which the log shows with its ID."""

    def current_layers(self, resource: R_contra) -> Mapping[str, Place]:
        """The state of the snapshot in each of its layers."""

    def target_layers(self, to: S_contra) -> Mapping[str, str]:
        """The state in each layer of a value that a handler returned."""

    def label(self, resource: R_contra) -> tuple[str, str]:
        """(state, substate) of the snapshot as metric labels: both from finite sets."""

    def answers(self, resource: R_contra, writes: Sequence[object], /) -> Sequence[Answered]:
        """The requests that a run on this snapshot answers with its writes, for the log."""

    def samples(self, resource: R_contra, to: S_contra, /) -> Sequence[Sample]:
        """What is counted of a run that made `to` of this snapshot, besides the samples in its outcome."""


class StateHandler(Protocol[R, S, W, V]):
    """Decides. Pure and synchronous: the same snapshot and time give the same decision."""

    def handle(self, resource: R, now: datetime) -> Decision[S, W, V]:
        """One run. Must be idempotent: it may be called again after any crash, at any point."""

    def recover(self, resource: R, now: datetime, step: str) -> Decision[S, W, V]:  # noqa: ARG002
        """The same for a resource whose last step, of this name, may have acted outside, and whose end is not recorded.
        A handler for which that makes no difference inherits this."""
        return self.handle(resource, now)

    def after(self, resource: R, moved: Transition[S, W], now: datetime) -> R | None:  # noqa: ARG002
        """The snapshot that a load would return if `moved` was committed at `now` and nothing else happened. None if
        `resource` does not show it: then it is loaded. By default None.
        """
        return None

    def confirmed(self, stored: R, remembered: R, now: datetime) -> R:  # noqa: ARG002
        """A snapshot that was loaded at `now`, with what `remembered` was confirmed to be since it was stored;
        `remembered` is what an `Update` that `confirms` made, or what this returned then. The stored one itself where
        that knows no less, is no longer what was confirmed, or was confirmed in the future, by a clock that was set
        back since. A handler that confirms nothing inherits this."""
        return stored


class StateIO(Protocol[R, S, W]):
    """Storage of one kind. No method holds a connection when it returns. All raise `DatabaseUnreachable` when the
    database cannot be asked now."""

    async def readable(self) -> str | None:
        """Why the resources of this kind cannot be read, for want of a right or of a table; None if they can."""

    async def listing(self, shards: Sequence[int]) -> Listed:
        """These shards' resources and marks. In a statement of its own, after the one that took the shards: it sees
        everything that a former owner has committed."""

    async def load(self, ids: Sequence[int]) -> Loaded[R]:
        """Load snapshots of all layers, with the wakes that they saw, in one statement."""

    async def commit(
        self, runs: Sequence[Finished[S, W]], controller: UUID, *, patient: bool = False
    ) -> Mapping[int, Result]:
        """Commit finished runs together, each all or nothing. Answers for every run and never raises for one; one that
        it did not get to in time is `unknown`. A run that writes what another transaction holds is `locked` and
        nothing of it is written; `patient` waits for that up to a second."""

    async def consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        """Delete wakes by resource: their runs had nothing to write. May be repeated."""

    async def mark(self, marking: Marking, controller: UUID) -> frozenset[int]:
        """Mark steps on disk before they act, and remove the marks of those that have ended. Returns the ids that are
        marked: none of a shard that the controller does not own."""

    async def settle(self, versions: Mapping[int, int], controller: UUID) -> Mapping[int, datetime | None]:
        """Make sure that commits whose reply was lost have happened or never will. `versions` are those that the runs
        were decided on. Returns those that have happened, with the time of one that moved a layer."""

    async def interrupted(self, ids: Collection[int]) -> frozenset[int]:
        """Those of `ids` for which a request waits that is worth cutting a reading step short."""


class Controllers(Protocol):
    """The rows of controllers and of shards. All raise `DatabaseUnreachable`, without an answer after some seconds too.
    One call of a process at a time."""

    async def join(self, controller: UUID, name: str, kinds: Sequence[str]) -> None:
        """Make this process' row."""

    async def renew(self, controller: UUID, lags: Mapping[str, float]) -> Seen:
        """Renew it, with its kinds and by how much their runs are overdue, and read all others."""

    async def expire(self, controller: UUID, renewals: int | None) -> None:
        """Declare another one dead, unless it has renewed since; None: one that this process was before."""

    async def take(self, controller: UUID, kind: str, shards: Sequence[int]) -> Mapping[int, int]:
        """Take those of these shards that have no living owner and that none has locked. Returns their epochs."""

    async def give_back(self, controller: UUID, kind: str, shards: Mapping[int, int]) -> None:
        """Give shards back that are owned under these epochs. May be repeated."""

    async def leave(self, controller: UUID) -> None:
        """Remove this process' row."""

    async def forget(self) -> None:
        """Remove the rows of dead controllers that own nothing any more."""

    async def collapse(self) -> None:
        """Leave one wake of each resource whose kind no controller runs. May be repeated."""

    async def poll(self, kinds: Sequence[str], floor: str) -> Woken:
        """All wakes since `floor`, which is "0" at first and then what the poll before returned."""


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

    def waited(self, kind: str, seconds: Sequence[float]) -> None:
        """Wakes were seen by a load so long after they were inserted."""

    def conflicted(self, kind: str, verdict: str) -> None:
        """A commit did not win: lost shard, version conflict, refusal, unknown."""

    def step_cut(self, kind: str) -> None:
        """A step was cut off because this process may not act any more."""

    def rerun_limited(self, kind: str) -> None:
        """A resource waits for its period after too many immediate reruns."""

    def woken(self, source: str) -> None:
        """Wakes were announced by a notification, or are looked for by the poll."""
