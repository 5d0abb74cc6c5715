"""The controller of this process: which shards it owns, and the loops that run their resources.

Every two seconds a round renews this process' row, sees who else is alive, and takes or gives back shards. One round
runs at a time: a renewal beside the process' own take would miss it. Wakes that no notification announced are polled
for. `ownership` decides, and `loop` does the work.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn
from uuid import UUID, uuid4

import anyio
import structlog

from farrier.controller.host import Host, asked
from farrier.controller.loop import Loop
from farrier.controller.ownership import RENEW_EVERY
from farrier.controller.signal import Wakeup
from farrier.errors import DatabaseUnreachable
from farrier.model.controllers import ACT_FOR, SHARDS, Seen, Shard, Woken
from farrier.protocols import Controllers

_log = structlog.stdlib.get_logger(__name__)

AnyLoop = Loop[Any, Any, Any, Any]

_LIST_SECONDS = 60.0
_POLL_SECONDS = _LEAVE_SECONDS = 5.0
# Shards of one statement; a renewal is not to wait for the listing of a million resources, so a round takes no more
# shards of a kind once it has listed so many resources.
_AT_ONCE = 16
_MANY = 10_000
# A former owner on a server that is no longer the primary may act for six.
_AFTER_PROMOTION = ACT_FOR + 1
_COLLAPSE_EVERY = 60.0
# How often kinds that cannot be read are tried again, in seconds.
_TRY_KINDS_EVERY = 30.0
_DRAINING = 0.1
# Without the database, or a row of its own, seconds until the next round.
_SOON = 0.5
_WATCH = 0.2


class Controller:
    """One process. `ready` is set once it has its first shards, or has seen that others have them all."""

    def __init__(
        self, controllers: Controllers, loops: Sequence[AnyLoop], host: Host, *, name: str | None = None
    ) -> None:
        self.ready = anyio.Event()
        self._controllers = controllers
        self._loops = {loop.kind: loop for loop in loops}
        self._host = host
        self._clock = host.clock
        self._own = host.ownership
        self._name = name or socket.gethostname()
        self._nudge, self._poll_now = Wakeup(), Wakeup()
        self._era: tuple[str, float] | None = None
        self._join_at = self._kinds_at = self._collapse_at = float("-inf")
        self._before: UUID | None = None  # what this process joined as last
        self._floor = "0"
        self._resync: dict[str, int] = dict.fromkeys(self._loops, 0)
        self._resynced_at = host.clock.monotonic()
        self._rounds = anyio.Lock()
        self._stopping = False

    @property
    def in_flight(self) -> int:
        """Steps and commits under way, of all kinds."""
        return sum(len(loop.agenda.under_way) for loop in self._loops.values())

    def woken(self, kind: str, ids: Sequence[int] | None) -> None:
        """Enqueue the resources of a notification. None: it had more IDs than it can hold. Never blocks."""
        if kind == "shards":
            self._nudge.set("notify")
        elif ids is None:
            self._poll_now.set("notify")
        elif kind in self._loops:
            self._host.sink.woken("notify")
            self._loops[kind].woken(ids)

    def heard_nothing(self) -> None:
        """Notifications may have been missed: look for their wakes."""
        self._poll_now.set("notify")

    async def run(self, stop: anyio.Event) -> None:
        """Work until `stop` is set, then drain and give all shards back. Cancelling instead leaves them to others, once
        these have seen for ten seconds that its row is not renewed."""
        async with anyio.create_task_group() as managing:
            for serve in (self._manage, self._poll, self._watch):
                managing.start_soon(serve)
            async with anyio.create_task_group() as loops:
                for loop in self._loops.values():
                    loops.start_soon(loop.run, stop, name=f"loop of {loop.kind}")
                await stop.wait()
                self._stopping = True
                self._nudge.set("stop")
            # A torn statement may have given its shards back or not: others would wait until this controller expires.
            async with self._rounds:
                managing.cancel_scope.cancel()
        await self._leave()

    async def _manage(self) -> NoReturn:
        while True:
            more = failed = False
            began = self._clock.monotonic()
            try:
                async with self._rounds:
                    more = await self._round()
            except (DatabaseUnreachable, TimeoutError) as error:
                failed = True
                _log.warning("renew.failed", error=str(error))
            else:
                if self._own.id is not None and not more:
                    self.ready.set()
            if self._own.is_out_of_touch(self._clock.monotonic()):
                await self._give_up()
            if not more:
                soon = _DRAINING if self._stopping else _SOON
                hurries = failed or self._stopping or self._own.id is None
                # From one beginning to the next: observers count reads that are not far apart, however slow a round is.
                left = RENEW_EVERY - (self._clock.monotonic() - began)
                await self._nudge.wait(soon if hurries else max(left, _DRAINING))

    async def _round(self) -> bool:
        """Renew, look around, take and give back. Returns whether there is more to take at once."""
        await self._try_kinds()
        if self._own.id is None and not await self._join():
            return False
        assert self._own.id is not None
        lags = {kind: self._loops[kind].lag() for kind in sorted(self._own.kinds)}
        sent_at = self._clock.monotonic()
        seen = await self._controllers.renew(self._own.id, lags)
        if not self._is_same_server(seen):
            return False
        if not self._host.may_act():  # no step of before the silence goes on after it
            self._cut()
        owned = seen.owned_by(self._own.id) if seen.renewed else None
        self._lose(self._own.renewed(owned, sent_at))
        if not seen.renewed:
            _log.warning("controller.expired")
            return False
        self._own.observed(seen.controllers, seen.rows(), sent_at)
        more = await self._follow_plan()
        await self._give_back_quiet()
        await self._list_anew()
        await self._tidy_up(seen)
        return more

    async def _join(self) -> bool:
        """Under a new id, once the steps of the old one have ended."""
        now = self._clock.monotonic()
        if now < self._join_at or self._stopping or any(len(loop.steps) for loop in self._loops.values()):
            return False
        id_ = uuid4()
        if self._before is not None:  # none is to wait until its row has stood still for long enough
            await self._controllers.expire(self._before, None)
        await self._controllers.join(id_, self._name, sorted(self._own.kinds))
        self._before = id_
        self._own.join(id_, now)
        _log.info("controller.joined", controller=str(id_), kinds=sorted(self._own.kinds))
        return True

    def _is_same_server(self, seen: Seen) -> bool:
        """After a restart all that is in memory is loaded anew; after the promotion of a standby this process owns
        nothing, and waits until none that believes in the former primary can act."""
        before, self._era = self._era, seen.era
        if before is None or before == seen.era:
            return True
        self._floor = "0"
        if before[0] == seen.timeline:
            _log.warning("database.restarted")
            for loop in self._loops.values():
                loop.woken_all()
            return True
        _log.warning("database.promoted", timeline=seen.timeline)
        self._join_at = self._clock.monotonic() + _AFTER_PROMOTION
        self._lose(self._own.abandoned())
        return False

    async def _follow_plan(self) -> bool:
        plan = self._own.plan()
        assert self._own.id is not None
        for dead in plan.expired:
            _log.warning("controller.declared_dead", controller=str(dead.id))
            await self._controllers.expire(dead.id, dead.renewals)
        self._own.closing(plan.close, self._clock.monotonic())
        self._own.reopened(plan.reopen)
        if self._stopping:
            return False
        more = bool(plan.expired)
        for kind, rows in _by_kind(row.shard for row in plan.take).items():
            for first in range(0, len(rows), _AT_ONCE):
                if await self._take(kind, rows[first : first + _AT_ONCE]) > _MANY:
                    more |= first + _AT_ONCE < len(rows)
                    break
        return more

    async def _take(self, kind: str, shards: Sequence[int]) -> int:
        """Take shards, and list their resources in a later statement. Returns how many resources they have."""
        assert self._own.id is not None
        taken = await self._controllers.take(self._own.id, kind, shards)
        if not taken:
            return 0
        with anyio.fail_after(_LIST_SECONDS):
            listed = await self._loops[kind].io.listing(list(taken))
        by_shard: dict[int, dict[int, bool]] = {shard: {} for shard in taken}
        for id_, woken in listed.ids.items():
            by_shard[id_ % SHARDS][id_] = woken
        self._own.took({(kind, shard): epoch for shard, epoch in taken.items()})
        for shard, ids in by_shard.items():
            self._loops[kind].took(shard, ids, listed.steps)
        _log.info("shards.taken", kind=kind, shards=len(taken), resources=len(listed.ids))
        return len(listed.ids)

    async def _give_back_quiet(self) -> None:
        """Those that are closing and of which nothing is under way; when the process stops, all that are quiet. Steps
        have as long to end as when the process stops."""
        latest = self._clock.monotonic() - self._host.config.drain_timeout.total_seconds()
        quiet: list[Shard] = []
        for kind, shard in self._own.held:
            since = self._own.closing_since((kind, shard))
            if since is not None and since <= latest:
                self._loops[kind].steps.interrupt_all(shard)
            if (self._stopping or since is not None) and self._loops[kind].is_quiet(shard):
                quiet.append((kind, shard))
        await self._give_back(quiet)

    async def _give_back(self, shards: Iterable[Shard]) -> None:
        assert self._own.id is not None
        held = self._own.held
        for kind, numbers in _by_kind(shards).items():
            for number in numbers:  # from here on no commit of it is sent
                self._loops[kind].lost(number)
            self._own.gave_back((kind, number) for number in numbers)
            epochs = {number: held[kind, number] for number in numbers}
            await self._controllers.give_back(self._own.id, kind, epochs)

    async def _list_anew(self) -> None:
        """List some shards' resources again, so that each is listed once in the time of a resync."""
        now = self._clock.monotonic()
        due = int((now - self._resynced_at) / self._host.config.resync.total_seconds() * SHARDS)
        if due < 1:
            return
        self._resynced_at = now
        for kind, loop in self._loops.items():
            first = self._resync[kind]
            self._resync[kind] = (first + due) % SHARDS
            numbers = {(first + each) % SHARDS for each in range(min(due, SHARDS))}
            held = [number for number in numbers if (kind, number) in self._own.held]
            if held:
                with anyio.fail_after(_LIST_SECONDS):
                    listed = await loop.io.listing(held)
                for number in held:
                    loop.listed(number, [id_ for id_ in listed.ids if id_ % SHARDS == number])

    async def _tidy_up(self, seen: Seen) -> None:
        """Remove what is left of dead controllers, and wakes that none is there to run."""
        now = self._clock.monotonic()
        if seen.expired:
            await self._controllers.forget()
        if now >= self._collapse_at:
            await self._controllers.collapse()
            self._collapse_at = now + _COLLAPSE_EVERY

    async def _try_kinds(self) -> None:
        """A kind whose tables this process may not read is not run here, and the shards of it are for others."""
        now = self._clock.monotonic()
        if now < self._kinds_at or len(self._own.kinds) == len(self._loops):
            return
        self._kinds_at = now + _TRY_KINDS_EVERY
        for kind, loop in self._loops.items():
            if kind in self._own.kinds:
                continue
            reason = await loop.io.readable()
            if reason is None:
                self._own.kinds |= {kind}
            else:
                _log.error("kind.not_run", kind=kind, error=reason)

    def _cut(self) -> None:
        for loop in self._loops.values():
            loop.steps.cut_all()

    def _lose(self, shards: Iterable[Shard]) -> None:
        lost = list(shards)
        for kind, shard in lost:
            self._loops[kind].lost(shard)
        if lost:
            _log.warning("shards.lost", shards=len(lost))

    async def _give_up(self) -> None:
        """Replies come too late, if they come: the shards are for a controller that is heard in time."""
        held = self._own.held
        await self._leave()
        self._lose(held)  # whatever became of the statements
        self._own.abandoned()

    async def _leave(self) -> None:
        """Steps that have not ended leave their marks, and commits that are under way are fenced off."""
        if self._own.id is None:
            return
        with asked(_LEAVE_SECONDS, lambda error: _log.warning("give_back.failed", error=error), shield=True):
            await self._give_back(list(self._own.held))
            await self._controllers.leave(self._own.id)

    async def _poll(self) -> NoReturn:
        """Look for wakes that no notification announced, for ever."""
        while True:
            self._host.sink.woken(await self._poll_now.wait(self._host.config.poll_interval.total_seconds()))
            if not self._own.held:
                continue
            floor, self._floor = self._floor, "0"
            with asked(_POLL_SECONDS, lambda error: _log.warning("poll.failed", error=error)):
                found = await self._controllers.poll(sorted(self._own.kinds), floor)
                self._floor = found.floor
                self._hear(found)

    def _hear(self, found: Woken) -> None:
        for loop in self._loops.values():
            loop.timed(found.now)
        for kind, wakes in found.wakes.items():
            self._loops[kind].polled(wakes)

    async def _watch(self) -> NoReturn:
        """End all steps once this process may not act any more: it could not renew in time."""
        might = False
        while True:
            may = self._host.may_act()
            if might and not may:
                _log.warning("controller.out_of_touch")
                self._cut()
            might = may
            await anyio.sleep(_WATCH)


def _by_kind(shards: Iterable[Shard]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for kind, shard in shards:
        found[kind].append(shard)
    return found
