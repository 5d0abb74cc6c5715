"""Compares farrier, which onboards a large fleet through a MAAS whose work takes no time, with a bare client that makes
the same calls.

The calls to the region are recorded while a `farrier run` process takes the fleet to `active`. Then a process that
makes no decisions and stores nothing makes the same calls to another region of the same kind, machine after machine.
The ratio of the two times shows the cost of deciding the next call, storing the decision, and making the call only
once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec

from bench import daemon, fleet
from bench.bare_client import Took
from bench.calls import Calls
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.onboarding import stuck, until_active
from bench.upstream import Pace, onboard, register, served, upstream
from farrier.errors import FarrierError
from farrier.sim.maas import Durations, Region

# The region does its work within the call, or right after it. A sync counts as fresh for one and a half intervals. With
# a shorter interval, some syncs would be too old when farrier reads them.
INSTANT = Durations(commission=timedelta(0), deploy=timedelta(0), sync=timedelta(seconds=5))
# The shortest intervals that a site may have.
_PACE = Pace(events_every=timedelta(seconds=1), motion_every=timedelta(seconds=5))
# The time limit for each node. If a node takes longer, the benchmark has failed.
_PATIENCE_SECONDS = 1.0
_AT_LEAST_SECONDS = 60.0

_BEGAN = "SELECT min(extract(epoch FROM created_at))::float8 FROM farrier.intents WHERE action = 'onboard'"
_ENDED = """
    SELECT max(extract(epoch FROM at))::float8 FROM farrier.history
     WHERE kind = 'node' AND layer = 'status' AND to_value = 'active'
"""


class Refused(FarrierError):
    """The region refused more calls of the bare client than of the daemon, so the client and the daemon did not do the
    same work."""


async def by_farrier(ground: Ground, nodes: int) -> tuple[float, Calls]:
    """Return the seconds until all nodes, which are requested at once, are active, and the calls that the region
    received."""
    region = Region(durations=INSTANT)
    calls = Calls(region)
    async with upstream(ground, region, _PACE) as there:
        names = await register(ground, there, nodes)
        async with daemon.running(ground.dsn, there.environment):
            await onboard(ground, names)
            in_time = await until_active(ground, nodes, patience=_AT_LEAST_SECONDS + nodes * _PATIENCE_SECONDS)
    if not in_time:
        raise await stuck(ground)
    return await ground.pool.fetchval(_ENDED) - await ground.pool.fetchval(_BEGAN), calls


async def by_bare_client(calls: Calls, region: Region) -> Took:
    """Make the same calls to a region without machines. Raises Refused."""
    with tempfile.TemporaryDirectory(prefix="farrier-calls-") as directory:
        file = Path(directory) / "calls.json"
        file.write_bytes(msgspec.json.encode(calls.made))
        async with served(region) as url:
            command = [sys.executable, "-m", "bench.bare_client", url, str(file)]
            done = await anyio.run_process(command, stderr=None, stdout=subprocess.PIPE)
    took = msgspec.json.decode(done.stdout, type=Took)
    allowed = sum(made.refused for made in calls.made)
    if took.refused > allowed:
        raise Refused(f"{took.refused} of the bare client's calls were refused, and {allowed} of the daemon's")
    return took


@asynccontextmanager
async def _at_once(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        seconds, calls = await by_farrier(ground, nodes)
        await fleet.clear(ground)
        bare = await by_bare_client(calls, Region(durations=INSTANT))
        return {
            "wall time": Reading(seconds / bare.seconds, bare.seconds / seconds),
            "calls": Reading(len(calls.made) / nodes),
        }

    yield measure


ONBOARDING_BARE = Benchmark(
    name="onboarding_bare",
    what="all nodes get the intent onboard at once, with a MAAS whose work takes no time: time "
    "until the last node is active, divided by the time of a bare client for the same calls; "
    "calls for each node",
    nodes=4_500,
    goals=(
        Goal("wall time", "×", Bound.AT_MOST, 2),
        Goal("calls", "/node", Bound.AT_MOST, 20),
    ),
    open=_at_once,
)
