"""Stores in PostgreSQL which MAAS regions exist.

`wiring` calls `use` at the start, and each time after it has read the sites again.
"""

from __future__ import annotations

from datetime import timedelta

import anyio

from farrier.config.sites import Sites
from farrier.errors import ConfigError, DatabaseUnreachable
from farrier.io import codec, statements
from farrier.io.connections import session
from farrier.io.connections.pool import Pool

_USE = statements.load("maas_region/use")
# The number of attempts: replicas that write the same sites at the same time may collide.
_TRIES = 3
# The time limit of all tries. A lock is held for the length of a commit; a broken connection never responds.
_PATIENCE = timedelta(seconds=10)


async def use(pool: Pool, sites: Sites, *, patience: timedelta = _PATIENCE) -> None:
    """Observe the regions of these sites. Idempotent; a region in its back-off is tried at once. Raises `ConfigError`
    for rejected sites, and `DatabaseUnreachable` if the database fails or does not respond within `patience`. After an
    error, nothing has changed, unless only the response was lost.
    """
    wanted = [
        {
            "site": name,
            "url": site.maas.url,
            "motion_seconds": site.observe.motion_every.total_seconds(),
            "sweep_seconds": site.observe.sweep_every.total_seconds(),
            "requires": site.cleaning.require,
        }
        for name, site in sites.items()
        if site.maas is not None
    ]
    try:
        with anyio.fail_after(patience.total_seconds()):
            await _store_sites(pool, codec.encode(wanted))
    except TimeoutError:
        raise DatabaseUnreachable("the pool", f"no response within {patience.total_seconds():g} s") from None


async def _store_sites(pool: Pool, wanted: str) -> None:
    """Store the sites, with retries after a transient conflict."""
    for left in reversed(range(_TRIES)):
        try:
            async with session.borrowed(pool) as conn:
                await conn.execute(_USE, wanted)
        except session.Refusal as refused:
            if session.classify(refused) is not session.Trouble.MOMENT:
                raise ConfigError(f"the database rejects these sites: {session.reason_of(refused)}") from refused
            if not left:
                raise DatabaseUnreachable("the pool", session.reason_of(refused)) from refused
        else:
            return
