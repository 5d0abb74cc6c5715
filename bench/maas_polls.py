"""Measures the load of observation on a MAAS region: requests and machines a minute, for a fleet at rest and for 100
deploying machines.

The loop, storage, handler and client are real; the region is simulated. The clocks of the region and of the database
advance together, by one polling interval at a time, so that half an hour takes seconds. The figures are the requests
that the client reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import msgspec
from typing_extensions import override

from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.clock import MonotonicClock
from farrier.config import ControllerConfig
from farrier.config.sites import MaasSite, ObserveSite, Site
from farrier.controller.agenda import Phase
from farrier.controller.controller import Controller
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop
from farrier.controller.ownership import Ownership
from farrier.handlers.maas_region.handler import REGION_KIND, RegionHandler
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.kinds import maas_region as regions_of
from farrier.io.kinds.built_in import REGION_ROWS
from farrier.io.kinds.state import PostgresStateIO
from farrier.metrics.sink import PrometheusSink
from farrier.model.credential import Credential
from farrier.model.maas.changes import Commission, Deploy, NewMachine, PowerAccess
from farrier.protocols import CredentialStore, MaasClient, ServiceObserver
from farrier.services.http.client import Times
from farrier.services.maas.regions import Regions
from farrier.services.maas.service import MaasSettings
from farrier.sim.maas import ADMIN, Region, RegionTransport, Status
from farrier.sim.maas.records import Machine
from farrier.wiring.vocabulary import vocabulary

_URL = "http://maas.bench/MAAS"
_PACE = ObserveSite()
_SITE = Site(name="bench", maas=MaasSite(url=_URL, key="env:KEY"), observe=_PACE)
_MOVING = 100
# This is long enough for a complete sweep and for a complete deployment.
_AT_REST = timedelta(minutes=30)
_IN_MOTION = timedelta(minutes=12)
_COMMISSIONED = timedelta(minutes=15)
_MINUTE = timedelta(minutes=1)
_PATIENCE = 120.0

# Replaces the only function that reads the time with a function that adds an offset. The function and the offset are
# dropped with the schema.
_CLOCK = """
    CREATE TABLE farrier.bench_clock (shift interval NOT NULL);
    INSERT INTO farrier.bench_clock VALUES ('0');
    CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
        RETURN statement_timestamp() + (SELECT shift FROM farrier.bench_clock);
"""
_ADVANCE = "UPDATE farrier.bench_clock SET shift = shift + $1"
_WAKE = "INSERT INTO farrier.wakes (kind, resource) SELECT $1, id FROM farrier.maas_regions RETURNING resource"
# After many incomplete reads in a row, the observer pauses. So a machine that was never read also counts as remaining
# work.
_BUSY = """
    SELECT EXISTS (SELECT FROM farrier.wakes WHERE kind = $1)
           OR EXISTS (SELECT FROM farrier.node_observations WHERE read_at IS NULL)
"""
_NODES = """
    INSERT INTO farrier.nodes (name, site, maas_id, status, management)
    SELECT 'gpu-' || m, 'bench', m, 'enrolling', 'unmanaged' FROM unnest($1::text[]) m
"""
_FORGET = "TRUNCATE farrier.nodes, farrier.maas_regions, farrier.wakes CASCADE"
_BEGIN = """
    WITH made AS (
        INSERT INTO farrier.node_onboardings (node_id, mode)
        SELECT n.id, 'deploy' FROM farrier.nodes n WHERE n.maas_id = ANY ($1) RETURNING id, node_id)
    UPDATE farrier.nodes n SET live_workflow_kind = 'onboarding', live_workflow_id = made.id
      FROM made WHERE made.node_id = n.id
"""
_RUN = """
    UPDATE farrier.node_onboardings
       SET status = 'running', stage = 'wait_for_deployed', stage_entered_at = farrier.now(),
           status_entered_at = farrier.now()
     WHERE status = 'pending'
"""
_STOP = """
    WITH ended AS (
        UPDATE farrier.node_onboardings w SET status = 'cancelled' FROM farrier.nodes n
         WHERE n.id = w.node_id AND w.status = 'running' AND n.maas_id = ANY ($1) RETURNING w.node_id)
    UPDATE farrier.nodes n SET live_workflow_kind = NULL, live_workflow_id = NULL FROM ended WHERE ended.node_id = n.id
"""


class _Key(CredentialStore):
    """The key of the simulated region."""

    @override
    async def resolve(self, reference: str) -> Credential:
        raise NotImplementedError("a region has a token")

    @override
    async def version(self, reference: str) -> str:
        return "1"

    @override
    async def token(self, reference: str) -> str:
        return ADMIN.key


class _Counted(ServiceObserver):
    """The number of requests of each operation."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        self.requests[operation] += 1


class _Watch(msgspec.Struct, frozen=True):
    """An observed region, and the counts of its requests."""

    ground: Ground
    region: Region
    observed: _Counted
    is_idle: Callable[[int], bool]

    async def rest(self) -> None:
        """Run the observer until it has nothing to do before more time passes."""
        (woken,) = [record["resource"] for record in await self.ground.pool.fetch(_WAKE, REGION_KIND.name)]
        with anyio.fail_after(_PATIENCE):
            while await self.ground.pool.fetchval(_BUSY, REGION_KIND.name) or not self.is_idle(woken):
                await anyio.lowlevel.checkpoint()

    async def poll(self) -> None:
        """Advance the time by one polling interval."""
        self.region.advance(_PACE.events_every)
        await self.ground.pool.execute(_ADVANCE, _PACE.events_every)
        await self.rest()

    async def at_rest(self) -> float:
        """Return the requests a minute while nothing happens."""
        self.observed.requests.clear()
        for _ in range(_AT_REST // _PACE.events_every):
            await self.poll()
        return self.observed.requests.total() / (_AT_REST / _MINUTE)

    async def in_motion(self, ids: Sequence[str], client: MaasClient) -> float:
        """Return the requests a minute while `_MOVING` machines deploy. Deployments begin one after the other, and when
        one ends, another begins. The first round is a warm-up, and the second is counted."""
        steps = _IN_MOTION // _PACE.events_every
        for step in range(2 * steps):
            if step == steps:
                self.observed.requests.clear()
            begun = range(-(-step * _MOVING // steps), -(-(step + 1) * _MOVING // steps))
            for number in begun:
                await self.ground.pool.execute(_STOP, [ids[number - _MOVING]] if number >= _MOVING else [])
                await self.ground.pool.execute(_BEGIN, [ids[number]])
                await self.ground.pool.execute(_RUN)
                machine = await client.machine(ids[number])
                await client.do(machine, Deploy(user_data="#cloud-config\n", comment="bench"))
            await self.poll()
        return self.observed.requests.total() / (_IN_MOTION / _MINUTE)


async def _ready(client: MaasClient, number: int) -> str:
    """Create a machine and begin its commissioning. Returns its ID."""
    new = NewMachine(
        hostname=f"moving-{number}",
        mac_addresses=(f"52:54:00:00:{number // 250:02x}:{number % 250:02x}",),
        power=PowerAccess(address=f"10.0.{number // 250}.{number % 250 + 1}", username="root", password="x"),
        description="bench",
    )
    made = await client.create(new)
    await client.do(made, Commission(skip_networking=False, skip_storage=False))
    return made.system_id


@asynccontextmanager
async def _client(region: Region, observed: _Counted) -> AsyncIterator[Regions]:
    times, transport = Times(clock=MonotonicClock()), RegionTransport(region)
    async with Regions.open(credentials=_Key(), times=times, observer=observed, transport=transport) as regions:
        await regions.use({_SITE.name: MaasSettings(url=_URL, key="env:KEY")})
        yield regions


@asynccontextmanager
async def _watched(ground: Ground, nodes: int) -> AsyncIterator[_Watch]:
    region, observed, stop = Region(), _Counted(), anyio.Event()
    for number in range(nodes):
        name = f"d{number:05}"
        region.keep(Machine(system_id=name, hostname=name, status=Status.DEPLOYED, owner=ADMIN.username))
    config = ControllerConfig(poll_interval=timedelta(milliseconds=2))
    async with _client(region, observed) as regions:
        host = LoopContext(
            config=config, sink=PrometheusSink(vocabulary()), clock=MonotonicClock(), ownership=Ownership()
        )
        loop: Loop[Any, Any, Any, Any] = Loop(
            REGION_KIND,
            REGION_KIND.guarded(RegionHandler({_SITE.name: _SITE})),
            PostgresStateIO(ground.pool, REGION_ROWS),
            services=regions,
            host=host,
        )
        controller = Controller(PostgresControllers(ground.pool), [loop], host, name="bench")

        def is_idle(region: int) -> bool:
            entry = loop.agenda.entry(region)
            return entry is not None and entry.phase is Phase.IDLE

        async with anyio.create_task_group() as group:
            group.start_soon(controller.run, stop)
            yield _Watch(ground, region, observed, is_idle)
            stop.set()


@asynccontextmanager
async def _polls_of(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await ground.pool.execute(_CLOCK)
    async with _watched(ground, nodes) as watch, _client(watch.region, _Counted()) as regions:
        client = regions.client(_SITE.name)
        assert client is not None, "the site has a region"

        async def measure() -> Readings:
            for machine in [*watch.region.machines.values()]:
                if machine.hostname.startswith("moving-"):
                    watch.region.forget(machine)
            moving = [await _ready(client, number) for number in range(2 * _MOVING)]
            watch.region.advance(_COMMISSIONED)
            await ground.pool.execute(_FORGET)
            await ground.pool.execute(_NODES, [*watch.region.machines])
            await ground.pool.execute("VACUUM ANALYZE farrier.nodes, farrier.node_observations")
            await regions_of.use(ground.pool, {_SITE.name: _SITE})
            await watch.rest()
            idle = await watch.at_rest()
            return {"at rest": Reading(idle), "100 deploying": Reading(await watch.in_motion(moving, client))}

        yield measure


MAAS_POLLS = Benchmark(
    name="maas_polls",
    what="requests a minute from the observer to a MAAS region: with a fleet at rest, and with 100 machines deploying",
    nodes=10_000,
    # The targets allow a poll of events every 5 s, a sweep every half an hour with 50 machines a request, and up to
    # three requests a poll for deploying machines.
    goals=(Goal("at rest", "/min", Bound.AT_MOST, 20), Goal("100 deploying", "/min", Bound.AT_MOST, 60)),
    open=_polls_of,
)
