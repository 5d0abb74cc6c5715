"""Which shards this controller owns, which it should take or give back, and whether it may act now.

A pure data structure: rows that were read and replies that arrived go in, decisions come out. It has no I/O and no
clock of its own; `now` is always this process' monotonic time. No wall clock decides anything here.

One row of `controllers` is one process. Its owner renews it every RENEW_EVERY; an observer declares it dead when its
counter of renewals stood still over EXPIRED_AFTER of the observer's own time, seen in reads that were at most GAP
apart. The owner acts for ACT_FOR after it sent its last successful renewal, which is shorter, so a controller that was
declared dead has stopped.
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
# Replies that always arrive too late: the shards are for a controller that is heard in time.
GIVE_UP_AFTER = 30.0


class Expired(msgspec.Struct, frozen=True):
    """A controller to declare dead, by compare-and-swap on the renewals that were seen."""

    id: UUID
    renewals: int


class Plan(msgspec.Struct, frozen=True):
    """What to do about shards now."""

    expired: tuple[Expired, ...] = ()
    take: tuple[ShardRow, ...] = ()
    close: tuple[Shard, ...] = ()
    reopen: tuple[Shard, ...] = ()  # closing ones that are no longer too many


class _Sight(msgspec.Struct):
    """How long a controller's counter has stood still before this observer's eyes."""

    renewals: int
    since: float
    read_at: float


class _Held(msgspec.Struct):
    epoch: int
    closing: float | None = None  # since when


class Ownership:
    """The shards of one process. `join` begins it, and begins it anew under another id."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.kinds = frozenset(kinds)
        self.id: UUID | None = None
        self._held: dict[Shard, _Held] = {}
        self.acts_until = -math.inf  # until then a run may start and a step may go on
        self._sight: dict[UUID, _Sight] = {}
        self._live: tuple[Controller, ...] = ()
        self._rows: dict[Shard, ShardRow] = {}

    def join(self, id_: UUID, sent_at: float) -> None:
        """This process has a row of its own, by a statement that was sent at `sent_at`. It owns nothing yet."""
        self.id = id_
        self._held.clear()
        self.acts_until = sent_at + ACT_FOR

    def is_out_of_touch(self, now: float) -> bool:
        """Whether no renewal was confirmed in time for so long that the shards are to be given back."""
        return self.id is not None and now - self.acts_until > GIVE_UP_AFTER - ACT_FOR

    def epoch(self, shard: Shard) -> int | None:
        """The epoch under which this process owns the shard; None if it does not own it."""
        held = self._held.get(shard)
        return held.epoch if held is not None else None

    def closing_since(self, shard: Shard) -> float | None:
        """Since when it is to be given back: it still serves wakes, and starts no steps. None for one that is kept."""
        held = self._held.get(shard)
        return None if held is None else held.closing

    @property
    def held(self) -> Mapping[Shard, int]:
        """Every owned shard with its epoch."""
        return {shard: held.epoch for shard, held in self._held.items()}

    def renewed(self, owned: Mapping[Shard, int] | None, sent_at: float) -> tuple[Shard, ...]:
        """A renewal that was sent at `sent_at` was confirmed, with what the database says is owned; None: there was no
        row, because an observer declared this process dead. Returns the shards that are lost, whose entries must go at
        once.

        A shard that the database lists and memory lacks was taken, or not given back, by a statement whose reply was
        lost: `plan` takes it anew, because nothing was loaded under that epoch.
        """
        if owned is None:
            return self.abandoned()
        self.acts_until = max(self.acts_until, sent_at + ACT_FOR)
        lost = tuple(shard for shard, held in self._held.items() if owned.get(shard) != held.epoch)
        for shard in lost:
            del self._held[shard]
        return lost

    def observed(self, controllers: Iterable[Controller], rows: Iterable[ShardRow], read_at: float) -> None:
        """All controllers and all shards of this process' kinds, as one statement read them at `read_at`."""
        sight: dict[UUID, _Sight] = {}
        self._live = tuple(controllers)
        for controller in self._live:
            before = self._sight.get(controller.id)
            still = before is not None and before.renewals == controller.renewals and read_at - before.read_at <= GAP
            # An observer that was paused or cut off begins to count anew.
            since = before.since if still and before is not None else read_at
            sight[controller.id] = _Sight(controller.renewals, since, read_at)
        self._sight = sight
        self._rows = {row.shard: row for row in rows}

    def abandoned(self) -> tuple[Shard, ...]:
        """This process gives up: it owns nothing any more, and joins again. Returns what it owned."""
        lost = tuple(self._held)
        self._held.clear()
        self.id, self.acts_until = None, -math.inf
        return lost

    def plan(self) -> Plan:
        """What to do after `observed`. The same again until something else was observed or confirmed."""
        if self.id is None:
            return Plan()
        expired = tuple(
            Expired(id_, sight.renewals)
            for id_, sight in self._sight.items()
            if id_ != self.id and sight.read_at - sight.since >= EXPIRED_AFTER
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
            # What is this process' in the database is taken also beyond its share, and then given back: no other may.
            own = [row for row in free if row.owner == self.id]
            free = [row for row in free if row.owner != self.id]
            # Two processes that begin at once want different ones first.
            begin = self.id.int % len(free) if free else 0
            ended = sorted(shard for shard, held in self._held.items() if shard[0] == kind and held.closing is not None)
            missing = max(0, share - len(kept))
            reopen += ended[:missing]
            take += own + (free[begin:] + free[:begin])[: max(0, missing - len(ended) - len(own))]
        return Plan(expired, tuple(take), tuple(close), tuple(reopen))

    def took(self, shards: Mapping[Shard, int]) -> None:
        """These were taken, each under its epoch; what others had locked is missing and is wanted again by `plan`."""
        for shard, epoch in shards.items():
            self._held[shard] = _Held(epoch)
            self._rows[shard] = ShardRow(shard, self.id, epoch)

    def closing(self, shards: Iterable[Shard], now: float) -> None:
        """These are to be given back once nothing of them is under way."""
        for shard in shards:
            if shard in self._held:
                self._held[shard].closing = now

    def reopened(self, shards: Iterable[Shard]) -> None:
        """These are kept after all."""
        for shard in shards:
            if shard in self._held:
                self._held[shard].closing = None

    def gave_back(self, shards: Iterable[Shard]) -> None:
        """These are not this process' any more."""
        for shard in shards:
            held = self._held.pop(shard, None)
            if held is not None:
                self._rows[shard] = ShardRow(shard, None, held.epoch)
