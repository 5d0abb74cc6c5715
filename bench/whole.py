"""Measures what a fleet costs with everything that a site has: agents, BMCs, a region, Prometheus, a page, changes.

The controller and both servers are separate processes. The parts begin one after another; the cores that a part adds
are its cost. Then all parts run for the whole length. The clients of farrier do not count: agents, BMCs and the region
have processors of their own elsewhere.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import httpx
import msgspec
from anyio.streams.text import TextReceiveStream

from bench import bmc_polls, daemon, door, fleet, postgres, reaction, upstream
from bench.bmc_fleet import BmcFleet, bmc_fleet
from bench.figures import Benchmark, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.sim.installs import TEMPLATE
from farrier.sim.maas import ADMIN, Region, Status
from farrier.sim.maas.files import write_site
from farrier.sim.maas.records import Machine

_AGENTS_EVERY = 30.0
_SCRAPE_EVERY = 15.0
# As an open page does (`http.refresh` of the pages).
_PAGE_EVERY = 5.0
# A small fleet, for a short run, is measured for a shorter time: 10,000 nodes for ten minutes.
_SECONDS_A_NODE = 0.06
# How long the cores are measured after each part has begun, in shares of the length, and at least.
_PHASE = 0.1
_SHORTEST_PHASE = 10.0
_CHANGING_A_MINUTE = 0.01
_PATIENCE = 300
_LOOK = 0.5

# The nodes belong to a site whose region has their machines, and no BMC is read yet.
_PREPARE = """
    UPDATE farrier.nodes n
       SET site = $1, maas_id = 'd' || n.id,
           bmc = n.bmc || jsonb_build_object('power_at', farrier.now() + interval '1 day')
"""
# The guards, which are off, would do this.
_WATCH = "SELECT farrier.watch_machine(id, site, maas_id) FROM farrier.nodes"
_DUE = """
    UPDATE farrier.nodes n
       SET bmc = n.bmc || jsonb_build_object('power_at', farrier.now() - interval '30 seconds')
"""
_RELOAD = "INSERT INTO farrier.wakes (kind, resource, quiet) SELECT 'node', id, true FROM farrier.nodes"
_WAITING = "SELECT count(*) FROM farrier.wakes"
_OBSERVED = "SELECT count(*) FROM farrier.node_observations WHERE read_at IS NOT NULL"
_NAMES = "SELECT name FROM farrier.nodes ORDER BY id"
_UNEXPECTED = "SELECT count(*) FROM farrier.nodes WHERE status NOT IN ('active', 'quarantined')"
_WRITTEN = """
    SELECT (pg_current_wal_insert_lsn() - '0/0')::float8,
           (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::float8 FROM pg_stat_user_tables WHERE schemaname = 'farrier')
"""


class _Seen(msgspec.Struct, frozen=True):
    """Totals of CPU time by process, and of what PostgreSQL has written."""

    at: float
    busy: Mapping[str, float]
    wal: float
    rows: float


class _Site(msgspec.Struct, frozen=True):
    """A running site."""

    ground: Ground
    bmcs: BmcFleet
    region_url: str
    processes: Mapping[str, daemon.Running]
    agents: door.OverTls
    postmaster: int

    async def look(self) -> _Seen:
        [(wal, rows)] = await self.ground.pool.fetch(_WRITTEN)
        busy = {name: process.cpu_seconds() for name, process in self.processes.items()}
        return _Seen(time.perf_counter(), {**busy, "postgres": postgres.seconds(self.postmaster)}, wal, rows)

    async def cores(self, seconds: float) -> float:
        """Return the cores of all processes of farrier and of PostgreSQL during this time."""
        before = await self.look()
        await anyio.sleep(seconds)
        after = await self.look()
        return (sum(after.busy.values()) - sum(before.busy.values())) / (after.at - before.at)

    async def until(self, query: str, wanted: int) -> None:
        with anyio.fail_after(_PATIENCE):
            while await self.ground.pool.fetchval(query) != wanted:  # noqa: ASYNC110 - another process
                await anyio.sleep(_LOOK)


async def _begin_agents(site: _Site, living: AsyncExitStack) -> None:
    names = [record[0] for record in await site.ground.pool.fetch(_NAMES)]
    at = site.agents.at
    command = [sys.executable, "-m", "bench.reporters", at.host, str(at.port), str(site.agents.ca), str(_AGENTS_EVERY)]
    process = await anyio.open_process(command, stdin=subprocess.PIPE, stderr=None)
    living.callback(process.terminate)
    assert process.stdin is not None and process.stdout is not None, "they are pipes"
    await process.stdin.send("\n".join(names).encode())
    await process.stdin.aclose()
    with anyio.fail_after(_PATIENCE):
        await TextReceiveStream(process.stdout).receive()


async def _begin_bmcs(site: _Site, _: AsyncExitStack) -> None:
    async with site.ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(fleet.WITHOUT_GUARDS)
        await conn.execute(_DUE, timeout=_PATIENCE)
        await conn.execute(fleet.WITH_GUARDS)
    await site.ground.pool.execute(_RELOAD)
    await site.until(_WAITING, 0)


async def _begin_region(site: _Site, _: AsyncExitStack) -> None:
    _write_site(site.bmcs, site.region_url)
    os.kill(site.processes["controller"].pid, signal.SIGHUP)
    await site.until(_OBSERVED, len(site.bmcs.addresses))
    await site.until(_WAITING, 0)


async def _repeat(get: Callable[[httpx.AsyncClient], Awaitable[object]], every: float) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=_PATIENCE) as client:
        while True:
            await get(client)
            await anyio.sleep(every)


async def _scrape(site: _Site) -> None:
    async def get(client: httpx.AsyncClient) -> None:
        for process in site.processes.values():
            (await client.get(f"{process.url}/metrics")).raise_for_status()

    await _repeat(get, _SCRAPE_EVERY)


async def _view(site: _Site) -> None:
    async def get(client: httpx.AsyncClient) -> None:
        (await client.get(f"{site.processes['pages'].url}/")).raise_for_status()

    await _repeat(get, _PAGE_EVERY)


async def _change(site: _Site, untouched: Iterator[int], took: list[float]) -> None:
    """Let some nodes leave service, one after another, and record the reactions."""
    pause = 60 / (_CHANGING_A_MINUTE * len(site.bmcs.addresses))
    async with reaction.client(site.ground.dsn) as client:
        while True:
            due = anyio.current_time() + pause
            took.append(await client.ask(next(untouched)))
            await anyio.sleep(max(0.0, due - anyio.current_time()))


def _write_site(bmcs: BmcFleet, url: str) -> None:
    write_site(
        bmcs.directory,
        upstream.SITE,
        url,
        template=TEMPLATE,
        events_every=timedelta(seconds=10),
        motion_every=timedelta(seconds=30),
    )


@asynccontextmanager
async def _site(ground: Ground, bmcs: BmcFleet, region_url: str) -> AsyncIterator[_Site]:
    async with ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(fleet.WITHOUT_GUARDS)
        await conn.execute(_PREPARE, upstream.SITE, timeout=_PATIENCE)
        await conn.execute(_WATCH, timeout=_PATIENCE)
        await conn.execute(fleet.WITH_GUARDS)
    await fleet.settle(ground)
    sites = bmcs.directory / "sites"
    sites.mkdir(exist_ok=True)
    for earlier in sites.glob("*.toml"):
        earlier.unlink()
    settings = {**bmcs.environment, "FARRIER_SITES_DIRECTORY": str(sites)}
    async with (
        daemon.running(ground.dsn, settings) as controller,
        door.over_tls(ground) as agents,
        door.pages(ground) as pages,
    ):
        await controller.until_runs(len(bmcs.addresses))
        processes = {"controller": controller, "agents": agents.process, "pages": pages}
        yield _Site(ground, bmcs, region_url, processes, agents, await postgres.postmaster(ground))


async def _measured(site: _Site) -> Readings:
    length = _SECONDS_A_NODE * len(site.bmcs.addresses)
    phase = max(_SHORTEST_PHASE, _PHASE * length)
    untouched, took = _in_some_order(await fleet.ids(site.ground)), list[float]()
    found = {"cores_rest": Reading(before := await site.cores(phase))}
    async with AsyncExitStack() as living:
        beside = await living.enter_async_context(anyio.create_task_group())
        living.callback(beside.cancel_scope.cancel)

        async def begin(task: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
            beside.start_soon(task, site, *arguments)

        parts: Mapping[str, Callable[[], Awaitable[None]]] = {
            "agents": lambda: _begin_agents(site, living),
            "bmcs": lambda: _begin_bmcs(site, living),
            "region": lambda: _begin_region(site, living),
            "scrapes": lambda: begin(_scrape),
            "page": lambda: begin(_view),
            "changes": lambda: begin(_change, untouched, took),
        }
        for name, start in parts.items():
            await start()
            now = await site.cores(phase)
            found[f"cores_{name}"] = Reading(now - before)
            before = now
        took.clear()
        first = await site.look()
        await anyio.sleep(length)
        found |= _totals(first, await site.look())
    found |= {f"rss_{name}": Reading(process.memory("VmRSS")) for name, process in site.processes.items()}
    found |= {f"reaction_{name}": Reading(value) for name, value in reaction.percentiles(took).items()}
    assert await site.ground.pool.fetchval(_UNEXPECTED) == 0, "nodes change only as the client asks"
    return found


def _totals(first: _Seen, last: _Seen) -> Mapping[str, Reading]:
    seconds = last.at - first.at
    cores = {name: (last.busy[name] - first.busy[name]) / seconds for name in last.busy}
    return {
        "cores": Reading(sum(cores.values())),
        **{f"cores_of_{name}": Reading(value) for name, value in cores.items()},
        "wal": Reading((last.wal - first.wal) / seconds / 1000),
        "rows": Reading((last.rows - first.rows) / seconds),
    }


def _in_some_order(ids: list[int]) -> Iterator[int]:
    random.shuffle(ids)
    return iter(ids)


@asynccontextmanager
async def _whole(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    async with bmc_fleet(nodes, mixed=True) as bmcs:

        async def measure() -> Readings:
            await fleet.clear(ground)
            region = Region()
            await bmc_polls.connect(ground, bmcs)
            for id_ in await fleet.ids(ground):
                region.keep(
                    Machine(system_id=f"d{id_}", hostname=f"d{id_}", status=Status.DEPLOYED, owner=ADMIN.username)
                )
            async with upstream.served(region) as url, _site(ground, bmcs, url) as site:
                return await _measured(site)

        yield measure


def _goals() -> Iterator[Goal]:
    yield Goal("cores", "cores")
    for name in ("controller", "agents", "pages", "postgres"):
        yield Goal(f"cores_of_{name}", "cores")
    for name in ("rest", "agents", "bmcs", "region", "scrapes", "page", "changes"):
        yield Goal(f"cores_{name}", "cores")
    yield Goal("wal", "KB/s")
    yield Goal("rows", "/s")
    for name in ("controller", "agents", "pages"):
        yield Goal(f"rss_{name}", "MB")
    yield Goal("reaction_p50", "ms")
    yield Goal("reaction_p99", "ms")


WHOLE = Benchmark(
    name="fleet",
    what="cores of the controller, of both servers and of PostgreSQL, WAL, rows written, memory and reaction, for a "
    "fleet with agents that report every 30 s and BMCs that are read every minute, both over TLS, a region that is "
    "observed, Prometheus, an open page, and 1 % of the nodes changing state a minute; and the cores that each of "
    "these adds",
    nodes=10_000,
    goals=tuple(_goals()),
    open=_whole,
    long=True,
)
