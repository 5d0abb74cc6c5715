"""What rooms may ask of each other.

Each room sees the others only as one of these protocols; `wiring` passes the concrete ones. A method's
docstring is its contract: whether it may be called twice, what it raises, what the caller does with the
result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from farrier.model.actions import Action
from farrier.model.agent import AgentTask, Enrolled, Heartbeat
from farrier.model.bmc import BmcReading, BmcTarget
from farrier.model.clocks import Limits, Overdue
from farrier.model.credential import Credential
from farrier.model.fleet import NewNode, NodeGlance, PastMove
from farrier.model.maas import (
    BlockDevice,
    Event,
    Identity,
    Interface,
    Machine,
    PowerAddress,
    ScriptSet,
)
from farrier.model.maas_changes import Change, LookUp, NewMachine
from farrier.model.node import TaskType
from farrier.model.outcome import Decision
from farrier.model.params import PowerRequest
from farrier.model.requests import Answer, Registration, Request
from farrier.model.schedule import Claim, Finished, Lane, Loaded, Place, Result
from farrier.model.views import Figures, HistoryKey, NodeDetail, NodeView, Page, Past, TaskView, Wanted, WantedPast

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


# --- the controller and the kinds it runs


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

    def places(self, resource: R_contra) -> Mapping[str, Place]:
        """Where the snapshot stands in each of its layers."""

    def values(self, to: S_contra) -> Mapping[str, str]:
        """The layers' values in a state that a handler returned."""

    def label(self, resource: R_contra) -> tuple[str, str]:
        """(state, substate) of the snapshot as metric labels: both from finite sets."""


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

    async def load(self, ids: Sequence[int]) -> Loaded[R]:
        """Snapshots of all layers. A second statement on purpose: joined to the claim it could take over a
        `wake_seq` whose cause its snapshot cannot see."""

    async def commit(self, runs: Sequence[Finished[S, W]], *, patient: bool = False) -> Mapping[int, Result]:
        """Commit finished runs together, each all or nothing, and give their rows back. Answers for every
        run and never raises for one. A row that somebody has locked is `locked` and untouched; `patient`
        waits for it up to a second."""

    async def renew(self, tokens: Mapping[int, int]) -> frozenset[int]:
        """Extend the leases of {id: token}; answers the ids renewed. Rows locked by others are passed
        over."""

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


# --- BMC and credentials


class BmcClient(Protocol):
    """Speaks to BMCs. Every failure is a `BmcError` with its class; it says with `sent` whether an action may have
    reached the BMC, with `dialled` whether anything was sent at all, and with `retry_after` how long nobody should
    try again. Calls for one BMC run one after the other, each after at most one refused login, and a BMC that
    refused three logins within five minutes is not dialled until the first of them is that old."""

    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        """One pass over the power interface, the management interface and a real power state.

        `macs`: read the addresses of the interfaces even if the system's path is known, for a check of identity.
        Sends GETs only, within one overall deadline, so a call may be repeated, cut short or abandoned.
        """

    async def read(self, target: BmcTarget) -> BmcReading:
        """One GET of the system, for power, health and identity together; `power` may be `unknown`. May be called
        as often as wanted. Raises `ValueError` without a `system_path`."""

    async def set_power(self, target: BmcTarget, wanted: PowerRequest, *, send: bool = True) -> BmcReading:
        """Make power `wanted` and prove it by reading; `on` is what is wanted after a reset. Needs a `system_path`.

        Reads first: a system that already is as wanted gets no action. Else the action is sent once, of a type that
        the BMC allows, and never again, whatever becomes of the answer; then the system is read until it is as
        wanted. `BmcError` `timeout` when it is not in time. Not to be repeated blindly: after an error with `sent`,
        or when nobody knows, the caller passes `send=False`, which only reads. A reset of a system that is off
        switches it on; off is at once, without asking the operating system.
        """


class CredentialStore(Protocol):
    """Turns references (`file:/run/creds/bmc-1`) into secrets. Those of this machine are read anew for each call; those
    of a server may be some seconds old, so that asking often is cheap."""

    async def resolve(self, reference: str) -> Credential:
        """The secret behind `reference`. Raises `CredentialError`, whose text holds no secret; `temporary` when the
        same reference may do later."""

    async def version(self, reference: str) -> str:
        """The version that `resolve` would answer: how a rotation is noticed. May be asked for each power sync.
        Raises as `resolve` does."""


class ServiceObserver(Protocol):
    """Told of every request that a service client sends. Must not block or raise."""

    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        """One request ended. The labels come from finite sets; `result`: `ok`, `cancelled` or a failure
        class."""


# --- MAAS


class MaasClient(Protocol):
    """Speaks to one MAAS region. Every failure is a `MaasError`; it says with `ambiguous` whether a change may have
    been made all the same. Reads may be repeated, cut short or abandoned. A change is sent once: after an error, and
    before each repetition, the caller reads and decides anew, and recognises its own earlier call by its comment."""

    async def version(self) -> str:
        """The region's version; proves nothing about the key."""

    async def whoami(self) -> Identity:
        """Whom the key belongs to: the probe of the key."""

    async def config(self, name: str) -> str | int | float | bool | None:
        """A setting of the region."""

    async def machines(self, by: LookUp, values: Sequence[str]) -> tuple[Machine, ...]:
        """Those with one of `values`, each once, in chunks. One that is not listed may be hidden: only `machine` proves
        that it is absent."""

    async def machine(self, system_id: str) -> Machine:
        """One machine. `absent` means that the region has none of this id."""

    async def power_addresses(self, ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        """Where the BMCs of these machines, or of all, are, by system id."""

    async def block_devices(self, system_id: str) -> tuple[BlockDevice, ...]:
        """The machine's disks."""

    async def interfaces(self, system_id: str) -> tuple[Interface, ...]:
        """The machine's network interfaces."""

    async def events(
        self, *, after: int | None = None, system_id: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Oldest first, each once; of one machine or of all. With `after` the first behind that id, without it the last
        that there are. Ids may appear out of order: read a few of them again."""

    async def results(self, system_id: str, kind: str) -> tuple[ScriptSet, ...]:
        """Rounds of scripts of a kind: `commissioning`, `testing` or `installation`."""

    async def create(self, new: NewMachine) -> Machine:
        """Make a machine. `invalid` with `hostname` or `mac_addresses` in `fields`: look for it, it may be there."""

    async def do(self, machine: Machine, change: Change) -> None:
        """Ask for a change of a machine that was just read. `foreign_owner`, and nothing sent, if somebody else holds
        it. Success says that the region took it; what becomes of it is read later."""


# --- the enqueuer and what it hears


class Wakes(Protocol):
    """Where wake-ups are asked for."""

    async def wake(self, kind: str, ids: Sequence[int]) -> None:
        """Make the handlers of these resources run as soon as possible, all in one transaction. May be
        called again. Raises `RefusedByModel`, and wakes none, if one of them is not scheduled;
        `DatabaseUnreachable`."""


class Subscription(Protocol):
    """One listening connection."""

    async def heard(self, patience: timedelta) -> bool:
        """Wait for a wake-up; False when `patience` is over. One that came before the call counts. Raises
        `DatabaseUnreachable` when the connection is gone."""

    async def prove(self) -> None:
        """Send a message around and wait for it. Raises `DatabaseUnreachable` when it does not come: the
        connection is dead without saying so, or a pooler hands each transaction to another session."""


class Notifications(Protocol):
    """Where wake-ups are heard of."""

    def subscribe(self) -> AbstractAsyncContextManager[Subscription]:
        """Listen on a connection of its own, closed at the end. Raises `DatabaseUnreachable`."""


# --- agents that are simulated


class AgentApi(Protocol):
    """What agents ask of the database. All raise `RefusedByModel` for what it refuses and
    `DatabaseUnreachable`."""

    async def enroll(self, token: str, facts: Mapping[str, Any]) -> Enrolled:
        """Spend a bootstrap token: it works once."""

    async def beat(self, beats: Sequence[Heartbeat]) -> frozenset[int]:
        """Signs of life, in one transaction. Answers the nodes that took theirs; the others are deleted or
        have another agent by now, and those agents are to end."""

    async def claim(self, nodes: Sequence[int], types: Sequence[TaskType], lease: timedelta) -> tuple[AgentTask, ...]:
        """For each node's agent the oldest queued task of these types, if there is one."""

    async def renew(self, task: AgentTask, lease: timedelta) -> None:
        """Keep a task. `RefusedByModel`: it is no longer the claimant's, who must stop."""

    async def finish(self, task: AgentTask, *, succeeded: bool, result: Mapping[str, Any]) -> None:
        """End a task. May be called again. `RefusedByModel`: as for `renew`."""


class FleetApi(Protocol):
    """What a service beside farrier does with nodes. All raise `RefusedByModel` for what the database refuses and
    `DatabaseUnreachable`."""

    async def register(self, nodes: Sequence[NewNode]) -> None:
        """Register all of them, or none."""

    async def ask(self, node: str, action: Action, params: Mapping[str, Any]) -> int:
        """Insert an intent; answers its id. What becomes of it is seen later."""

    async def glance(self, after: int) -> tuple[NodeGlance, ...]:
        """Where all nodes stand whose id is above `after`."""

    async def moves(self, newest: int) -> tuple[PastMove, ...]:
        """The `newest` moves, newest first."""

    async def newest(self) -> int:
        """The highest id that a node has; 0 if there is none."""


# --- Queries: what is shown, and what is asked for


class Queries(Protocol):
    """Reads for people and other programs; decides and writes nothing. A node is given by its name or its id; a name
    means the node that has it now, else the last one that had it. All raise `RefusedByModel` for a node that never
    was and for what the connection's role may not see, and `DatabaseUnreachable`."""

    async def inventory(self, wanted: Wanted, *, after: str = "", limit: int = 1000) -> Page[NodeView]:
        """Nodes by name, those whose name comes behind `after`. Fewer than `limit` rows: that was the last page."""

    async def overdue(self, wanted: Wanted, limits: Limits) -> Page[Overdue]:
        """All nodes above one of their limits, the worst first. `limits` are those that are not the default."""

    async def node(self, node: str) -> Page[NodeDetail]:
        """One row: everything of one node."""

    async def history_of(
        self, node: str, wanted: WantedPast, *, before: HistoryKey | None = None, limit: int = 1000
    ) -> tuple[Past, ...]:
        """Changes of one node, the newest first, those that come before `before`."""

    async def history(
        self, wanted: WantedPast, *, after: HistoryKey | None = None, limit: int = 1000
    ) -> tuple[Past, ...]:
        """Changes of all nodes, deleted ones included, by node and oldest first, those that come behind `after`.
        A page costs the same however long the history is."""

    async def tasks(self, node: str | None, statuses: Sequence[str] = (), *, limit: int = 1000) -> Page[TaskView]:
        """Agent tasks, the newest first; of one node or of all."""

    async def figures(self) -> Figures:
        """The fleet in numbers."""


class Requests(Protocol):
    """What may be asked for. A node is given by its name or its id. All raise `RefusedByModel` (its `sqlstate` and
    `hint` are the database's; `MalformedRequest` if it could never be right) and `DatabaseUnreachable`."""

    async def ask(self, request: Request) -> int:
        """Insert an intent; answers its id, or that of the first with the same idempotency key and content."""

    async def answer(self, intent: int, patience: timedelta) -> Answer | None:
        """Wait until an intent is answered. None: it is still pending after `patience`."""

    async def register(self, registration: Registration) -> int:
        """Make a node; answers its id."""

    async def issue_bootstrap(self, node: str, ttl: timedelta) -> str:
        """A new bootstrap token, which is told here and never again; earlier unused ones are worthless."""

    async def enqueue(self, kind: str, resource: str) -> int:
        """Make a resource's handler run as soon as possible; answers its id. Nodes may be given by name."""
