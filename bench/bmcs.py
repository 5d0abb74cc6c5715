"""Dead BMCs among healthy ones: what do the healthy ones notice?

A `farrier run` of its own process verifies a fleet of BMCs that is a process of its own, too, with a tenth of them
black-holed: no SYN is answered, so each try lasts until the time for connecting is over. For the time that it takes,
all nodes are registered and woken in one transaction, so that every place is wanted at once, and a fleet with none
dead goes first. For the lag they come as registrations do, spread over half a minute.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from statistics import quantiles
from typing import NoReturn

import anyio
import msgspec

from bench import daemon, fleet
from bench.bmc_fleet import BmcFleet, bmc_fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import PATIENCE

_DEAD_OF = 10
# Registrations are spread over 30 s, and a dead BMC is tried again 30 s after its first failure.
_WATCH = timedelta(seconds=65)
_LOOK_SECONDS = 0.1

# A node is due some time after its registration began, and nobody knows of it before that is committed: in one
# transaction with thousands of others it would be late from the start.
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
# Claimed by nobody, though due. A verification for which there is no room yet is due only in a second, but waits since
# it was decided.
_WAITING = """
    SELECT s.id,
           extract(epoch FROM farrier.now() - CASE n.management WHEN 'verifying' THEN n.management_entered_at
                                              ELSE s.due_at END)::float8 AS seconds
      FROM farrier.schedule s JOIN farrier.nodes n USING (id)
     WHERE s.claim_token IS NULL AND (s.due_at < farrier.now() OR n.management = 'verifying')
       AND n.bmc_address <> ALL ($1::text[])
"""


class _Lag:
    """How long healthy nodes wait for their turn: the longest wait of each, looked up again and again."""

    def __init__(self, ground: Ground, bmcs: BmcFleet) -> None:
        self._ground = ground
        self._dead = list(bmcs.dead)
        self._healthy = len(bmcs.addresses) - len(self._dead)
        self._worst: dict[int, float] = {}

    async def watch(self) -> NoReturn:
        """Until cancelled."""
        while True:
            for row in await self._ground.pool.fetch(_WAITING, self._dead):
                self._worst[row["id"]] = max(row["seconds"], self._worst.get(row["id"], 0.0))
            await anyio.sleep(_LOOK_SECONDS)

    def p99(self) -> float:
        """Milliseconds, rounded up: between two looks a wait may have been longer than was seen."""
        unseen = [0.0] * (self._healthy - len(self._worst))
        return (quantiles([*self._worst.values(), *unseen], n=100)[98] + _LOOK_SECONDS) * 1000


class Verified(msgspec.Struct, frozen=True):
    """Seconds after its registration, what had become of a fleet: its last healthy BMC was verified, and its last
    dead one known to be dead (0 if there is none)."""

    healthy: float
    dead: float


async def verify(ground: Ground, bmcs: BmcFleet) -> Verified:
    """All nodes at once, by a daemon that waits for them. Every healthy one is manageable after that."""
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


async def lag(ground: Ground, bmcs: BmcFleet, *, watch: timedelta) -> float:
    """Milliseconds that a healthy node waited for its turn at worst, 99 % of them no longer; seen for so long from
    the moment of their registration."""
    seen, addresses = _Lag(ground, bmcs), bmcs.addresses
    async with daemon.running(ground.dsn, bmcs.environment):
        with anyio.move_on_after(watch.total_seconds()):
            async with anyio.create_task_group() as beside:
                beside.start_soon(seen.watch)
                for first in range(0, len(addresses), _REGISTERED_AT_ONCE):
                    some = addresses[first : first + _REGISTERED_AT_ONCE]
                    await ground.pool.execute(_REGISTER, some, bmcs.credential)
    return seen.p99()


@asynccontextmanager
async def _a_tenth_dead(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        async with bmc_fleet(nodes) as bmcs:
            sound = await verify(ground, bmcs)
        await fleet.clear(ground)
        async with bmc_fleet(nodes, dead=nodes // _DEAD_OF) as bmcs:
            a_tenth_dead = await verify(ground, bmcs)
            await fleet.clear(ground)
            late = await lag(ground, bmcs, watch=_WATCH)
            await fleet.clear(ground)
        return {
            "ratio": Reading(a_tenth_dead.healthy / sound.healthy),
            "classified": Reading(a_tenth_dead.dead),
            "lag, p99": Reading(late),
        }

    yield measure


BMC_DEAD = Benchmark(
    name="bmc_dead",
    what="a tenth of all BMCs is black-holed: time to verify the healthy ones as a multiple of that with none dead, "
    "when the last dead one is known to be dead, how long a healthy node waits for its turn",
    nodes=2_000,
    goals=(
        Goal("ratio", "×", Bound.AT_MOST, 1.2),
        Goal("classified", "s", Bound.AT_MOST, 30),
        Goal("lag, p99", "ms", Bound.AT_MOST, 1000),
    ),
    open=_a_tenth_dead,
)
