"""Runs the real loop for nodes in this process, with a sink that counts its work.

The parts are those of the daemon, including the listener. Only the BMC client is missing, because no node of these
benchmarks needs it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TypeAlias

import anyio
import msgspec
from typing_extensions import override

from bench.ground import Ground
from farrier import memory
from farrier.clock import MonotonicClock
from farrier.config import ControllerConfig, CredentialsConfig, NodeConfig
from farrier.controller.agenda import Phase
from farrier.controller.controller import Controller
from farrier.controller.host import LoopContext
from farrier.controller.loop import Loop
from farrier.controller.ownership import Ownership
from farrier.enqueuer.listener import Listener
from farrier.handlers.node.changes import NodeServices
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import NODE_KIND
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.calls.identities import PostgresIdentities
from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.io.schema import catalog
from farrier.metrics.sink import PrometheusSink
from farrier.model.intents.params import PowerRequest
from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import Write
from farrier.protocols import BmcClient, MaasClient, Regions
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.recent import RecentCredentials
from farrier.services.credentials.resolver import Credentials
from farrier.services.credentials.routes import BoundCredentials, Ways
from farrier.wiring.vocabulary import vocabulary

NodeIO: TypeAlias = PostgresStateIO[Node, Node, Write]
NodeLoop: TypeAlias = Loop[Node, Node, Write, NodeServices]

CONTROLLER = ControllerConfig()
# If a benchmark has not done its work after this time, it has failed. The time is long enough for a million nodes.
PATIENCE = timedelta(minutes=15)
# The benchmarks make all agents of a fleet silent, so the brake is off; otherwise it would keep the nodes in service.
_NODES = NodeConfig(brake_share=1)
_LOOK_SECONDS = 0.05


class Tally(PrometheusSink):
    """The daemon's metrics, and the number of runs."""

    def __init__(self) -> None:
        super().__init__(vocabulary())
        self.runs = 0
        self.transitions = 0
        self._changed = anyio.Event()

    @override
    def ran(self, kind: str, runs: Mapping[str, Sequence[float]]) -> None:
        super().ran(kind, runs)
        self.runs += sum(map(len, runs.values()))
        self.transitions += len(runs.get("transition", ()))
        self._changed.set()

    async def until(self, *, runs: int = 0, transitions: int = 0) -> None:
        """Wait until at least `runs` runs and `transitions` transitions have ended since this sink was made."""
        with anyio.fail_after(PATIENCE.total_seconds()):
            while self.runs < runs or self.transitions < transitions:
                self._changed = anyio.Event()
                await self._changed.wait()


class Unconnected(Regions):
    """The regions of a site without MAAS."""

    @override
    def client(self, site: str) -> MaasClient | None:
        return None

    @override
    def slot(self, site: str, caller: Hashable) -> AbstractAsyncContextManager[MaasClient]:
        raise MaasError(MaasFailure.UNREACHABLE, "benchmarks have no MAAS")


class Unplugged(BmcClient):
    """A BMC client without any BMC."""

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        raise BmcError(BmcFailure.UNREACHABLE, "benchmarks have no BMC")

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        raise BmcError(BmcFailure.UNREACHABLE, "benchmarks have no BMC")

    @override
    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        raise BmcError(BmcFailure.UNREACHABLE, "benchmarks have no BMC")


class Work(msgspec.Struct, frozen=True):
    """A controller that runs nodes."""

    tally: Tally
    loop: NodeLoop
    handler: NodeHandler

    async def until_at_rest(self, ids: Collection[int]) -> None:
        """Wait until each of these resources has run, and no run or commit of it is in progress."""
        agenda = self.loop.agenda
        with anyio.fail_after(PATIENCE.total_seconds()):
            # No event reports this state.
            while agenda.load_at < math.inf or agenda.under_way or not all(map(self._is_idle, ids)):  # noqa: ASYNC110
                await anyio.sleep(_LOOK_SECONDS)

    def _is_idle(self, id_: int) -> bool:
        entry = self.loop.agenda.entry(id_)
        return entry is not None and entry.phase is Phase.IDLE


def _no_credentials() -> BoundCredentials:
    return BoundCredentials(RecentCredentials(Credentials(CredentialsConfig()), MonotonicClock()), Ways(Bindings(), ()))


@asynccontextmanager
async def running(
    ground: Ground,
    *,
    io: NodeIO | None = None,
    controllers: PostgresControllers | None = None,
    config: ControllerConfig = CONTROLLER,
) -> AsyncIterator[Work]:
    """Run a controller for the ground's nodes. At the end of the block, the controller is drained."""
    memory.settle()
    async with ground.pool.acquire() as conn:
        await catalog.set_settings(conn, _NODES)
    tally, handler, stop = Tally(), NodeHandler(_NODES), anyio.Event()
    host = LoopContext(config=config, sink=tally, clock=MonotonicClock(), ownership=Ownership())
    services = NodeServices(Unplugged(), _no_credentials(), Unconnected(), PostgresIdentities(ground.pool))
    storage = io or PostgresStateIO(ground.pool, NodeRows())
    loop: NodeLoop = Loop(NODE_KIND, handler, storage, services=services, host=host)
    controller = Controller(controllers or PostgresControllers(ground.pool), [loop], host, name="bench")
    listener = Listener(ground.dsn, wake=controller.woken, missed=controller.heard_nothing)
    async with anyio.create_task_group() as listening:
        listening.start_soon(listener.run)
        async with anyio.create_task_group() as group:
            group.start_soon(controller.run, stop)
            try:
                yield Work(tally, loop, handler)
            finally:
                stop.set()
        listening.cancel_scope.cancel()
