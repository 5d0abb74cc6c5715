"""A small world of controllers, clients and a database that act in turns: every action is atomic.

The controllers are the real `Ownership` and `Agenda`. The database is a model of the statements that a controller
sends: what each reads in one snapshot, what it locks, and when it is visible to others. A world is data: it can be
copied, compared and continued, so a search can follow every order of actions. `Bug` plants a fault; the search has to
find it.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from farrier.controller.agenda import Agenda, AgendaEntry, Phase
from farrier.controller.ownership import RENEW_EVERY, Ownership
from farrier.model.loop.controllers import ControllerRow, Renewal, ShardRow
from tests.simulation.budget import Budget, Size
from tests.simulation.database import Bug, Call, Database, Snapshot, Violation

KIND = "toy"
PERIOD = 30.0
# Longer than the period of a sweep, and than the time after which a controller is declared dead.
SILENCE = 32.0
# A snapshot that was loaded longer ago is loaded again before its run.
FRESH = 1.0
NOTHING_TO_DO = "nothing to do"


@dataclass
class Process:
    """One controller. `inbox` has the notifications that the controller has not read."""

    id: UUID
    ownership: Ownership
    agenda: Agenda[Snapshot]
    paused: bool = False
    inbox: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    loaded: list[tuple[AgendaEntry[Snapshot], float]] = field(default_factory=list)  # to run, with the time of the load
    steps: list[tuple[AgendaEntry[Snapshot], str]] = field(
        default_factory=list
    )  # steps that are about to act or have acted
    marking: list[tuple[str, AgendaEntry[Snapshot]]] = field(
        default_factory=list
    )  # statements on marks that are to be sent
    last_marking: int = 0
    unknown: list[Call] = field(default_factory=list)  # commits whose reply was lost


Action = tuple[str, int, int]
# The actions that a budget limits.
BEFALLS = {"ask", "edit", "silence", "crash", "pause", "lose"}


class World:
    """The state of everything. `actions` lists the possible actions, `do` executes one and checks the promises."""

    def __init__(self, size: Size, budget: Budget, bug: Bug = Bug.NONE) -> None:
        self.size, self.budget, self.bug = size, budget, bug
        self.now = 1000.0
        self.database = Database(size.ids, size.shards, bug)
        self.abandoned: list[Call] = []  # calls of dead processes and of broken connections
        self.last_process = 0
        self.processes = [self._process() for _ in range(size.processes)]
        for _ in range(3):
            self._manage_all()
        self.budget = Budget()
        self._come_to_rest()
        self.budget = budget
        self.hears_all = budget == Budget(asks=budget.asks)

    def key(self) -> bytes:
        """The pickled world, by which a search recognises equal worlds."""
        return pickle.dumps(self, protocol=pickle.HIGHEST_PROTOCOL)

    # --- actions

    def actions(self) -> Iterator[Action]:
        """Every action that is possible now: its name, and two numbers that identify its object."""
        budget = self.budget
        for id_ in self.database.resources:
            if budget.asks:
                yield "ask", id_, 1
                if budget.lost_notifications:
                    yield "ask", id_, 0
            if budget.edits and not self._is_locked(id_):
                yield "edit", id_, 0
        if budget.silences:
            yield "silence", 0, 0
        for i, call in enumerate(self.abandoned):
            yield "abort", i, 0
            if self._may_proceed(call):
                yield "proceed", -1, i
        for number, process in enumerate(self.processes):
            yield from self._actions_of(process, number)

    def _actions_of(self, process: Process, number: int) -> Iterator[Action]:
        for i, call in enumerate(process.calls):
            if call.stage != "answered" and self._may_proceed(call):
                yield "proceed", number, i
            if self.budget.lost_replies:
                yield "lose", number, i
        if process.paused:
            yield "resume", number, 0
        else:
            yield from ((name, number, 0) for name, possible in self._single_actions_of(process) if possible)
            yield from (("reply", number, i) for i, call in enumerate(process.calls) if call.stage == "answered")
            yield from (("step", number, i) for i in range(len(process.steps)))
            settling = enumerate(process.unknown)
            yield from (("settle", number, i) for i, call in settling if not self._is_locked(call.entry.id))

    def _single_actions_of(self, process: Process) -> Iterator[tuple[str, bool]]:
        yield "crash", self.budget.crashes > 0
        yield "pause", self.budget.pauses > 0
        yield "hear", bool(process.inbox)
        yield "load", process.agenda.load_at < math.inf and self.now <= process.ownership.acts_until
        yield "run", bool(process.loaded)

    def _may_proceed(self, call: Call) -> bool:
        if call.what == "load" or call.stage == "open":
            return True
        if call.is_on_marks():  # each locks its controller's row
            return not any(other.is_on_marks() and other.owner == call.owner for other in self._open_calls())
        return not self._is_locked(call.entry.id)

    def _open_calls(self) -> Iterator[Call]:
        for calls in (self.abandoned, *(process.calls for process in self.processes)):
            yield from (call for call in calls if call.stage == "open")

    def _is_locked(self, id_: int) -> bool:
        """Whether a commit under way locks the resource."""
        return any(call.entry.id == id_ and call.what == "commit" for call in self._open_calls())

    def do(self, action: Action) -> None:
        """Execute an action. Raises Violation when a promise is broken."""
        name, first, second = action
        getattr(self, f"_{name}")(first, second)

    # --- clients, and events that affect processes

    def _ask(self, id_: int, heard: int) -> None:
        self.budget.asks -= 1
        self.database.ask(id_)
        if heard:
            for process in self.processes:
                process.inbox = sorted({*process.inbox, id_})
        else:
            self.budget.lost_notifications -= 1

    def _edit(self, id_: int, _: int) -> None:
        self.budget.edits -= 1
        self.database.edit(id_)

    def _crash(self, number: int, _: int) -> None:
        self.budget.crashes -= 1
        calls = self.processes[number].calls
        self.abandoned += [call for call in calls if call.what != "load" and call.stage != "answered"]
        self.processes[number] = self._process()

    def _pause(self, number: int, _: int) -> None:
        self.budget.pauses -= 1
        self.processes[number].paused = True

    def _resume(self, number: int, _: int) -> None:
        self.processes[number].paused = False

    def _silence(self, _: int, __: int) -> None:
        """Time passes: processes that are not paused renew, observe, poll and sweep."""
        self.budget.silences -= 1
        self.pass_time()

    def pass_time(self) -> None:
        end = self.now + SILENCE
        while self.now < end:
            self.now += RENEW_EVERY
            self._manage_all()
        for process in self.processes:
            if not process.paused:
                self._poll(process)
                self._sweep(process)

    def is_quiet(self) -> bool:
        """Whether only actions of the budget are possible."""
        return all(name in BEFALLS for name, _, _ in self.actions())

    # --- ownership

    def _process(self) -> Process:
        reload_every = float("inf") if self.bug is Bug.RESYNC_LEFT_OUT else self.size.reload_every
        process = Process(
            self._next_id(),
            Ownership(),
            Agenda(reload_every=reload_every, shards=self.size.shards),
        )
        process.ownership.kinds = frozenset([KIND])
        self._join(process)
        return process

    def _next_id(self) -> UUID:
        self.last_process += 1
        return UUID(int=self.last_process)

    def _join(self, process: Process) -> None:
        self.database.rows[process.id] = 0
        process.ownership.read_timeline("1", self.now)
        process.ownership.join(process.id, self.now)

    def _manage_all(self) -> None:
        for process in self.processes:
            if not process.paused:
                self._manage(process)

    def _manage(self, process: Process) -> None:
        """Renew, and act on the result. Each statement is a transaction of its own."""
        ownership = process.ownership
        if process.id not in self.database.rows:
            self._drop(process, [number for _, number in ownership.renewed(self._seen(process), self.now)])
            if process.steps or process.calls:
                return  # the controller joins again only when the steps of its old row have ended
            process.id = self._next_id()
            self._join(process)
        self.database.rows[process.id] += 1
        self._drop(process, [number for _, number in ownership.renewed(self._seen(process), self.now)])
        plan = ownership.plan(self.now)
        for expired in plan.expired:
            if self.database.rows.get(expired.id) == expired.renewals:
                del self.database.rows[expired.id]
        for _, number in plan.take:
            self._take(process, number)
        for (_, number), epoch in list(ownership.held.items()):
            marking = any(entry.shard == number for _, entry in process.marking)
            marking |= any(call.entry.shard == number for call in process.calls if call.is_on_marks())
            closing = (KIND, number) in ownership.closing
            if closing and process.agenda.is_quiet(number) and not marking:
                self._give_back(process, number, epoch)

    def _seen(self, process: Process) -> Renewal:
        """The reply to a renewal of the process."""
        rows, owners = self.database.rows, self.database.owners
        return Renewal(
            renewed=process.id in rows,
            timeline="1",
            started=0.0,
            controllers=tuple(ControllerRow(id_, frozenset([KIND]), renewals, "1") for id_, renewals in rows.items()),
            expired=False,
            shards=tuple(ShardRow((KIND, number), owner, epoch) for number, (owner, epoch) in owners.items()),
        )

    def _give_back(self, process: Process, number: int, epoch: int) -> None:
        """From here on the process sends no commit for the shard. A commit whose reply was lost may still be open: the
        statement then fails on its lock, and the process keeps the shard in the database."""
        process.ownership.gave_back([(KIND, number)])
        process.agenda.lost(number)
        if not any(call.entry.shard == number for call in self._open_calls()):
            self.database.owners[number] = (None, epoch)

    def _take(self, process: Process, number: int) -> None:
        owner, epoch = self.database.owners[number]
        if any(call.entry.shard == number for call in self._open_calls()) and self.bug is not Bug.FENCE_NOT_LOCKED:
            return  # FOR NO KEY UPDATE SKIP LOCKED
        if owner in self.database.rows and owner != process.id:
            return
        self.database.owners[number] = (process.id, epoch + 1)
        process.ownership.took({(KIND, number): epoch + 1})
        marked = self.database.marked()
        woken = {id_ for id_, _ in self.database.wakes.values()} | marked
        ids = {id_: id_ in woken for id_ in self.database.resources if id_ % self.size.shards == number}
        self._forget(process, [number])
        process.agenda.took([number], ids, dict.fromkeys(marked, "work"))

    def _drop(self, process: Process, numbers: list[int]) -> None:
        for number in numbers:
            process.agenda.lost(number)
        self._forget(process, numbers)

    def _forget(self, process: Process, numbers: list[int]) -> None:
        process.steps = [(entry, stage) for entry, stage in process.steps if entry.shard not in numbers]
        process.marking = [(what, entry) for what, entry in process.marking if entry.shard not in numbers]

    # --- wakes, loads, runs

    def _poll(self, process: Process) -> None:
        if self.bug is not Bug.POLL_LEFT_OUT:
            found: dict[int, set[int]] = {}
            for wake, (id_, _) in self.database.wakes.items():
                found.setdefault(id_, set()).add(wake)
            process.agenda.polled(found)

    def _hear(self, number: int, _: int) -> None:
        process = self.processes[number]
        if process.agenda.woken([process.inbox.pop(0)]):
            self._poll(process)

    def _load(self, number: int, _: int) -> None:
        process = self.processes[number]
        for entry in process.agenda.load(1) or process.agenda.load(1, mass=True):
            process.calls.append(Call("load", entry, process.id, self._epoch(process, entry)))

    def _sweep(self, process: Process) -> None:
        for entry in process.agenda.wheel.take(self.now, 1000):
            snapshot = entry.snapshot
            if snapshot is None or entry.reload_at <= self.now:
                process.agenda.reload(entry, self.now)
            elif snapshot.done == snapshot.wanted:
                process.agenda.wheel.put(entry, self.now + PERIOD)
            else:
                process.agenda.requeue(entry)

    def _run(self, number: int, _: int) -> None:
        process = self.processes[number]
        entry, loaded_at = process.loaded.pop(0)
        snapshot = entry.snapshot
        assert snapshot is not None
        if entry.phase is Phase.GONE:
            return
        if self.now > process.ownership.acts_until or self.now - loaded_at > FRESH:
            process.agenda.requeue(entry)
        elif entry.step is not None and self.bug is not Bug.RECOVERY_LEFT_OUT:
            self._send(process, entry, self.database.acted[entry.id])
        elif snapshot.done == snapshot.wanted:
            self._ended(process, entry)
            seen = process.agenda.rests(entry, self.now + PERIOD, outcome=NOTHING_TO_DO)
            self.database.delete(seen, entry.id, snapshot)
        elif not self.database.resources[entry.id].outside:
            self._send(process, entry, snapshot.wanted)
        elif (KIND, entry.shard) in process.ownership.closing:
            process.agenda.defer(entry, self.now + 1)
        else:
            process.agenda.acts(entry, "work")
            if self.bug is Bug.ACTS_UNMARKED:
                process.steps.append((entry, "to act"))
            else:
                self._enqueue_mark(process, "mark", entry)

    def _epoch(self, process: Process, entry: AgendaEntry[Snapshot]) -> int:
        return process.ownership.held[KIND, entry.shard]

    def _ended(self, process: Process, entry: AgendaEntry[Snapshot]) -> None:
        if entry.step is not None and entry.phase is not Phase.GONE:
            self._enqueue_mark(process, "unmark", entry)
        entry.step = None

    def _enqueue_mark(self, process: Process, what: str, entry: AgendaEntry[Snapshot]) -> None:
        """Queue a statement on a mark; it replaces one that is queued for the same entry."""
        process.marking = [(each, other) for each, other in process.marking if other is not entry]
        process.marking.append((what, entry))
        self._send_mark(process)

    def _send_mark(self, process: Process) -> None:
        """A process sends one statement on marks at a time."""
        if process.marking and not any(call.is_on_marks() for call in process.calls):
            what, entry = process.marking.pop(0)
            process.last_marking += 1
            epoch, number = self._epoch(process, entry), process.last_marking
            process.calls.append(Call(what, entry, process.id, epoch, number=number))

    def _send(self, process: Process, entry: AgendaEntry[Snapshot], done: int) -> None:
        if not process.agenda.commits(entry):
            return
        epoch = self._epoch(process, entry)
        process.calls.append(
            Call("commit", entry, process.id, epoch, snapshot=entry.snapshot, wakes=entry.wakes, done=done)
        )

    def _step(self, number: int, which: int) -> None:
        process = self.processes[number]
        entry, stage = process.steps.pop(which)
        if stage == "acted":
            self._send(process, entry, self.database.acted[entry.id])
        elif self.now <= process.ownership.acts_until or self.bug is Bug.ACTS_EXPIRED:
            self.database.act(process.id, entry)
            process.steps.append((entry, "acted"))
        else:
            process.agenda.requeue(entry)

    def _settle(self, number: int, which: int) -> None:
        process = self.processes[number]
        call = process.unknown.pop(which)
        if call.entry.phase is not Phase.UNKNOWN:
            return
        resource = self.database.resources[call.entry.id]
        assert call.snapshot is not None
        if self.bug is Bug.SETTLED_BY_VERSION:
            happened = resource.version == call.snapshot.version + 1
        else:
            happened = resource.commit == call.commit_id()
        if resource.version == call.snapshot.version:
            resource.version += 1
        if happened:
            self._ended(process, call.entry)
        process.agenda.requeue(call.entry)

    def _nothing_done(self, process: Process, entry: AgendaEntry[Snapshot]) -> None:
        self._ended(process, entry)
        process.agenda.requeue(entry)

    # --- statements at the server

    def _proceed(self, number: int, which: int) -> None:
        call = (self.abandoned if number < 0 else self.processes[number].calls)[which]
        if call.what == "load":
            self.database.read(call)
        elif call.stage == "sent":
            call.stage = "open" if self.database.fits(call) else "answered"
        else:
            self.database.make_visible(call)
        if call.stage == "answered" and number < 0:
            self.abandoned.pop(which)

    # --- replies

    def _reply(self, number: int, which: int) -> None:
        process = self.processes[number]
        call = process.calls.pop(which)
        entry = call.entry
        if call.what == "load":
            assert call.snapshot is not None
            if process.agenda.loaded(entry, call.snapshot, call.wakes, now=self.now):
                process.loaded.append((entry, self.now))
        elif call.is_on_marks():
            if call.what == "mark" and not call.won:
                self._nothing_done(process, entry)
            elif call.what == "mark" and process.ownership.held.get((KIND, entry.shard)) == call.epoch:
                process.steps.append((entry, "to act"))
            self._send_mark(process)
        elif not call.won:
            process.agenda.requeue(entry)
        elif self.database.resources[entry.id].outside:
            self._ended(process, entry)
            process.agenda.committed(entry, None)
        else:
            self._ended(process, entry)
            if self.bug is Bug.WOKEN_AND_AT_REST:
                entry.again = False
            assert call.snapshot is not None
            left = Snapshot(call.snapshot.version + 1, call.snapshot.wanted, call.done)
            process.agenda.committed(entry, self.now + PERIOD, (left, NOTHING_TO_DO))

    def _lose(self, number: int, which: int) -> None:
        """The connection breaks, and the server may still execute the statement."""
        self.budget.lost_replies -= 1
        process = self.processes[number]
        call = process.calls.pop(which)
        if call.what == "load":
            process.agenda.not_loaded([call.entry])
            return
        if call.stage != "answered":
            self.abandoned.append(call)
        if call.what == "mark":
            self._nothing_done(process, call.entry)
            self._send_mark(process)
        elif call.what == "unmark":
            if call.entry.phase is not Phase.GONE and call.entry.id not in {each.id for _, each in process.marking}:
                process.marking.append(("unmark", call.entry))
            self._send_mark(process)
        else:
            process.agenda.unknown(call.entry)
            process.unknown.append(call)

    def _abort(self, which: int, _: int) -> None:
        self.abandoned.pop(which)

    # --- the end

    def finish(self) -> None:
        """Let all work under way end, and let time pass. Raises Violation unless all work is done in time."""
        self.budget = Budget()
        for process in self.processes:
            process.paused = False
        for _ in range(12):
            self._come_to_rest()
            if self.hears_all and self.database.undone():
                raise Violation(f"what was heard waits until time passes: {self.database.undone()}")
            self.pass_time()
            self._come_to_rest()
            if self.database.undone() is None:
                return
        raise Violation(self.database.undone())

    def _come_to_rest(self) -> None:
        for _ in range(400):
            action = next(self.actions(), None)
            if action is None:
                return
            self.do(action)
        raise Violation("the world does not come to rest")
