"""Creates the loops of a process, one for each kind of resource, with their handlers, storage and services.

The daemon calls `runtime` and runs the loops. `use_sites` passes the configuration of sites to the objects that use it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from farrier import config as settings
from farrier.clock import MonotonicClock
from farrier.config.sites import Sites
from farrier.controller.controller import Controller
from farrier.controller.dry_runs import Foreseer
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop as ResourceLoop
from farrier.controller.ownership import Ownership
from farrier.enqueuer.listener import Listener
from farrier.errors import ConfigError, FarrierError
from farrier.handlers.maas_region.handler import REGION_KIND, RegionHandler
from farrier.handlers.node.changes import NodeServices
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import NODE_KIND
from farrier.handlers.resource.extension import ServiceContext
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.calls.identities import PostgresIdentities
from farrier.io.calls.questions import PostgresQuestions
from farrier.io.calls.retention import PostgresRetention
from farrier.io.connections.pool import Pool
from farrier.io.connections.pulse import PostgresPulse
from farrier.io.kinds import maas_region as region_rows
from farrier.io.kinds.built_in import REGION_ROWS
from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.protocols import CredentialStore, MetricsSink, ServiceObserver
from farrier.services.bmc.access import BmcTimes
from farrier.services.bmc.client import open_bmc
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.routes import BoundCredentials, Ways
from farrier.services.http.client import Times
from farrier.services.maas.regions import Regions, settings_of
from farrier.services.ufm import client as fabric_services
from farrier.services.ufm.client import Fabrics
from farrier.wiring.kinds import Extensions, LoopParts, built_in_loops, kind_loop, loop_of
from farrier.wiring.secrets import credentials
from farrier.wiring.storage import Database, brief
from farrier.wiring.traces import Traces


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that the daemon runs once the database is available, and all objects that use the configuration of
    sites. `background` maps names to the tasks that run beside the controller until they are cancelled."""

    controller: Controller
    background: Mapping[str, Callable[[], Awaitable[None]]]
    nodes: NodeHandler
    maas_regions: RegionHandler
    regions: Regions
    fabrics: Fabrics
    bindings: Bindings
    pool: Pool

    async def use_sites(self, sites: Sites) -> None:
        """Use these sites from the next run on. If it raises ConfigError or DatabaseUnreachable, it changes nothing."""
        regions = await self.regions.opened(settings_of(sites))
        fabrics = await self.fabrics.opened(fabric_services.settings_of(sites))
        await region_rows.use(self.pool, sites)
        self.regions.take(regions)
        self.fabrics.take(fabrics)
        self.bindings.use_sites(sites)
        self.nodes.use_sites(sites)
        self.maas_regions.use_sites(sites)


@asynccontextmanager
async def runtime(
    config: settings.Config,
    database: Database,
    *,
    sink: MetricsSink,
    observer: ServiceObserver,
    extensions: Extensions | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[Runtime]:
    """Create the loops, which do not run yet and have no sites. `extensions` are kinds of other packages. Raises
    ConfigError."""
    clock, observer = MonotonicClock(), observer if traces is None else traces.observer(observer)
    bound, times = Bindings(config.credentials.bindings), BmcTimes(clock=clock, deadline=config.node.probe_deadline)
    host = LoopContext(config=config.controller, sink=sink, clock=clock, ownership=Ownership())
    async with (
        credentials(config, observer=observer) as store,
        open_bmc(config.bmc, times, credentials=store, bindings=bound, observer=observer) as bmc,
        Regions.open(credentials=store, times=Times(clock=clock), observer=observer) as regions,
        Fabrics.open(credentials=store, times=Times(clock=clock), observer=observer) as fabrics,
        _of_others(extensions or {}, store) as others,
    ):
        of_nodes = BoundCredentials(bmc.credentials, Ways(bound, config.bmc.allowed_networks))
        node_handler, region_handler = NodeHandler(config.node, config.sla), RegionHandler()
        loops = [
            LoopParts(
                NODE_KIND,
                node_handler,
                NodeRows(),
                NodeServices(bmc, of_nodes, regions, PostgresIdentities(database.pool)),
            ),
            kind_loop(REGION_KIND, region_handler, REGION_ROWS, regions),
            *built_in_loops(config, fabrics),
            *others,
        ]
        controllers = PostgresControllers(database.pool)
        storages = [PostgresStateIO(database.pool, each.rows) for each in loops]
        running = [_loop(each, storage, host, traces) for each, storage in zip(loops, storages, strict=True)]
        controller = Controller(controllers, running, host)
        pulse = PostgresPulse(database.pool)
        questions = PostgresQuestions(database.pool, [each.rows for each in loops])
        foreseer = Foreseer(questions, [(each.kind, each.handler) for each in loops], host)
        background: dict[str, Callable[[], Awaitable[None]]] = {
            "pulse": pulse.keep_beating,
            "mend": pulse.keep_mending,
            "foreseer": foreseer.run,
        }
        if not config.database.pgbouncer:
            background["listener"] = _listener(config, database, controller, foreseer).run
            scenes = controllers.rehearsed(), *(each.rehearsed() for each in storages)
            await database.rehearsal.begin(database.pool, scenes)
        if keep_days := config.history.keep_days:
            background["history"] = partial(PostgresRetention(database.pool).run, timedelta(days=keep_days))
        yield Runtime(
            controller=controller,
            background=background,
            nodes=node_handler,
            maas_regions=region_handler,
            regions=regions,
            fabrics=fabrics,
            bindings=bound,
            pool=database.pool,
        )


def _listener(config: settings.Config, database: Database, controller: Controller, foreseer: Foreseer) -> Listener:
    wake = partial(_woken, controller, foreseer)
    return Listener(database.dsn, wake=wake, missed=controller.heard_nothing, timeouts=brief(config.database))


def _woken(controller: Controller, foreseer: Foreseer, kind: str, ids: Sequence[int] | None) -> None:
    """Pass a notification on: `questions` announces questions, and any other word names a kind."""
    if kind == "questions":
        foreseer.ring()
    else:
        controller.woken(kind, ids)


def _loop(
    of: LoopParts, storage: PostgresStateIO[Any, Any, Any], host: LoopContext, traces: Traces | None
) -> ResourceLoop[Any, Any, Any, Any]:
    handler = of.handler if traces is None else traces.handler(of.kind, of.handler)
    return ResourceLoop(of.kind, handler, storage, services=of.services, host=host)


@asynccontextmanager
async def _of_others(extensions: Extensions, store: CredentialStore) -> AsyncIterator[list[LoopParts]]:
    """Return the loops of kinds of other packages, with their services."""
    async with AsyncExitStack() as stack:
        loops = []
        for extension in extensions.values():
            try:
                services = await stack.enter_async_context(extension.services(ServiceContext(store)))
            except FarrierError:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise ConfigError(f"kind {extension.spec.name}: its services failed: {reason}") from error
            loops.append(loop_of(extension, services))
        yield loops
