"""The interfaces of the loop: a kind with its handler and its storage, the shards, the metrics and the clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from farrier.model.intents.preview import Foreseen, Posed, Question
from farrier.model.kinds.measures import Sample
from farrier.model.loop.controllers import ListedResources, Renewal, Woken
from farrier.model.loop.outcome import Change, Decision, Wait
from farrier.model.loop.restores import Hold, held
from farrier.model.loop.runs import (
    AnsweredIntent,
    CommitResult,
    Failure,
    Finished,
    LayerState,
    Loaded,
    Marking,
    Move,
    Settled,
)

# What the parts of a kind share: its snapshots (R), the states (S) and other writes (W) of its runs, and the services
# of its steps (V).
R = TypeVar("R", bound="Snapshot")
R_contra = TypeVar("R_contra", bound="Snapshot", contravariant=True)
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
W = TypeVar("W")
V = TypeVar("V")


class Clock(Protocol):
    """The monotonic clock of this process, for renewals and deadlines. Its times are never stored."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary moment, which stays the same while the process runs."""


class Snapshot(Protocol):
    """The fields that the snapshots of all kinds have."""

    @property
    def version(self) -> int:
        """The version of the resource's row. The database compares the version when it commits a run."""

    @property
    def name(self) -> str:
        """The name of the resource, which the log shows with its ID."""


class Kind(Protocol[R_contra, S_contra]):
    """The part of a kind of resource that the loop uses: data and pure functions."""

    @property
    def name(self) -> str:
        """The name of the kind in `farrier.shards`."""

    @property
    def edges(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        """The allowed pairs (from, to) of each layer. The first value of a layer needs no edge."""

    def current_layers(self, resource: R_contra) -> Mapping[str, LayerState]:
        """Return the state of the snapshot in each of its layers."""

    def target_layers(self, to: S_contra, /) -> Mapping[str, str]:
        """Return the state of each layer in `to`, the value that a handler returned."""

    def unwritten(self, resource: R_contra, to: S_contra, /) -> Sequence[str]:
        """Return the fields that differ between the snapshot and `to`, the value that a handler returned, although no
        commit writes these fields."""

    def has_ended(self, resource: R_contra) -> bool:
        """Return whether the first layer of the snapshot is in a terminal state."""

    def label(self, resource: R_contra) -> tuple[str, str]:
        """Return (state, substate) of the snapshot as values of metric labels. Both come from finite sets."""

    def asked_alone(self, resource: R_contra, intent: int, /) -> Any:
        """Return the snapshot as if the intent with this ID was the only pending intent."""

    def answers(self, resource: R_contra, writes: Sequence[object], /) -> Sequence[AnsweredIntent]:
        """Return, for the log, the answers to intents that are among the `writes` of a run on this snapshot."""

    def samples(self, resource: R_contra, to: S_contra, /) -> Sequence[Sample]:
        """Return metric samples of a run that changed this snapshot to `to`. The loop adds these to the samples of the
        run's outcome."""


class StateHandler(Protocol[R, S, W, V]):
    """Decides what to do with a resource. Pure and synchronous: the same snapshot and time give the same decision."""

    def handle(self, resource: R, now: datetime) -> Decision[S, W, V]:
        """Decide one run. Must be idempotent, because the loop may call it again after a crash at any point."""

    def recover(self, resource: R, now: datetime, step: str) -> Decision[S, W, V]:  # noqa: ARG002
        """Decide like `handle`, but after an interrupted step with the name `step`. This step may have changed an
        outside service, and its end is not recorded. The default is to call `handle`."""
        return self.handle(resource, now)

    def observe(self, resource: R, now: datetime, hold: Hold) -> Decision[S, W, V]:  # noqa: ARG002
        """Decide for a resource that is held after a restore: read the outside services, and change nothing in them.
        Must ignore intents. Only a step that only reads is allowed. `DoNothing` means that the outside services match
        the resource; the reason of a `Wait` says what differs. The default is a `Wait`, because the loop cannot compare
        anything."""
        return Wait(reason=held("farrier cannot compare this kind with the outside services"), rests=True)

    def after(self, resource: R, changed: Change[S, W], now: datetime) -> R | None:  # noqa: ARG002
        """Return the snapshot that a load would return if `changed` was committed at `now` and nothing else changed.
        Return None if this snapshot cannot be computed from `resource`; the loop then loads the resource. The default
        is None."""
        return None

    def confirmed(self, stored: R, remembered: R, now: datetime) -> R:  # noqa: ARG002
        """Return the snapshot `stored`, which was loaded at `now`, with the newer confirmations of `remembered`.
        `remembered` is the state of an `Update` with `confirms` set, or the last result of this method. Returns
        `stored` itself in three cases: `remembered` has no newer confirmation, `stored` is not in the confirmed state,
        or the confirmation is later than `now` because the clock was set back. The default is `stored`."""
        return stored


class StateIO(Protocol[R, S, W]):
    """The storage of one kind. No method keeps a connection after it returns. All methods raise `DatabaseUnreachable`
    if the database does not respond."""

    async def readable(self) -> str | None:
        """Return None if this process can read the resources of this kind. Otherwise return the reason: a right or a
        table is missing."""

    async def listing(self, shards: Sequence[int]) -> ListedResources:
        """Return the resources and marks of these shards. The resources are read after the statement that took the
        shards, so they include everything that a former owner committed."""

    async def load(self, ids: Sequence[int]) -> Loaded[R]:
        """Load snapshots of all layers, and the wakes that are visible with them, in one statement."""

    async def commit(self, runs: Sequence[Finished[S, W]], controller: UUID) -> Mapping[int, CommitResult]:
        """Commit finished runs together; each run is committed completely or not at all. Returns a result for every
        run, and never raises because of a single run. If another transaction has locked rows of a run, the result of
        the run is `locked`, and nothing of it is written."""

    async def report_locked(
        self, runs: Sequence[Finished[S, W]], results: Mapping[int, CommitResult], controller: UUID
    ) -> Mapping[int, CommitResult]:
        """Store as the outcome of each run that another transaction has locked its rows, with the session of this
        transaction. Without this outcome, nothing would show why the resource makes no progress. `results` are the
        results of the commit. Returns the results with the error that is stored."""

    async def consume(self, wakes: Mapping[int, Sequence[UUID]]) -> None:
        """Delete these wakes of resources whose runs had nothing to write. May be repeated."""

    async def mark(self, marking: Marking, controller: UUID) -> frozenset[int]:
        """Write the marks of steps before the steps begin, and remove the marks of steps that ended. Returns the IDs
        that were marked; IDs of a shard that the controller does not own are not marked."""

    async def settle(self, runs: Sequence[Finished[S, W]]) -> Mapping[int, Settled]:
        """Make sure that the commit of each run, whose reply was lost, has happened or will never happen. All runs have
        a version. Leaves out runs whose resources are locked."""

    async def interrupted(self, ids: Collection[int]) -> frozenset[int]:
        """Return the resources among `ids` that have a pending intent whose action interrupts a running step."""


class Controllers(Protocol):
    """The rows of controllers and of shards. All methods raise `DatabaseUnreachable` if the database fails or does not
    respond within some seconds. A process makes one call at a time."""

    async def join(self, controller: UUID, name: str, kinds: Sequence[str]) -> None:
        """Insert the row of this process."""

    async def renew(self, controller: UUID, lags: Mapping[str, float], *, leaving: bool = False) -> Renewal:
        """Renew the row of this process. The row contains the kinds of the process, for each kind the delay of its runs
        in seconds (`lags`), and whether the process is `leaving`. Returns the rows of all controllers, and of all
        shards of these kinds."""

    async def expire(self, controller: UUID, renewals: int | None) -> None:
        """Declare another controller dead, unless it has renewed its row since `renewals` was read. If `renewals` is
        None, declare a former ID of this process dead in any case."""

    async def take(self, controller: UUID, kind: str, shards: Sequence[int]) -> Mapping[int, int]:
        """Take the given shards, except shards with a living owner and locked shards. Returns the epochs of the taken
        shards."""

    async def give_back(self, controller: UUID, kind: str, shards: Mapping[int, int]) -> None:
        """Give back shards that the controller owns under these epochs. May be repeated."""

    async def leave(self, controller: UUID) -> None:
        """Remove the row of this process."""

    async def forget(self) -> None:
        """Remove the rows of dead controllers that own no shards."""

    async def collapse(self) -> None:
        """Delete surplus wakes of kinds that no controller runs: keep one wake of each resource. May be repeated."""

    async def poll(self, kinds: Sequence[str], floor: str) -> Woken:
        """Return all wakes since `floor`. `floor` is "0" at first, and then the floor that the previous poll
        returned."""


class Questions(Protocol):
    """Questions of clients how a handler would answer an intent. All methods raise `DatabaseUnreachable`."""

    async def open(self, kind: str, shards: Sequence[int], at_most: int) -> tuple[Question, ...]:
        """Return open questions about resources of these shards, the oldest first."""

    async def load(self, kind: str, question: Question) -> Posed:
        """Return the snapshot of the resource as if the intent of the question was pending. Nothing is stored. Raises
        `RefusedByModel` if the INSERT of the intent would fail."""

    async def answer(self, answers: Mapping[int, Foreseen]) -> None:
        """Store the answers to the questions with these IDs."""


class MetricsSink(Protocol):
    """Records the metrics of the loop. The loop reports a run only after the run's commit. No method may block or
    raise."""

    def ran(self, kind: str, runs: Mapping[str, Sequence[float]]) -> None:
        """Record committed runs: for each outcome, the duration of each run in seconds."""

    def failed(self, kind: str, failure: Failure) -> None:
        """Record a run that ended with an error."""

    def moved(self, kind: str, name: str | None, move: Move, seconds: float | None, cause: str) -> None:
        """Record a change of a layer of the resource `name`. `seconds` is the time spent in the source state."""

    def sampled(self, kind: str, samples: Sequence[Sample]) -> None:
        """Record the samples of the kind's own metrics. If the kind has not declared a metric, its samples are
        dropped."""

    def waited(self, kind: str, seconds: Sequence[float]) -> None:
        """Record for each wake the time from its insertion to the load that read it."""

    def conflicted(self, kind: str, verdict: str) -> None:
        """Record a commit that failed: a lost shard, a version conflict, locks, a refusal, or an unknown result."""

    def deferred(self, kind: str) -> None:
        """Record a run that the database deferred, as expected: the run has to wait for a limit or for a short lock."""

    def step_cancelled(self, kind: str) -> None:
        """Record a step that was interrupted because this process may no longer act."""

    def rerun_limited(self, kind: str) -> None:
        """Record that a resource is delayed after too many immediate reruns."""

    def woken(self, source: str) -> None:
        """Record the source of wakes: a notification or a poll."""
