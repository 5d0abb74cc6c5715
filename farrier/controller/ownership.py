"""Decides which shards this controller owns, which shards it should take or give back, and whether it may act now.

A pure data structure that receives rows and replies, and returns decisions. The module does no I/O and reads no clock;
`now` is always this process' monotonic time. No decision depends on a wall clock.

Each row of `controllers` belongs to one process; the process renews its row every RENEW_EVERY. An observer declares the
process dead when the counter of renewals has not changed for EXPIRED_AFTER, measured by the observer's clock. The
observer counts at most GAP of the interval between two reads. A process may act for at most ACT_FOR after it sent its
last successful renewal. ACT_FOR is shorter than EXPIRED_AFTER, so a process that was declared dead no longer acts.

After the promotion of a standby, processes that are still connected to the former primary may act for ACT_FOR. Their
rows show that they last renewed on the former timeline, so an observer declares them dead SETTLED_AFTER it has seen the
new timeline. A process that sees the promotion gives up its shards, and joins again after the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from farrier.model.loop.controllers import ACT_FOR, ControllerRow, Renewal, Shard, ShardRow

RENEW_EVERY = 2.0
EXPIRED_AFTER = 10.0
GAP = 3.0
# After this many seconds on a timeline, no controller that renewed only on an earlier timeline can still act.
SETTLED_AFTER = ACT_FOR + 1
# If replies are late for this many seconds, another controller may serve the shards better.
GIVE_UP_AFTER = 30.0


class OwnershipPlan(msgspec.Struct, frozen=True):
    """The controllers to declare dead, each with the values that this process read, and the shards to take. To declare
    a controller dead is a compare-and-swap: it fails if the controller has renewed its row since it was read."""

    expired: tuple[ControllerRow, ...] = ()
    take: tuple[Shard, ...] = ()


class _ControllerRead(msgspec.Struct):
    """The last read of a controller's row. `unchanged`: the observed seconds since its renewals last changed."""

    controller: ControllerRow
    unchanged: float
    read_at: float

    def unchanged_at(self, now: float) -> float:
        """Return how many seconds the counter has been unchanged, if another read at `now` finds the same value. An
        overloaded database responds late, so the time since the last read counts only up to GAP. After an outage, the
        observer counts from zero."""
        gap = now - self.read_at
        return 0.0 if gap > EXPIRED_AFTER else self.unchanged + min(gap, GAP)


class Ownership:
    """The shards of one process, from the call of `join` until the call of `abandoned`."""

    def __init__(self) -> None:
        self.kinds: frozenset[str] = frozenset()  # the kinds that this process runs
        self.id: UUID | None = None
        self.held: dict[Shard, int] = {}  # every owned shard, with its epoch
        # Owned shards that are to be given back, with the time since which they are closing. A closing shard still
        # handles wakes, but starts no steps.
        self.closing: dict[Shard, float] = {}
        self.acts_until = -math.inf  # the time until which runs may start and steps may continue
        self.leaving = False  # this process gives all shards back, and stops
        self._timeline, self._timeline_since = "", -math.inf  # the database's timeline, and when it was first seen
        self._observed: dict[UUID, _ControllerRead] = {}
        self._rows: dict[Shard, ShardRow] = {}

    def join(self, id_: UUID, sent_at: float) -> None:
        """Record that this process has inserted its row; the statement was sent at `sent_at`. The process owns no shard
        yet."""
        self.id = id_
        self.acts_until = sent_at + ACT_FOR

    def read_timeline(self, timeline: str, now: float) -> None:
        """Record the database's timeline, which a reply contained that arrived at `now`."""
        if timeline != self._timeline:
            self._timeline, self._timeline_since = timeline, now

    def is_settled(self, now: float) -> bool:
        """Return whether no controller that renewed only on an earlier timeline can still act."""
        return now - self._timeline_since >= SETTLED_AFTER

    def is_out_of_touch(self, now: float) -> bool:
        """Return whether the last successful renewal is so long ago that this process must give its shards back."""
        return self.id is not None and now - self.acts_until > GIVE_UP_AFTER - ACT_FOR

    def renewed(self, seen: Renewal, sent_at: float) -> tuple[Shard, ...]:
        """Record the reply to a renewal that was sent at `sent_at`. Returns the shards that were lost. If an observer
        declared this process dead, all shards are lost.

        If the reply to a statement that takes or gives back a shard was lost, the database may assign to this process a
        shard that is not in memory. `plan` takes this shard again, because nothing was loaded under its epoch.
        """
        if not seen.renewed:
            return self.abandoned()
        self.acts_until = max(self.acts_until, sent_at + ACT_FOR)
        observed: dict[UUID, _ControllerRead] = {}
        for controller in seen.controllers:
            before, unchanged = self._observed.get(controller.id), 0.0
            if before is not None and before.controller.renewals == controller.renewals:
                unchanged = before.unchanged_at(sent_at)
            observed[controller.id] = _ControllerRead(controller, unchanged, sent_at)
        self._observed = observed
        self._rows = {row.shard: row for row in seen.shards}
        expected = (ShardRow(shard, self.id, epoch) for shard, epoch in self.held.items())
        lost = tuple(row.shard for row in expected if self._rows.get(row.shard) != row)
        for shard in lost:
            self._drop(shard)
        return lost

    def abandoned(self) -> tuple[Shard, ...]:
        """Record that this process owns nothing until it joins again. Returns the shards that it owned."""
        lost = tuple(self.held)
        self.held.clear()
        self.closing.clear()
        self.id, self.acts_until = None, -math.inf
        return lost

    def plan(self, now: float) -> OwnershipPlan:
        """Return the next changes, computed from the last renewal. Shards above this process' share begin to close. If
        a closing shard is within the share again, it stops closing."""
        if self.id is None:
            return OwnershipPlan()
        expired = tuple(
            observed.controller
            for id_, observed in self._observed.items()
            if id_ != self.id
            and (observed.unchanged >= EXPIRED_AFTER or self._is_of_the_past(observed.controller, now))
        )
        living = {
            id_: observed.controller for id_, observed in self._observed.items() if observed.controller not in expired
        }
        take: list[Shard] = []
        for kind in sorted(self.kinds):
            rows = [row for row in self._rows.values() if row.shard[0] == kind]
            running = sum(kind in controller.kinds and not controller.leaving for controller in living.values())
            share = 0 if self.leaving else math.ceil(len(rows) / max(1, running))
            closing = sorted(shard for shard in self.closing if shard[0] == kind)
            kept = sorted(shard for shard in self.held.keys() - self.closing.keys() if shard[0] == kind)
            self.closing |= dict.fromkeys(kept[share:], now)
            rest = [row for row in rows if row.shard not in self.held]
            # Shards that the database assigns to this process are taken even beyond its share, and then given back: no
            # other controller may take them.
            own = sorted(row.shard for row in rest if row.owner == self.id)
            free = sorted(row.shard for row in rest if row.owner != self.id and row.owner not in living)
            # Two processes that start at the same time begin with different shards.
            begin = self.id.int % len(free) if free else 0
            missing = max(0, share - len(kept))
            for shard in closing[:missing]:
                del self.closing[shard]
            take += own + (free[begin:] + free[:begin])[: max(0, missing - len(closing) - len(own))]
        return OwnershipPlan(expired, tuple(take))

    def took(self, shards: Mapping[Shard, int]) -> None:
        """Record the shards that were taken, with their epochs. A later `plan` takes shards that were locked."""
        for shard, epoch in shards.items():
            self.held[shard] = epoch
            self._rows[shard] = ShardRow(shard, self.id, epoch)

    def gave_back(self, shards: Iterable[Shard]) -> None:
        """Record that these shards were given back."""
        for shard in shards:
            self._rows[shard] = ShardRow(shard, None, self.held[shard])
            self._drop(shard)

    def _is_of_the_past(self, controller: ControllerRow, now: float) -> bool:
        """Return whether the controller has renewed only on an earlier timeline, and can no longer act."""
        return controller.timeline != self._timeline and self.is_settled(now)

    def _drop(self, shard: Shard) -> None:
        self.held.pop(shard, None)
        self.closing.pop(shard, None)
