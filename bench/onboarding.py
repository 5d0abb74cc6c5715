"""Measures a fleet that onboards through MAAS: the time that farrier adds to MAAS's time, and how soon farrier reacts
to a change that it reads.

A separate `farrier run` process takes nodes from `onboard` to `active`. The region's durations and the intervals at
which farrier reads it are divided by `FACTOR`. The duration of farrier's work stays the same, so in a real fleet its
share of the time is `FACTOR` times smaller. This process records when the region sends each response. The history has
the time of each commit. Both times are from the clock of one machine.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from statistics import quantiles

import anyio
import msgspec

from bench import daemon, fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.upstream import Pace, Upstream, onboard, register, upstream
from farrier.errors import FarrierError
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import Durations, Region, Status
from farrier.sim.maas.http.call import Exchange

# Eight minutes of commissioning, twelve minutes of deploying and fifteen minutes until the second sync become three and
# a half minutes.
FACTOR = 10.0
# A server boots for some minutes. Its agent enrolls long before the machine's second sync, so the boot delays no node.
_BOOT = timedelta(minutes=4)
# Machines are registered rack by rack, a fleet of a thousand within a quarter of an hour.
_ARRIVE_WITHIN = timedelta(minutes=15)
_RACK = 20
# The longest intervals to which the figures apply. Divided by `FACTOR`, they are the shortest intervals that a site may
# have.
_EVENTS_EVERY = timedelta(seconds=10)
_MOTION_EVERY = timedelta(seconds=50)
# A node is stuck if it takes more than `_PATIENCE_TIMES` times as long as MAAS, and more than `_PATIENCE_SECONDS`
# seconds.
_PATIENCE_TIMES = 2
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 1.0

_STATUS_CHANGED = "Node changed status"
_TO = re.compile(r"to '([^']+)'")
_SECOND_SYNC = "synced"
_SHOWN_TO = {
    OnboardingStage.WAIT_FOR_READY: Status.READY.label,
    OnboardingStage.WAIT_FOR_DEPLOYED: Status.DEPLOYED.label,
    OnboardingStage.WAIT_FOR_HARDWARE_SYNC_HEALTHY: _SECOND_SYNC,
}

_ACTIVE = "SELECT count(*) FROM farrier.nodes WHERE status = 'active'"
_STUCK = """
    SELECT count(*) AS nodes, min(n.name) AS name, n.status, l.workflow_status, l.stage, l.failure_class,
           min(l.failure_detail) AS detail
      FROM farrier.nodes n JOIN farrier.node_lifecycle l USING (id)
     WHERE n.status <> 'active' GROUP BY 3, 4, 5, 6 ORDER BY 1 DESC
"""
_TOOK = """
    SELECT extract(epoch FROM h.at - i.answered_at)::float8 AS seconds
      FROM farrier.intents i JOIN farrier.history h ON h.kind = 'node' AND h.id = i.node_id
     WHERE i.action = 'onboard' AND h.layer = 'status' AND h.to_value = 'active'
"""
_LEFT = """
    SELECT n.maas_id, h.from_value AS stage, extract(epoch FROM h.at)::float8 AS at
      FROM farrier.history h JOIN farrier.nodes n ON n.id = h.id
     WHERE h.kind = 'node' AND h.layer = 'onboarding_stage' AND h.from_value = ANY ($1::text[])
"""


class Stuck(FarrierError):
    """Some nodes should be active but are not."""


class Shown:
    """Records when a response of the region first showed each change. The response may be a page of events, a list of
    machines or one machine."""

    def __init__(self, region: Region, *, wall: Callable[[], float] = time.time) -> None:
        self._region = region
        self._wall = wall
        self._pages: list[tuple[float, bytes]] = []
        self._machines: dict[tuple[str, str], float] = {}
        self._first_syncs: dict[str, object] = {}
        region.on_answer.append(self._answered)

    def by_machines(self) -> dict[tuple[str, str], float]:
        """Return the time of the first response that showed a machine in a status, by machine and status, without pages
        of events."""
        return self._machines

    def by_anything(self) -> dict[tuple[str, str], float]:
        """Return the time of the first response that showed a machine in a status, by machine and status, including
        pages of events."""
        first = dict(self._machines)
        for moment, content in self._pages:
            for event in msgspec.json.decode(content)["events"]:
                to = _TO.search(event["description"]) if event["type"] == _STATUS_CHANGED else None
                if to is not None:
                    key = event["node"], to.group(1)
                    first[key] = min(moment, first.get(key, moment))
        return first

    def _answered(self, exchange: Exchange) -> None:
        if exchange.method != "GET":
            return
        match exchange.path.strip("/").split("/")[3:]:
            case ["events"]:
                self._pages.append((self._wall(), exchange.answer.content))
            case ["machines"]:
                for name, value in exchange.query:
                    if name == "id":
                        self._showed(value)
            case ["machines", system_id]:
                self._showed(system_id)
            case _:
                pass  # the object of a machine does not show its status

    def _showed(self, system_id: str) -> None:
        machine = self._region.machines.get(system_id)
        if machine is None:
            return
        now = self._wall()
        self._machines.setdefault((system_id, machine.status.label), now)
        if machine.status is Status.DEPLOYED:
            first = self._first_syncs.setdefault(system_id, machine.last_sync)
            if machine.last_sync != first:
                self._machines.setdefault((system_id, _SECOND_SYNC), now)


class Onboarded(msgspec.Struct, frozen=True):
    """The seconds that each node took, and the milliseconds from the first response (or event) that showed a change
    until the commit of a run."""

    took: Sequence[float]
    after_shown: Sequence[float]
    after_told: Sequence[float]


async def take_in(
    ground: Ground, region: Region, pace: Pace, nodes: int, *, within: timedelta, boot: timedelta
) -> Onboarded:
    """Register nodes, a rack at a time, and onboard all of them. Raises Stuck if some do not become active in time."""
    shown = Shown(region)
    async with upstream(ground, region, pace, boot=boot) as there:
        in_time = await _come(ground, there, nodes, within=within)
    if not in_time:
        raise await stuck(ground)
    left = await ground.pool.fetch(_LEFT, [stage.value for stage in _SHOWN_TO])
    moments = [((row["maas_id"], _SHOWN_TO[OnboardingStage(row["stage"])]), row["at"]) for row in left]
    by_machines, by_anything = shown.by_machines(), shown.by_anything()
    return Onboarded(
        took=[row["seconds"] for row in await ground.pool.fetch(_TOOK)],
        after_shown=[1000 * (at - by_machines[key]) for key, at in moments],
        after_told=[1000 * (at - by_anything[key]) for key, at in moments],
    )


async def _come(ground: Ground, there: Upstream, nodes: int, *, within: timedelta) -> bool:
    """Register and onboard the nodes, and return whether all became active in time."""
    names = await register(ground, there, nodes)
    racks = [names[first : first + _RACK] for first in range(0, nodes, _RACK)]
    async with daemon.running(ground.dsn, there.environment):
        for rack in racks:
            await onboard(ground, rack)
            await anyio.sleep(within.total_seconds() / len(racks))
        patience = max(_PATIENCE_SECONDS, _PATIENCE_TIMES * maas_takes(there.region.durations))
        return await until_active(ground, nodes, patience=patience)


async def until_active(ground: Ground, nodes: int, *, patience: float) -> bool:
    """Return whether at least `nodes` nodes are in service within `patience` seconds."""
    with anyio.move_on_after(patience):
        while True:
            if await ground.pool.fetchval(_ACTIVE) >= nodes:
                return True
            await anyio.sleep(_LOOK_SECONDS)
    return False


async def stuck(ground: Ground) -> Stuck:
    """Return an error with the states of the nodes that are not in service."""
    return Stuck("not in service: " + "; ".join(str(dict(row)) for row in await ground.pool.fetch(_STUCK)))


def maas_takes(durations: Durations) -> float:
    """Return the seconds that one node waits for the region, with any client."""
    return (durations.commission + durations.deploy + durations.sync).total_seconds()


def percentile(values: Sequence[float], which: int) -> float:
    """Return the `which`-th percentile. If there is only one value, return this value."""
    return quantiles(values, n=100, method="inclusive")[which - 1] if len(values) > 1 else values[0]


@asynccontextmanager
async def _onboardings(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    durations = Durations().shorter(FACTOR)
    pace = Pace(events_every=_EVENTS_EVERY / FACTOR, motion_every=_MOTION_EVERY / FACTOR)
    own = maas_takes(durations)

    async def measure() -> Readings:
        region = Region(durations=durations)
        done = await take_in(ground, region, pace, nodes, within=_ARRIVE_WITHIN / FACTOR, boot=_BOOT / FACTOR)
        await fleet.clear(ground)
        return {
            "overhead, p95": Reading(100 * (percentile(done.took, 95) / own - 1)),
            "poll to run, p50": Reading(percentile(done.after_shown, 50)),
            "poll to run, p99": Reading(percentile(done.after_shown, 99)),
            "event to run, p50": Reading(percentile(done.after_told, 50)),
            "event to run, p99": Reading(percentile(done.after_told, 99)),
        }

    yield measure


ONBOARDING = Benchmark(
    name="onboarding",
    what="nodes go from onboard to active through MAAS; the durations of MAAS and farrier's "
    f"intervals are divided by {FACTOR:g}: the time that each node takes in addition to the "
    "times of MAAS, and the time from the response with the state that a stage waits for "
    "until the commit of the stage's run",
    nodes=1_000,
    goals=(
        Goal("overhead, p95", "%", Bound.AT_MOST, 5),
        Goal("poll to run, p50", "ms", Bound.AT_MOST, 100),
        Goal("poll to run, p99", "ms", Bound.AT_MOST, 100),
        # A page of events only names a machine; another request reads its state.
        Goal("event to run, p50", "ms", Bound.AT_MOST, 200),
        Goal("event to run, p99", "ms", Bound.AT_MOST, 500),
    ),
    open=_onboardings,
)
