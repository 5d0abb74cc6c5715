"""Runs the parts of `farrier demo` in one process: database, BMCs, MAAS, daemon, agents and fleet.

The parts are started in this order and stopped in reverse order. The daemon is the same as in `farrier run`, and starts
the servers of pages and agents as processes of their own. All other parts use separate connections to the database, as
external services do.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec
from rich.console import Console

from farrier.cli.service.board import Board, Places, board
from farrier.cli.site import regions
from farrier.config import Config, DatabaseConfig, load
from farrier.daemon import Daemon, Serving
from farrier.io.calls.fleet import PostgresFleet
from farrier.io.calls.requests import PostgresRequests
from farrier.io.queries.lists import PostgresQueries
from farrier.model.loop.doors import DoorKind
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.views.fleet import NodeGlance
from farrier.signals import distinct
from farrier.sim.agents import SimulatedAgents, agents_client
from farrier.sim.bmc import PROMPT, SimulatedBmc, fake_systems, simulated_bmc
from farrier.sim.broken_machines import Operator, prepare
from farrier.sim.events import Happenings
from farrier.sim.fleet import SimulatedFleet, has_bmc, natures, planned
from farrier.sim.installs import TEMPLATE, Installations
from farrier.sim.maas import Durations, Region, open_region
from farrier.sim.maas.files import RegionFiles, write_site
from farrier.sim.power import PowerCables, machines_off
from farrier.sim.rack import spare_systems, write_rack
from farrier.wiring import storage

# The directory of the embedded server, below that of the demo.
DATABASE = "postgresql"

_LOOK_EVERY_SECONDS = 0.25
_BMCS = "127.0.0.0/8"
_MOVES_SHOWN = 12
# The time over which agents enroll in an interactive demo.
_ARRIVAL = timedelta(seconds=15)
# This is shorter than in a real fleet, so that a user of the demo sees silent agents.
_OFFLINE_AFTER = timedelta(seconds=30)
# The clock of the simulated region runs many times as fast as real time, so farrier reads the region more often.
_EVENTS_EVERY = timedelta(seconds=1)
_MOTION_EVERY = timedelta(seconds=5)
# This is a time of the region's clock. With the default of half an hour, the demo would show a failed deployment too
# late.
_NODE_TIMEOUT = timedelta(minutes=10)
# This is a real time: during the check of a released machine, farrier has to read its BMC.
_TEST = timedelta(seconds=30)


class DemoOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the demo. `timeout` limits only `until_active`. `speed` is how many seconds of MAAS pass in a real
    second."""

    directory: Path
    nodes: int
    until_active: bool
    timeout: timedelta
    faults: bool
    http_port: int
    speed: float


class UnmetGoal(msgspec.Struct, frozen=True):
    """A node that has not reached its goal, and the reason if it is known."""

    name: str
    status: str
    management: str
    reason: str


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the demo. `with_bmc` is the number of nodes that have a BMC."""

    ok: bool
    seconds: float
    nodes: int
    active: int
    with_bmc: int
    manageable: int
    missing: tuple[UnmetGoal, ...]


async def simulate(options: DemoOptions, console: Console, log_to: int | None = None) -> Summary:
    """Run until the fleet has reached the goal, the time is over, or a signal arrives. Returns its state."""
    started = anyio.current_time()
    seen: tuple[NodeGlance, ...] = ()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        async with anyio.create_task_group() as beside:
            with anyio.CancelScope() as whole:
                interruption = _Interruption(whole)
                beside.start_soon(interruption.obey, distinct(received))
                async with running(options, log_to=log_to) as scene:
                    with interruption.of_the_scene(), board(console, _places(scene)) as shown:
                        await _play(scene, options, shown, started)
                    seen = scene.fleet.seen
            beside.cancel_scope.cancel()
    return _summary(options, seen, anyio.current_time() - started)


class _Interruption:
    """Handles Ctrl-C. The first Ctrl-C ends the scene, and all parts close in order. A second Ctrl-C, or one before the
    scene has begun, cancels everything."""

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


class Scene(msgspec.Struct, frozen=True):
    """All running parts of the demo."""

    serving: Serving
    bmc: SimulatedBmc
    fleet: SimulatedFleet
    agents: SimulatedAgents
    region: Region
    region_url: str
    settings: Path
    rack: Path


@asynccontextmanager
async def running(options: DemoOptions, *, log_to: int | None = None) -> AsyncIterator[Scene]:
    """Start all parts. `log_to` is the file descriptor of the log of the servers that the daemon starts."""
    database = DatabaseConfig(embedded=str(options.directory / DATABASE))
    async with storage.database(database) as own:
        await storage.prepare(own, Config(database=database))
        api, requests = PostgresFleet(own.pool), PostgresRequests(own.pool, own.dsn, requested_by="demo")
        # A directory of an earlier demo already has a fleet.
        after = max((node.id for node in await api.glance(0)), default=0)
        site = f"demo-{after + 1}"  # a new site, because the region of the earlier fleet no longer exists
        systems, spare = fake_systems(options.nodes, first=after + 1), spare_systems(after)
        durations = msgspec.structs.replace(Durations(), node_timeout=_NODE_TIMEOUT, test=_TEST * options.speed)
        region = Region(durations=durations)
        machines, off = (*systems, *spare.values()), set[str]()
        region.natures = natures(machines)
        if options.faults:
            prepare(region, systems, after=after)
        async with (
            machines_off(machines, off) as tells,
            simulated_bmc(options.directory / "bmc", machines, configuration=PROMPT + tells) as bmc,
            open_region(region, speed=options.speed) as url,
        ):
            files = write_site(
                options.directory / "maas",
                site,
                url,
                template=TEMPLATE,
                events_every=_EVENTS_EVERY,
                motion_every=_MOTION_EVERY,
            )
            nodes = planned(systems, bmc, after=after, site=site)
            rack = write_rack(options.directory, spare, bmc, after=after, site=site)
            settings = _write_settings(options, bmc, files)
            config = load(settings, environment={})
            await regions.prepare(config, regions.configured(config))
            stop = anyio.Event()
            async with anyio.create_task_group() as daemon:
                serving = await daemon.start(Daemon(config, stop, log_to=log_to).run)
                try:
                    async with (
                        agents_client(serving.servers[DoorKind.AGENTS]) as client,
                        anyio.create_task_group() as living,
                    ):
                        agents = SimulatedAgents(client, off=off)
                        installations = Installations(region, agents)
                        fleet = SimulatedFleet(
                            nodes,
                            api=api,
                            requests=requests,
                            queries=PostgresQueries(own.pool),
                            agents=agents,
                            after=after,
                        )
                        living.start_soon(agents.run)
                        living.start_soon(installations.run)
                        living.start_soon(PowerCables(region, bmc, off).run)
                        yield Scene(serving, bmc, fleet, agents, region, url, settings, rack)
                        living.cancel_scope.cancel()
                finally:
                    stop.set()


def _write_settings(options: DemoOptions, bmc: SimulatedBmc, files: RegionFiles) -> Path:
    """Write the settings of the demo, with which its user can also run other commands of farrier. Returns the file."""
    secrets = [str(bmc.credential_file.parent), str(files.secrets)]
    binding = {"references": [f"file:{bmc.credential_file}"], "networks": [_BMCS]}
    settings: Mapping[str, Mapping[str, object]] = {
        "database": {"embedded": str(options.directory / DATABASE)},
        "node": {"offline_after": _OFFLINE_AFTER.total_seconds()},
        "bmc": {"ca_file": str(bmc.ca_file), "allowed_networks": [_BMCS]},
        "credentials": {"file_roots": secrets},
        "http": {"port": options.http_port},
        "metrics": {"port": 0},
        "agents": {"port": 0},
        "sites": {"directory": str(files.sites)},
    }
    tables = [f"[{section}]\n{_pairs(pairs)}" for section, pairs in settings.items()]
    file = options.directory / "farrier.toml"
    file.write_text("\n".join([*tables, f"[[credentials.bindings]]\n{_pairs(binding)}"]), encoding="utf-8")
    return file


def _pairs(values: Mapping[str, object]) -> str:
    """Return the lines of a TOML table. Texts, numbers and lists are written as in JSON."""
    return "".join(f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in values.items())


def _places(scene: Scene) -> Places:
    serving = scene.serving
    return (
        ("nodes", f"{serving.servers[DoorKind.PAGES]}/"),
        ("agents", f"{serving.servers[DoorKind.AGENTS]}/"),
        ("metrics", f"{serving.url}/metrics"),
        ("database", f"psql '{scene.serving.dsn}'"),
        ("commands", f"farrier node list --config {scene.settings}"),
        ("BMCs", f"{scene.bmc.base_url}/redfish/v1/Systems"),
        ("MAAS", f"{scene.region_url}/api/2.0/"),
        ("new rack", str(scene.rack)),
    )


async def _play(scene: Scene, options: DemoOptions, shown: Board, started: float) -> None:
    """Register and run the fleet until it has reached the goal or the time is over."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.fleet.arrive, timedelta(0) if options.until_active else _ARRIVAL)
        if options.faults:
            tasks.start_soon(Happenings(scene.fleet, scene.agents).run)
            tasks.start_soon(Operator(scene.fleet, scene.region).run)
        deadline = started + options.timeout.total_seconds()
        while True:
            nodes = await scene.fleet.glance()
            shown.show(anyio.current_time() - started, nodes, await scene.fleet.moves(_MOVES_SHOWN))
            arrived = len(nodes) == options.nodes and all(node.arrived for node in nodes)
            if options.until_active and (arrived or anyio.current_time() > deadline):
                break
            await anyio.sleep(_LOOK_EVERY_SECONDS)
        tasks.cancel_scope.cancel()


def _summary(options: DemoOptions, nodes: Sequence[NodeGlance], seconds: float) -> Summary:
    missing = [UnmetGoal(node.name, node.status, node.management, node.reason) for node in nodes if not node.arrived]
    unseen = options.nodes - len(nodes)
    missing += [UnmetGoal("(not registered)", "", "", "the demo ended before this node was registered")] * unseen
    return Summary(
        ok=not missing,
        seconds=round(seconds, 1),
        nodes=options.nodes,
        active=sum(node.status is NodeStatus.ACTIVE for node in nodes),
        with_bmc=sum(has_bmc(number) for number in range(1, options.nodes + 1)),
        manageable=sum(node.management is Management.MANAGEABLE for node in nodes),
        missing=tuple(missing),
    )
