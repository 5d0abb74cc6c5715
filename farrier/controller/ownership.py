"""Decides which shards this controller owns, which shards it should take or give back, and whether it may act now.

A pure data structure that receives rows and replies, and returns decisions. The module does no I/O and reads no clock;
`now` is always this process' monotonic time. No decision depends on a wall clock.

Each row of `controllers` belongs to one process; the process renews its row every RENEW_EVERY. An observer declares the
process dead when the counter of renewals has not changed for EXPIRED_AFTER, measured by the observer's clock. Of the
interval between two reads, at most GAP counts. A process may act until ACT_FOR after it sent its last successful
renewal. ACT_FOR is shorter than EXPIRED_AFTER, so a process that was declared dead no longer acts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from uuid import UUID

import msgspec

from farrier.model.controllers import ACT_FOR, Controller, Shard, ShardRow

RENEW_EVERY = 2.0
EXPIRED_AFTER = 10.0
GAP = 3.0
# If replies are late for this many seconds, another controller may serve the shards better.
GIVE_UP_AFTER = 30.0


class Expired(msgspec.Struct, frozen=True):
    """A controller to declare dead. This is a compare-and-swap: it fails if the controller has renewed its row since it
    was read."""

    id: UUID
    renewals: int


class Plan(msgspec.Struct, frozen=True):
    """The changes of ownership to make next."""

    expired: tuple[Expired, ...] = ()
    take: tuple[ShardRow, ...] = ()
    close: tuple[Shard, ...] = ()
    reopen: tuple[Shard, ...] = ()  # closing shards that are within the share again


class _Sight(msgspec.Struct):
    """Records for how many seconds this observer has seen the same renewal counter of a controller."""

    renewals: int
    unchanged: float
    read_at: float

    def unchanged_at(self, now: float) -> float:
        """Return for how many seconds the counter is unchanged, if another read at `now` finds the same counter. An
        overloaded database responds late, so a slow read counts, but for at most GAP. After an outage, the observer
        counts from zero."""
        gap = now - self.read_at
        return 0.0 if gap > EXPIRED_AFTER else self.unchanged + min(gap, GAP)


class _Held(msgspec.Struct):
    epoch: int
    closing: float | None = None  # the time since which the shard is closing


class Ownership:
    """The shards of one process, from `join` to `abandoned`."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.kinds = frozenset(kinds)
        self.id: UUID | None = None
        self._held: dict[Shard, _Held] = {}
        self.acts_until = -math.inf  # the time until which runs may start and steps may continue
        self._sight: dict[UUID, _Sight] = {}
        self._live: tuple[Controller, ...] = ()
        self._rows: dict[Shard, ShardRow] = {}

    def join(self, id_: UUID, sent_at: float) -> None:
        """Record that this process has inserted its row; the statement was sent at `sent_at`. The process owns no shard
        yet."""
        self.id = id_
        self._held.clear()
        self.acts_until = sent_at + ACT_FOR

    def is_out_of_touch(self, now: float) -> bool:
        """Return whether the last successful renewal is so long ago that this process must give its shards back."""
        return self.id is not None and now - self.acts_until > GIVE_UP_AFTER - ACT_FOR

    def epoch(self, shard: Shard) -> int | None:
        """Return the epoch under which this process owns the shard; None if this process does not own the shard."""
        held = self._held.get(shard)
        return held.epoch if held is not None else None

    def closing_since(self, shard: Shard) -> float | None:
        """Return the time since which the shard is closing; None if it is not closing. A closing shard still handles
        wakes, but starts no steps until it is given back."""
        held = self._held.get(shard)
        return None if held is None else held.closing

    @property
    def held(self) -> Mapping[Shard, int]:
        """Every owned shard with its epoch."""
        return {shard: held.epoch for shard, held in self._held.items()}

    def renewed(self, owned: Mapping[Shard, int] | None, sent_at: float) -> tuple[Shard, ...]:
        """Record the reply to a renewal that was sent at `sent_at`. The reply contains the owned shards, or None if an
        observer declared this process dead and the row is gone. Returns the shards that were lost.

        If the reply to a take or a give-back was lost, the database may list a shard that is not in memory. `plan`
        takes this shard again, because nothing was loaded under its epoch.
        """
        if owned is None:
            return self.abandoned()
        self.acts_until = max(self.acts_until, sent_at + ACT_FOR)
        lost = tuple(shard for shard, held in self._held.items() if owned.get(shard) != held.epoch)
        for shard in lost:
            del self._held[shard]
        return lost

    def observed(self, controllers: Iterable[Controller], rows: Iterable[ShardRow], read_at: float) -> None:
        """Record all controllers and all shards of this process' kinds. One statement read them at `read_at`."""
        sight: dict[UUID, _Sight] = {}
        self._live = tuple(controllers)
        for controller in self._live:
            before = self._sight.get(controller.id)
            unchanged = 0.0
            if before is not None and before.renewals == controller.renewals:
                unchanged = before.unchanged_at(read_at)
            sight[controller.id] = _Sight(controller.renewals, unchanged, read_at)
        self._sight = sight
        self._rows = {row.shard: row for row in rows}

    def abandoned(self) -> tuple[Shard, ...]:
        """Record that this process owns nothing until it joins again. Returns the shards that it owned."""
        lost = tuple(self._held)
        self._held.clear()
        self.id, self.acts_until = None, -math.inf
        return lost

    def plan(self) -> Plan:
        """Return the next changes, computed from the last observation. The plan stays the same until something new is
        observed or recorded."""
        if self.id is None:
            return Plan()
        expired = tuple(
            Expired(id_, sight.renewals)
            for id_, sight in self._sight.items()
            if id_ != self.id and sight.unchanged >= EXPIRED_AFTER
        )
        dead = {each.id for each in expired}
        living = [controller for controller in self._live if controller.id not in dead]
        alive = {controller.id for controller in living}
        take: list[ShardRow] = []
        close: list[Shard] = []
        reopen: list[Shard] = []
        for kind in sorted(self.kinds):
            rows = [row for row in self._rows.values() if row.shard[0] == kind]
            running = sum(kind in controller.kinds for controller in living)
            share = math.ceil(len(rows) / max(1, running))
            kept = sorted(shard for shard, held in self._held.items() if shard[0] == kind and held.closing is None)
            close += kept[share:]
            free = sorted(
                (
                    row
                    for row in rows
                    if row.shard not in self._held and (row.owner == self.id or row.owner not in alive)
                ),
                key=lambda row: row.shard,
            )
            # Shards that the database assigns to this process are taken even beyond its share, and then given back: no
            # other controller may take them.
            own = [row for row in free if row.owner == self.id]
            free = [row for row in free if row.owner != self.id]
            # Two processes that start at the same time begin with different shards.
            begin = self.id.int % len(free) if free else 0
            ended = sorted(shard for shard, held in self._held.items() if shard[0] == kind and held.closing is not None)
            missing = max(0, share - len(kept))
            reopen += ended[:missing]
            take += own + (free[begin:] + free[:begin])[: max(0, missing - len(ended) - len(own))]
        return Plan(expired, tuple(take), tuple(close), tuple(reopen))

    def took(self, shards: Mapping[Shard, int]) -> None:
        """Record the shards that were taken, with their epochs. A later `plan` takes shards that were locked."""
        for shard, epoch in shards.items():
            self._held[shard] = _Held(epoch)
            self._rows[shard] = ShardRow(shard, self.id, epoch)

    def closing(self, shards: Iterable[Shard], now: float) -> None:
        """Record that these shards are to be given back when they have no running work."""
        for shard in shards:
            if shard in self._held:
                self._held[shard].closing = now

    def reopened(self, shards: Iterable[Shard]) -> None:
        """Record that these shards are no longer closing."""
        for shard in shards:
            if shard in self._held:
                self._held[shard].closing = None

    def gave_back(self, shards: Iterable[Shard]) -> None:
        """Record that these shards were given back."""
        for shard in shards:
            held = self._held.pop(shard, None)
            if held is not None:
                self._rows[shard] = ShardRow(shard, None, held.epoch)
