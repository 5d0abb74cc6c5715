"""Controllers that have shards and run nothing, for tests of the views of controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID, uuid4

from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections.pool import Pool
from farrier.model.loop.controllers import SHARDS


async def joined(pool: Pool, name: str, lags: Mapping[str, float], *, shards: Iterable[int] = range(SHARDS)) -> UUID:
    """Register a controller of this name that runs these kinds, has these shards of each and reported these lags."""
    controllers, id_ = PostgresControllers(pool), uuid4()
    await controllers.join(id_, name, list(lags))
    for kind in lags:
        await controllers.take(id_, kind, list(shards))
    await controllers.renew(id_, lags)
    return id_


async def declared_dead(pool: Pool, id_: UUID) -> None:
    """Declare the controller dead, as a peer does."""
    renewals = await pool.fetchval("SELECT renewals FROM farrier.controllers WHERE id = $1", id_)
    await PostgresControllers(pool).expire(id_, renewals)
