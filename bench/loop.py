"""The real loop over nodes, in this process, with a sink that tells when so much work is done.

The parts are those that the daemon runs; only the BMC is missing, because no node of the benchmarks asks for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TypeAlias
from uuid import uuid4

import anyio
from typing_extensions import override

from bench.ground import Ground
from farrier import memory
from farrier.clock import MonotonicClock
from farrier.config import ControllerConfig, NodeConfig
from farrier.controller.host import Host
from farrier.controller.processor import Processor
from farrier.handlers.node import NODE_KIND, NodeHandler, NodeServices
from farrier.io.identities import PostgresIdentities
from farrier.io.node import NodeRows
from farrier.io.state import PostgresStateIO
from farrier.metrics.definitions import KindWords, Vocabulary
from farrier.metrics.sink import PrometheusSink
from farrier.model.bmc import BmcError, BmcFailure, BmcReading, BmcTarget
from farrier.model.maas import MaasError, MaasFailure
from farrier.model.node import Node
from farrier.model.params import PowerRequest
from farrier.model.writes import Write
from farrier.protocols import BmcClient, MaasClient, Regions
from farrier.services.bindings import Bindings
from farrier.services.credentials import CredentialPlaces, Credentials
from farrier.services.ways import BoundCredentials, Ways

NodeIO: TypeAlias = PostgresStateIO[Node, Node, Write]

CONTROLLER = ControllerConfig()
# A benchmark that has not done its work by then never will.
PATIENCE = timedelta(minutes=3)


class Tally(PrometheusSink):
    """The daemon's metrics, and how many runs there were."""

    def __init__(self) -> None:
        super().__init__(Vocabulary(kinds={NODE_KIND.name: KindWords(layers={}, labels=())}, services={}))
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
        """Return once so many runs, and so many of them transitions, were committed since this sink was made."""
        with anyio.fail_after(PATIENCE.total_seconds()):
            while self.runs < runs or self.transitions < transitions:
                self._changed = anyio.Event()
                await self._changed.wait()


class Unconnected(Regions):
    """Where there is no MAAS."""

    @override
    def client(self, site: str) -> MaasClient | None:
        return None

    @override
    def turn(self, site: str) -> AbstractAsyncContextManager[MaasClient]:
        raise MaasError(MaasFailure.UNREACHABLE, "benchmarks have no MAAS")


class Unplugged(BmcClient):
    """Where there is no BMC."""

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        raise BmcError(BmcFailure.UNREACHABLE, "benchmarks have no BMC")

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        raise BmcError(BmcFailure.UNREACHABLE, "benchmarks have no BMC")

    @override
    async def set_power(self, target: BmcTarget, wanted: PowerRequest, *, send: bool = True) -> BmcReading:
        raise BmcError(BmcFailure.UNREACHABLE, "benchmarks have no BMC")


def node_io(ground: Ground) -> NodeIO:
    """Storage of nodes under an owner of its own."""
    return PostgresStateIO(ground.pool, NodeRows(), owner=uuid4(), lease=CONTROLLER.lease)


def _no_credentials() -> BoundCredentials:
    return BoundCredentials(Credentials(CredentialPlaces()), Ways(Bindings(), ()))


@asynccontextmanager
async def running(
    ground: Ground, *, io: NodeIO | None = None, config: ControllerConfig = CONTROLLER
) -> AsyncIterator[Tally]:
    """A processor at work on the ground's nodes; drained at the end of the block."""
    memory.settle()
    tally, stop = Tally(), anyio.Event()
    processor = Processor(
        NODE_KIND,
        NodeHandler(NodeConfig()),
        io or node_io(ground),
        services=NodeServices(Unplugged(), _no_credentials(), Unconnected(), PostgresIdentities(ground.pool)),
        host=Host(config=config, sink=tally, clock=MonotonicClock()),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(processor.run, stop)
        try:
            yield tally
        finally:
            stop.set()
