"""A controller without a loop: it owns all shards of a kind, and the test itself commits runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import msgspec

from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections.pool import Pool
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.runs import Loaded, Turn


class Fence(msgspec.Struct, frozen=True):
    """What fences a commit: the controller, and the epoch of each shard."""

    controller: UUID
    epochs: Mapping[int, int]

    def epoch(self, id_: int) -> int:
        return self.epochs[id_ % SHARDS]

    def turn(self, id_: int, loaded: Loaded[Any]) -> Turn:
        return Turn(id=id_, epoch=self.epoch(id_), wakes=loaded.wakes.get(id_, ()), outcome_key=loaded.keys.get(id_))


async def owned(pool: Pool, kind: str) -> Fence:
    """Take all shards of a kind, also those of an earlier controller, as if that controller had died."""
    controllers, id_ = PostgresControllers(pool), uuid4()
    await controllers.join(id_, "test", [kind])
    for other in (await controllers.renew(id_, {kind: 0.0})).controllers:
        if other.id != id_:
            await controllers.expire(other.id, other.renewals)
    taken = await controllers.take(id_, kind, range(SHARDS))
    return Fence(id_, taken)
