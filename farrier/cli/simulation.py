"""What `farrier demo` runs: database, BMCs, daemon, agents and fleet in one process, up in order and down
in reverse.

The daemon is the one of `farrier run` and is told nothing else than where the database and the BMCs are.
Everything beside it uses the database as other services do, over connections of its own.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec
from rich.console import Console

from farrier import wiring
from farrier.cli.board import Board, Place, board
from farrier.config import (
    BmcConfig,
    Config,
    CredentialsConfig,
    DatabaseConfig,
    HttpConfig,
    NodeConfig,
)
from farrier.daemon import Daemon, Serving
from farrier.model.fleet import NodeGlance
from farrier.model.management import Management
from farrier.model.status import NodeStatus
from farrier.sim.agents import Pace, SimulatedAgents
from farrier.sim.bmc import SimulatedBmc, fake_systems, simulated_bmc
from farrier.sim.fleet import SimulatedFleet, has_bmc, planned

_LOOK_EVERY_SECONDS = 0.25
_MOVES_SHOWN = 12
# How long the agents take to arrive when somebody watches.
_ARRIVAL = timedelta(seconds=15)
# Shorter than in a real fleet, so that silence shows while somebody watches.
_OFFLINE_AFTER = timedelta(seconds=30)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. `timeout` bounds `until_active` only."""

    directory: Path
    nodes: int
    until_active: bool
    timeout: timedelta
    faults: bool
    http_port: int


class Missing(msgspec.Struct, frozen=True):
    """A node that is not where it should be, and why as far as one knows."""

    name: str
    status: str
    management: str
    reason: str


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `with_bmc` counts the nodes that were given one."""

    ok: bool
    seconds: float
    nodes: int
    active: int
    with_bmc: int
    manageable: int
    missing: tuple[Missing, ...]


async def simulate(options: Options, console: Console) -> Summary:
    """Run until the goal is reached, the time is up, or a signal comes; answers how far the fleet got."""
    started = anyio.current_time()
    seen: tuple[NodeGlance, ...] = ()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        async with anyio.create_task_group() as beside:
            with anyio.CancelScope() as whole:
                interruption = _Interruption(whole)
                beside.start_soon(interruption.obey, received)
                async with _running(options) as scene:
                    with interruption.of_the_scene(), board(console, _place(scene)) as shown:
                        await _play(scene, options, shown, started)
                    seen = scene.fleet.seen
            beside.cancel_scope.cancel()
    return _summary(options, seen, anyio.current_time() - started)


class _Interruption:
    """Ctrl-C ends the scene, and everything closes in order. A second one, or one before the scene, ends
    all."""

    def __init__(self, whole: anyio.CancelScope) -> None:
        self._whole = whole
        self._scene: anyio.CancelScope | None = None

    @contextmanager
    def of_the_scene(self) -> Iterator[None]:
        with anyio.CancelScope() as self._scene:
            yield

    async def obey(self, received: AsyncIterable[signal.Signals]) -> None:
        async for _ in received:
            scene = self._scene
            (self._whole if scene is None or scene.cancel_called else scene).cancel()


class _Scene(msgspec.Struct, frozen=True):
    """Everything that runs."""

    serving: Serving
    bmc: SimulatedBmc
    outside: wiring.Outside
    fleet: SimulatedFleet


@asynccontextmanager
async def _running(options: Options) -> AsyncIterator[_Scene]:
    database = DatabaseConfig(embedded=str(options.directory / "postgresql"))
    async with wiring.database(database) as own:
        await wiring.prepare(own, Config(database=database))
        outside = wiring.outside(own, "demo")
        after = await outside.fleet.newest()  # a directory that is used again has a fleet already
        systems = fake_systems(after + options.nodes)[after:]
        agents = SimulatedAgents(outside.agents, Pace())
        async with simulated_bmc(options.directory / "bmc", systems) as bmc:
            fleet = SimulatedFleet(planned(systems, bmc, after=after), api=outside.fleet, agents=agents, after=after)
            stop = anyio.Event()
            async with anyio.create_task_group() as daemon:
                serving = await daemon.start(Daemon(_config(options, bmc), stop).run)
                try:
                    async with anyio.create_task_group() as living:
                        living.start_soon(agents.run)
                        yield _Scene(serving, bmc, outside, fleet)
                        living.cancel_scope.cancel()
                finally:
                    stop.set()


def _config(options: Options, bmc: SimulatedBmc) -> Config:
    return Config(
        database=DatabaseConfig(embedded=str(options.directory / "postgresql")),
        node=NodeConfig(offline_after=_OFFLINE_AFTER),
        bmc=BmcConfig(ca_file=str(bmc.ca_file), allowed_networks=("127.0.0.0/8",)),
        credentials=CredentialsConfig(file_roots=(str(bmc.credential_file.parent),)),
        http=HttpConfig(port=options.http_port),
    )


def _place(scene: _Scene) -> Place:
    url = scene.serving.url
    return Place(
        (
            ("nodes", f"{url}/"),
            ("metrics", f"{url}/metrics"),
            ("database", f"psql '{scene.serving.dsn}'"),
            ("BMCs", f"{scene.bmc.base_url}/redfish/v1/Systems"),
        )
    )


async def _play(scene: _Scene, options: Options, shown: Board, started: float) -> None:
    """Let the fleet arrive and live, until the goal is reached or the time is up."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.fleet.arrive, timedelta(0) if options.until_active else _ARRIVAL)
        if options.faults and not options.until_active:
            tasks.start_soon(scene.fleet.live)
        deadline = started + options.timeout.total_seconds()
        while True:
            nodes = await scene.fleet.glance()
            shown.show(anyio.current_time() - started, nodes, await scene.outside.fleet.moves(_MOVES_SHOWN))
            arrived = len(nodes) == options.nodes and all(node.arrived for node in nodes)
            if options.until_active and (arrived or anyio.current_time() > deadline):
                break
            await anyio.sleep(_LOOK_EVERY_SECONDS)
        tasks.cancel_scope.cancel()


def _summary(options: Options, nodes: Sequence[NodeGlance], seconds: float) -> Summary:
    missing = [Missing(node.name, node.status, node.management, node.reason) for node in nodes if not node.arrived]
    unseen = options.nodes - len(nodes)
    missing += [Missing("(not registered)", "", "", "the demo ended before its registration")] * unseen
    return Summary(
        ok=not missing,
        seconds=round(seconds, 1),
        nodes=options.nodes,
        active=sum(node.status is NodeStatus.ACTIVE for node in nodes),
        with_bmc=sum(has_bmc(number) for number in range(1, options.nodes + 1)),
        manageable=sum(node.management is Management.MANAGEABLE for node in nodes),
        missing=tuple(missing),
    )
