"""The controller of this process: which shards it owns, and the loops that run their resources.

Every two seconds, a round renews this process' row, reads which other controllers are alive, and takes or gives back
shards. Rounds run one at a time, because a renewal would not see shards that an open statement of this process takes. A
poll finds wakes for which no notification arrived. Module `ownership` makes the decisions, and `loop` runs the
resources.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn
from uuid import UUID, uuid4

import anyio
import structlog

from farrier.controller.host import LoopContext, asked
from farrier.controller.loop import Loop
from farrier.controller.ownership import RENEW_EVERY, SETTLED_AFTER
from farrier.controller.signal import Wakeup, next_moment
from farrier.errors import DatabaseUnreachable
from farrier.model.loop.controllers import SHARDS, Renewal, Shard
from farrier.protocols import Controllers

_log = structlog.stdlib.get_logger(__name__)

AnyLoop = Loop[Any, Any, Any, Any]

_LIST_SECONDS = 60.0
_POLL_SECONDS = _LEAVE_SECONDS = 5.0
# How many shards one statement takes. A renewal must not wait for the listing of a million resources, so after a round
# has listed _MANY resources of a kind, it takes no more shards of this kind.
_AT_ONCE = 16
_MANY = 10_000
_COLLAPSE_EVERY = 60.0
# The interval, in seconds, between two attempts to read kinds that cannot be read.
_TRY_KINDS_EVERY = 30.0
_DRAINING = 0.1
# Seconds until the next round if the database does not respond or this process has no row.
_SOON = 0.5
_WATCH = 0.2


class Controller:
    """The controller of this process. `ready` is set after the first complete round, with or without shards."""

    def __init__(
        self, controllers: Controllers, loops: Sequence[AnyLoop], host: LoopContext, *, name: str | None = None
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
        self._round_began_at = self._renewed_at = self._clock.monotonic()
        self._join_at = self._kinds_at = self._collapse_at = float("-inf")
        self._before: UUID | None = None  # the ID under which this process joined last
        self._floor = "0"
        self._listed = self._to_list()
        self.failing: str | None = None  # the error of the last round; None if the round succeeded
        self._rounds = anyio.Lock()

    @property
    def in_flight(self) -> int:
        """The number of running steps and commits, of all kinds."""
        return sum(len(loop.agenda.under_way) for loop in self._loops.values())

    def stalled_for(self) -> timedelta:
        """Return the time since a round last began. Rounds continue while the database is unreachable."""
        return timedelta(seconds=self._clock.monotonic() - self._round_began_at)

    def uncommitted_for(self) -> timedelta:
        """Return the time since the database last committed a renewal."""
        return timedelta(seconds=self._clock.monotonic() - self._renewed_at)

    def woken(self, kind: str, ids: Sequence[int] | None) -> None:
        """Enqueue the resources of a notification. `ids` is None if the notification could not contain all IDs. Never
        blocks."""
        if kind == "shards":
            self._nudge.set()
        elif ids is None:
            self._poll_now.set()
        elif kind in self._loops:
            self._host.sink.woken("notify")
            if self._loops[kind].woken(ids):
                self._poll_now.set()

    def heard_nothing(self) -> None:
        """Poll now, because notifications may have been missed."""
        self._poll_now.set()

    async def run(self, stop: anyio.Event) -> None:
        """Work until `stop` is set, then drain and give all shards back. After a cancellation, other controllers take
        the shards when this process' row has not been renewed for ten seconds."""
        async with anyio.create_task_group() as managing:
            for serve in (self._manage, self._poll, self._watch):
                managing.start_soon(serve)
            async with anyio.create_task_group() as loops:
                for loop in self._loops.values():
                    loops.start_soon(loop.run, stop, name=f"loop of {loop.kind}")
                await stop.wait()
                # The next renewal publishes this, so that other controllers take each shard once it is given back.
                self._own.leaving = True
                self._nudge.set()
            # Let the current round end. If its statement that gives shards back were cancelled, this controller might
            # keep them, and other controllers would have to wait until it expires.
            async with self._rounds:
                managing.cancel_scope.cancel()
        await self._leave()

    async def _manage(self) -> NoReturn:
        while True:
            more = failed = False
            self._round_began_at = self._clock.monotonic()
            try:
                async with self._rounds:
                    more = await self._round()
            except (DatabaseUnreachable, TimeoutError) as error:
                failed, self.failing = True, str(error) or type(error).__name__
                _log.warning("renew.failed", error=str(error))
            else:
                self.failing = None
                if self._own.id is not None and not more:
                    self.ready.set()
            if self._own.is_out_of_touch(self._clock.monotonic()):
                await self._give_up()
            if not more:
                soon = _DRAINING if self._own.leaving else _SOON
                hurries = failed or self._own.leaving or self._own.id is None
                # The interval is counted from the beginning of the round, because observers count only reads that are
                # close together, even if rounds are slow.
                left = RENEW_EVERY - (self._clock.monotonic() - self._round_began_at)
                await self._nudge.wait(soon if hurries else max(left, _DRAINING))

    async def _round(self) -> bool:
        """Renew this process' row, read the other controllers, and take and give back shards. Returns whether to begin
        another round at once."""
        await self._try_kinds()
        if self._own.id is None and not await self._join():
            return False
        assert self._own.id is not None
        lags = {kind: self._loops[kind].lag() for kind in sorted(self._own.kinds)}
        sent_at = self._clock.monotonic()
        seen = await self._controllers.renew(self._own.id, lags, leaving=self._own.leaving)
        self._renewed_at = self._clock.monotonic()
        self._own.read_timeline(seen.timeline, self._renewed_at)
        if not self._is_same_server(seen):
            return False
        if not self._host.may_act():  # steps that began before the late renewal must end
            self._cancel_steps()
        self._lose(self._own.renewed(seen, sent_at))
        if not seen.renewed:
            _log.warning("controller.expired")
            return False
        more = await self._follow_plan()
        await self._give_back_quiet()
        await self._list_anew()
        await self._tidy_up(seen)
        return more

    async def _join(self) -> bool:
        """Join under a new ID when the steps of the old ID have ended. Returns whether this process joined."""
        now = self._clock.monotonic()
        if now < self._join_at or self._own.leaving or any(len(loop.steps) for loop in self._loops.values()):
            return False
        id_ = uuid4()
        if self._before is not None:  # so that the shards of the old ID need not wait for its expiry
            await self._controllers.expire(self._before, None)
        await self._controllers.join(id_, self._name, sorted(self._own.kinds))
        self._before = id_
        self._own.join(id_, now)
        _log.info("controller.joined", controller=str(id_), kinds=sorted(self._own.kinds))
        return True

    def _is_same_server(self, seen: Renewal) -> bool:
        """Compare the server with the server of the last round. If the server was restarted, everything in memory is
        loaded again. If a standby was promoted, this process gives up its shards. It joins again only when every owner
        that is still connected to the former primary may no longer act."""
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
        self._join_at = self._clock.monotonic() + SETTLED_AFTER
        self._lose(self._own.abandoned())
        return False

    async def _follow_plan(self) -> bool:
        plan = self._own.plan(self._clock.monotonic())
        for dead in plan.expired:
            _log.warning("controller.declared_dead", controller=str(dead.id))
            await self._controllers.expire(dead.id, dead.renewals)
        more = bool(plan.expired)
        for kind, rows in _by_kind(plan.take).items():
            for first in range(0, len(rows), _AT_ONCE):
                if await self._take(kind, rows[first : first + _AT_ONCE]) > _MANY:
                    more |= first + _AT_ONCE < len(rows)
                    break
        return more

    async def _take(self, kind: str, shards: Sequence[int]) -> int:
        """Take shards, and list their resources in a later statement. Returns the number of these resources."""
        assert self._own.id is not None
        taken = await self._controllers.take(self._own.id, kind, shards)
        if not taken:
            return 0
        with anyio.fail_after(_LIST_SECONDS):
            listed = await self._loops[kind].io.listing(list(taken))
        self._own.took({(kind, shard): epoch for shard, epoch in taken.items()})
        self._loops[kind].took(taken, listed)
        _log.info("shards.taken", kind=kind, shards=len(taken), resources=len(listed.ids))
        return len(listed.ids)

    async def _give_back_quiet(self) -> None:
        """Give back the closing shards without running work. Interrupt the steps of shards that close for too long."""
        latest = self._clock.monotonic() - self._host.config.drain_timeout.total_seconds()
        quiet: list[Shard] = []
        for (kind, shard), since in self._own.closing.items():
            if since <= latest:
                self._loops[kind].steps.interrupt_all(shard)
            if self._loops[kind].is_quiet(shard):
                quiet.append((kind, shard))
        await self._give_back(quiet)

    async def _give_back(self, shards: Iterable[Shard]) -> None:
        assert self._own.id is not None
        for kind, numbers in _by_kind(shards).items():
            epochs = {number: self._own.held[kind, number] for number in numbers}
            for number in numbers:  # no commit of this shard is sent after this
                self._loops[kind].lost(number)
            self._own.gave_back((kind, number) for number in numbers)
            await self._controllers.give_back(self._own.id, kind, epochs)

    async def _list_anew(self) -> None:
        """List the resources of some shards again, so that each shard is listed one time in each resync period. After a
        failure, the next round lists the same shards again."""
        first, listed_to = self._listed, self._to_list()
        numbers = {each % SHARDS for each in range(first, min(listed_to, first + SHARDS))}
        for kind, loop in self._loops.items():
            held = [number for number in numbers if (kind, number) in self._own.held]
            if held:
                with anyio.fail_after(_LIST_SECONDS):
                    listed = await loop.io.listing(held)
                loop.listed(held, listed)
        self._listed = listed_to

    def _to_list(self) -> int:
        """Return, for each kind, how many shards should have been listed between time 0 of the clock and now."""
        return int(self._clock.monotonic() / self._host.config.resync.total_seconds() * SHARDS)

    async def _tidy_up(self, seen: Renewal) -> None:
        """Remove the rows of dead controllers, and the surplus wakes of kinds that no controller runs."""
        now = self._clock.monotonic()
        if seen.expired:
            await self._controllers.forget()
        if now >= self._collapse_at:
            await self._controllers.collapse()
            self._collapse_at = now + _COLLAPSE_EVERY

    async def _try_kinds(self) -> None:
        """Find out which kinds this process can run. It takes no shards of a kind whose tables it may not read."""
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

    def _cancel_steps(self) -> None:
        for loop in self._loops.values():
            loop.steps.cancel()

    def _lose(self, shards: Iterable[Shard]) -> None:
        lost = list(shards)
        for kind, shard in lost:
            self._loops[kind].lost(shard)
        if lost:
            _log.warning("shards.lost", shards=len(lost))

    async def _give_up(self) -> None:
        """Give all shards back: replies are too late, and another controller may reach the database faster."""
        held = list(self._own.held)
        await self._leave()
        self._lose(held)  # even if the statements failed
        self._own.abandoned()

    async def _leave(self) -> None:
        """Give all shards back and remove this process' row. Steps that have not ended leave their marks, and the fence
        refuses commits that are still running."""
        if self._own.id is None:
            return
        with asked(_LEAVE_SECONDS, lambda error: _log.warning("give_back.failed", error=error), shield=True):
            await self._give_back(list(self._own.held))
            await self._controllers.leave(self._own.id)

    async def _poll(self) -> NoReturn:
        """Poll for wakes for which no notification arrived. Runs until cancelled."""
        while True:
            was_set = await self._poll_now.wait(self._host.config.poll_interval.total_seconds())
            self._host.sink.woken("notify" if was_set else "poll")
            if not self._own.held:
                continue
            floor, self._floor = self._floor, "0"
            with asked(_POLL_SECONDS, self._could_not_poll):
                found = await self._controllers.poll(sorted(self._own.kinds), floor)
                self._floor = found.floor
                for loop in self._loops.values():
                    loop.timed(found.now)
                for kind, wakes in found.wakes.items():
                    self._loops[kind].polled(wakes, loud=found.loud.get(kind, ()))
                for kind, ids in found.many.items():
                    await self._loops[kind].woken_together(ids)

    def _could_not_poll(self, error: str) -> None:
        """Log a failed poll, and begin a round at once, which finds out whether the database is unreachable."""
        _log.warning("poll.failed", error=error)
        if self.failing is None:
            self._nudge.set()

    async def _watch(self) -> NoReturn:
        """Cancel all steps when this process may no longer act, because its row was not renewed in time."""
        might = False
        while True:
            may = self._host.may_act()
            if might and not may:
                _log.warning("controller.out_of_touch")
                self._cancel_steps()
            might = may
            await next_moment(_WATCH)


def _by_kind(shards: Iterable[Shard]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for kind, shard in shards:
        found[kind].append(shard)
    return found
