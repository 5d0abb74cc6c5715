"""Measures the effect of dead BMCs on healthy BMCs.

A `farrier run` process verifies a fleet of BMCs, which is also a separate process. A tenth of the BMCs are dead: a SYN
gets no response, so each attempt lasts until the connection times out. To measure the duration, one transaction
registers and enqueues all nodes, so that all slots are in use at once. Before that, a fleet without dead BMCs is
measured. To measure the lag, registrations are spread over half a minute.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from statistics import quantiles

import anyio
import msgspec

from bench import daemon, fleet
from bench.bmc_fleet import BmcFleet, bmc_fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import PATIENCE

_DEAD_OF = 10
_SPREAD = timedelta(seconds=30)
_LOOK_SECONDS = 0.1

# A node's wait begins with the transaction that registers it, but the daemon sees the node only after the commit. If
# one transaction registered thousands of nodes, each node would be late from the start.
_REGISTERED_AT_ONCE = 20

_REGISTER = """
    SELECT farrier.register_node('bmc-' || replace(split_part(address, '/', 3), ':', '-'), bmc_address => address,
                                 bmc_credential => $2)
      FROM unnest($1::text[]) AS bmc (address)
"""
_WAKE = "SELECT farrier.enqueue('node', id) FROM farrier.nodes"
_UNVERIFIED = """
    SELECT count(*) FROM farrier.nodes WHERE management <> 'manageable' AND bmc_address <> ALL ($1::text[])
"""
_LAST_VERIFIED = "SELECT max(management_entered_at) FROM farrier.nodes WHERE bmc_address <> ALL ($1::text[])"
_FIRST_FAILURES = """
    SELECT min(h.at) AS at
      FROM farrier.nodes n JOIN farrier.history h ON h.kind = 'node' AND h.id = n.id
     WHERE n.bmc_address = ANY ($1::text[]) AND n.bmc ->> 'failure' IS NOT NULL
       AND h.layer = 'management' AND h.from_value = 'verifying' AND h.to_value = 'enroll'
     GROUP BY n.id
"""
# If a node is not verified yet, it has waited since its registration.
_WAITS = """
    SELECT extract(epoch FROM CASE WHEN n.management = 'manageable' THEN n.management_entered_at ELSE farrier.now() END
                              - n.created_at)::float8 AS seconds
      FROM farrier.nodes n WHERE n.bmc_address <> ALL ($1::text[])
"""


class Verified(msgspec.Struct, frozen=True):
    """The seconds from the registration of a fleet until its last healthy BMC was verified, and until its last dead BMC
    was reported dead (0 if there is none)."""

    healthy: float
    dead: float


async def verify(ground: Ground, bmcs: BmcFleet) -> Verified:
    """Register all nodes at once while a daemon runs, and wait until every node with a healthy BMC is manageable."""
    dead = list(bmcs.dead)
    async with daemon.running(ground.dsn, bmcs.environment):
        async with ground.pool.acquire() as conn, conn.transaction():
            await conn.execute(_REGISTER, bmcs.addresses, bmcs.credential)
            await conn.execute(_WAKE)
        began = await ground.pool.fetchval("SELECT farrier.now()")
        with anyio.fail_after(PATIENCE.total_seconds()):
            await _until_verified(ground, dead)
    verified = await ground.pool.fetchval(_LAST_VERIFIED, dead)
    failed = [row["at"] for row in await ground.pool.fetch(_FIRST_FAILURES, dead)]
    return Verified(
        healthy=(verified - began).total_seconds(),
        dead=max(((at - began).total_seconds() for at in failed), default=0.0),
    )


async def _until_verified(ground: Ground, dead: list[str]) -> None:
    """Return once each BMC is either manageable or known to be dead."""
    while True:
        unverified = await ground.pool.fetchval(_UNVERIFIED, dead)
        if not unverified and len(await ground.pool.fetch(_FIRST_FAILURES, dead)) == len(dead):
            return
        await anyio.sleep(_LOOK_SECONDS)


async def lag(ground: Ground, bmcs: BmcFleet, *, spread: timedelta) -> float:
    """Return the 99th percentile of the milliseconds from the registration of a healthy node until its BMC is verified.
    Registrations are spread over `spread`."""
    addresses = bmcs.addresses
    some = range(0, len(addresses), _REGISTERED_AT_ONCE)
    async with daemon.running(ground.dsn, bmcs.environment):
        for first in some:
            await ground.pool.execute(_REGISTER, addresses[first : first + _REGISTERED_AT_ONCE], bmcs.credential)
            await anyio.sleep(spread.total_seconds() / len(some))
        with anyio.fail_after(PATIENCE.total_seconds()):
            await _until_verified(ground, list(bmcs.dead))
    waits: list[float] = [record["seconds"] for record in await ground.pool.fetch(_WAITS, list(bmcs.dead))]
    return quantiles(waits, n=100)[98] * 1000


@asynccontextmanager
async def _a_tenth_dead(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        async with bmc_fleet(nodes) as bmcs:
            sound = await verify(ground, bmcs)
        await fleet.clear(ground)
        async with bmc_fleet(nodes, dead=nodes // _DEAD_OF) as bmcs:
            a_tenth_dead = await verify(ground, bmcs)
            await fleet.clear(ground)
            late = await lag(ground, bmcs, spread=_SPREAD)
            await fleet.clear(ground)
        return {
            "ratio": Reading(a_tenth_dead.healthy / sound.healthy),
            "classified": Reading(a_tenth_dead.dead),
            "lag, p99": Reading(late),
        }

    yield measure


BMC_DEAD = Benchmark(
    name="bmc_dead",
    what="a tenth of all BMCs does not respond: time until the healthy BMCs are verified, divided "
    "by the time without dead BMCs; time until the last dead BMC is classified; time from "
    "the registration of a healthy node until it is verified",
    nodes=2_000,
    goals=(
        Goal("ratio", "×", Bound.AT_MOST, 1.2),
        Goal("classified", "s", Bound.AT_MOST, 30),
        Goal("lag, p99", "ms", Bound.AT_MOST, 1000),
    ),
    open=_a_tenth_dead,
)
