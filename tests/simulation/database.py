"""A model of the database: what statements read in one snapshot, what they lock, and when their writes are visible.

Each method is atomic. It checks the promises when a write becomes visible, and when a step acts outside.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from farrier.controller.agenda import AgendaEntry


class Bug(enum.Enum):
    """A fault that a change of the loop's code could introduce."""

    NONE = "none"
    WAKE_DELETED_UNSEEN = "a run deletes every wake of its resource"
    EPOCH_UNCHECKED = "a commit does not compare owner and epoch"
    FENCE_NOT_LOCKED = "a commit compares owner and epoch, and does not lock them"
    STALE_DECISION_COMMITTED = "a commit does not compare the version"
    RESYNC_LEFT_OUT = "a snapshot in memory is never loaded again"
    POLL_LEFT_OUT = "no poll finds the wakes without a notification"
    ACTS_UNMARKED = "a step acts before its mark is on disk"
    ACTS_EXPIRED = "a step acts although its renewals were not confirmed"
    RECOVERY_LEFT_OUT = "the first run after a step without a recorded end does not recover"
    SETTLED_BY_VERSION = "a commit without a reply counts as done if the version is higher by one"
    WOKEN_AND_AT_REST = "a commit that leaves nothing to do drops a wake that arrived meanwhile"
    MARKS_UNORDERED = "a statement whose reply was lost removes the mark of a later step"


# The ID of a commit. A controller under one epoch has at most one commit for a version.
CommitId: TypeAlias = tuple[UUID, int, int]


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Resource:
    """`wanted` is the last request, `done` the last request that runs have carried out. A resource that is `outside`
    needs a step for that. `commit` is the ID of the last commit."""

    outside: bool
    version: int = 1
    commit: CommitId | None = None
    wanted: int = 0
    done: int = 0


@dataclass
class Snapshot:
    version: int
    wanted: int
    done: int


@dataclass
class Call:
    """A statement under way. `stage`: sent, open (its transaction holds its locks), answered. A load has no locks."""

    what: str  # load, commit, mark, unmark
    entry: AgendaEntry[Snapshot]
    owner: UUID
    epoch: int
    stage: str = "sent"
    won: bool = False
    snapshot: Snapshot | None = None  # the result of a load, or the snapshot of the decided run
    wakes: tuple[int, ...] = ()
    done: int = 0
    number: int = 0  # the number of a statement on marks, in the order of sending

    def commit_id(self) -> CommitId:
        assert self.snapshot is not None
        return self.owner, self.epoch, self.snapshot.version

    def is_on_marks(self) -> bool:
        return self.what in ("mark", "unmark")


class Database:
    """Resources, their wakes, the owners of shards, and the acts of steps outside."""

    def __init__(self, ids: Iterable[int], shards: int, bug: Bug) -> None:
        self.bug = bug
        self.resources = {id_: Resource(outside=id_ % 2 == 1) for id_ in ids}
        self.wakes: dict[int, tuple[int, int]] = {}  # number → resource, its `wanted` at the INSERT
        self.last_wake = 0
        self.owners: dict[int, tuple[UUID | None, int]] = dict.fromkeys(range(shards), (None, 0))
        self.rows: dict[UUID, int] = {}  # controller → renewals
        self.marks: set[tuple[UUID, int]] = set()  # (controller, resource)
        self.last_marked: dict[UUID, int] = {}  # the number of a controller's last statement on marks
        self.acted: dict[int, int] = dict.fromkeys(self.resources, 0)
        self.unaccounted: set[int] = set()  # resources with an act whose end no commit has recorded

    def ask(self, id_: int) -> None:
        """A client makes a request, which enqueues the resource."""
        self.resources[id_].wanted += 1
        self.last_wake += 1
        self.wakes[self.last_wake] = (id_, self.resources[id_].wanted)

    def edit(self, id_: int) -> None:
        """Another function of the database changes the resource without enqueueing it."""
        self.resources[id_].wanted += 1
        self.resources[id_].version += 1

    def read(self, call: Call) -> None:
        """Load one snapshot: the resource, and the wakes that are visible."""
        resource = self.resources[call.entry.id]
        call.snapshot = Snapshot(resource.version, resource.wanted, resource.done)
        call.wakes = tuple(sorted(number for number, (id_, _) in self.wakes.items() if id_ == call.entry.id))
        call.stage = "answered"

    def fits(self, call: Call) -> bool:
        owner, epoch = self.owners[call.entry.shard]
        fenced = (owner, epoch) == (call.owner, call.epoch) or self.bug is Bug.EPOCH_UNCHECKED
        if call.is_on_marks():
            late = call.number <= self.last_marked.get(call.owner, 0)
            return fenced and (not late or self.bug is Bug.MARKS_UNORDERED)
        assert call.snapshot is not None
        current = self.resources[call.entry.id].version == call.snapshot.version
        return fenced and (current or self.bug is Bug.STALE_DECISION_COMMITTED)

    def make_visible(self, call: Call) -> None:
        id_, snapshot = call.entry.id, call.snapshot
        owner, epoch = self.owners[call.entry.shard]
        if (owner, epoch) != (call.owner, call.epoch):
            raise Violation(f"a {call.what} of {call.owner} is visible, and the shard of {id_} is {owner}'s")
        call.stage, call.won = "answered", True
        if call.is_on_marks():
            self.last_marked[call.owner] = call.number
            self.marks = {mark for mark in self.marks if call.what == "mark" or mark[1] != id_}
            if call.what == "mark":
                self.marks.add((call.owner, id_))
            return
        assert snapshot is not None
        if self.resources[id_].version != snapshot.version:
            raise Violation(f"a {call.what} of {id_} was decided on version {snapshot.version}, and it has a later one")
        self.resources[id_].done = call.done
        self.resources[id_].version += 1
        self.resources[id_].commit = call.commit_id()
        self.unaccounted.discard(id_)
        self.delete(call.wakes, id_, snapshot)

    def delete(self, wakes: tuple[int, ...], id_: int, snapshot: Snapshot) -> None:
        if self.bug is Bug.WAKE_DELETED_UNSEEN:
            wakes = tuple(number for number, (of, _) in self.wakes.items() if of == id_)
        for number in wakes:
            _, wanted = self.wakes.pop(number, (id_, 0))
            if wanted > snapshot.wanted:
                raise Violation(f"wake {number} of {id_} is deleted, and the run did not see what it was for")

    def marked(self) -> set[int]:
        """The resources with a mark: their steps may have acted without a recorded end."""
        return {id_ for _, id_ in self.marks}

    def act(self, process: UUID, entry: AgendaEntry[Snapshot]) -> None:
        """A step acts outside. Raises Violation if it may not."""
        owner, _ = self.owners[entry.shard]
        if owner != process:
            raise Violation(f"{process} acts on {entry.id}, whose shard is {owner}'s")
        if (process, entry.id) not in self.marks:
            raise Violation(f"{process} acts on {entry.id} without its mark on disk")
        if entry.id in self.unaccounted:
            raise Violation(f"{process} acts on {entry.id} although an earlier act is not accounted for")
        assert entry.snapshot is not None
        self.acted[entry.id] = entry.snapshot.wanted
        self.unaccounted.add(entry.id)

    def undone(self) -> str | None:
        """The work that is left, as a text; None if there is none."""
        late = {id_: resource for id_, resource in self.resources.items() if resource.done != resource.wanted}
        if late:
            return f"requests were not carried out: {late}"
        if self.wakes or self.unaccounted:
            return f"left behind: wakes {self.wakes}, acts {self.unaccounted}"
        if not all(owner in self.rows for owner, _ in self.owners.values()):
            return f"a shard has no live owner: {self.owners}"
        return None
