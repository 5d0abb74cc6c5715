"""Measures the cost of polling power, for the client alone and for a daemon that polls a fleet of BMCs every minute.

Each poll is one GET, with the BMC's certificate verified and a credential read from a file. To measure the client
alone, this process runs the client, and another process runs the BMCs. The floor of this measurement is the handshake
and the same bytes on the event loop without farrier. The daemon first polls a fleet that is mixed from the makes of
`bmc_makes`, and then a fleet that keeps all connections. The floor of both is a bare loop of aiohttp, with the same
request, to the same BMCs and as often. The BMCs count the requests.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import anyio
import msgspec
from typing_extensions import override

from bench import daemon, fleet
from bench.bare_poller import BareCost, BareFleet
from bench.bmc_fleet import BmcFleet, bmc_fleet
from bench.bmc_server import HEALTH, PASSWORD, SYSTEM, USERNAME, Counts, serial, uuid
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.model.machine.bmc import BmcTarget
from farrier.protocols import ServiceObserver
from farrier.services.bmc.access import BmcTimes
from farrier.services.bmc.client import RedfishBmc, open_bmc
from farrier.services.credentials.bindings import Bindings
from farrier.services.credentials.resolver import Credentials

# This many concurrent polls occupy the event loop completely. With more, each poll would only become slower.
_AT_A_TIME = 50
_POLLS = 2_000
_VERIFIED = 200

# After this time, each BMC was polled twice: the first poll opens a connection, and the second shows whether the BMC
# keeps it.
_WARM_UP = timedelta(seconds=125)
# The measurement lasts for one polling interval, in which each BMC is to be polled once.
_MINUTE = timedelta(seconds=60)

_GUARDS = ("ALTER TABLE farrier.nodes DISABLE TRIGGER USER", "ALTER TABLE farrier.nodes ENABLE TRIGGER USER")
# Assigns the running BMCs to the nodes of a fleet at rest, as if farrier had read each BMC half an interval ago. So
# each BMC is due once in the next interval, and the polls are spread.
_CONNECT = """
    UPDATE farrier.nodes n
       SET bmc_address = b.address, bmc_credential = $4,
           bmc = n.bmc || $5::jsonb || jsonb_build_object('serial', b.serial, 'uuid', b.uuid,
                 'power', 'on', 'power_at', to_jsonb(farrier.now() - interval '30 seconds'))
      FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM farrier.nodes) AS numbered
      JOIN unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS b (address, serial, uuid, number)
           USING (number)
     WHERE n.id = numbered.id
"""


class Polled(msgspec.Struct, frozen=True):
    """The result of one minute of a daemon: its CPU time as a share of a core, its memory in MB, and the counts of the
    BMCs."""

    cores: float
    rss: float
    counts: Counts

    @property
    def cpu_ms(self) -> float:
        """The milliseconds of CPU time for each request, with everything else that the daemon does meanwhile."""
        return self.cores * _MINUTE.total_seconds() * 1000 / sum(self.counts.requests.values())


class _Nobody(ServiceObserver):
    """An observer that records nothing."""

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        pass


@asynccontextmanager
async def client(bmcs: BmcFleet) -> AsyncIterator[RedfishBmc]:
    """Open the BMC client that the daemon uses, for the BMCs of this fleet."""
    async with open_bmc(
        bmcs.config,
        BmcTimes(deadline=timedelta(seconds=30)),
        credentials=Credentials(bmcs.places),
        bindings=Bindings((bmcs.binding,)),
        observer=_Nobody(),
    ) as bmc:
        yield bmc


def target(bmcs: BmcFleet, address: str, *, known: bool = True) -> BmcTarget:
    """Return a target for one BMC of the fleet. If `known` is true, it has the path of the BMC's system."""
    return BmcTarget(address=address, credential=bmcs.credential, system_path=SYSTEM if known else None)


async def requests_each(bmcs: BmcFleet, call: Callable[[str], Awaitable[object]], addresses: Sequence[str]) -> float:
    """Return how many requests one call makes, as the BMCs count them."""
    await bmcs.counts()
    await _rate(call, addresses)
    return sum((await bmcs.counts()).requests.values()) / len(addresses)


async def _rate(call: Callable[[str], Awaitable[object]], addresses: Sequence[str]) -> float:
    """Return the calls per second."""
    left = iter(addresses)

    async def worker() -> None:
        for address in left:
            await call(address)

    began = time.perf_counter()
    async with anyio.create_task_group() as workers:
        for _ in range(_AT_A_TIME):
            workers.start_soon(worker)
    return len(addresses) / (time.perf_counter() - began)


def _bare(bmcs: BmcFleet) -> Callable[[str], Awaitable[object]]:
    """Measure the floor: connect, make the handshake, send the request, and read as many bytes as the response
    announces. Nothing is decoded."""
    context = ssl.create_default_context(cafile=bmcs.directory / "ca.crt")
    basic = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()

    async def poll(address: str) -> None:
        url = urlsplit(address)
        ask = f"GET {SYSTEM} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Basic {basic}\r\n\r\n"
        reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=context)
        writer.write(ask.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        writer.transport.abort()

    return poll


async def _alone(bmcs: BmcFleet) -> Readings:
    some, many = bmcs.addresses[:_VERIFIED], bmcs.addresses[:_POLLS]
    floor = await _rate(_bare(bmcs), many)
    async with client(bmcs) as bmc:
        first = await requests_each(bmcs, lambda a: bmc.verify(target(bmcs, a, known=False)), some)
        known = await requests_each(bmcs, lambda a: bmc.verify(target(bmcs, a)), some)
        one = await requests_each(bmcs, lambda a: bmc.read(target(bmcs, a)), some)
        polls = await _rate(lambda a: bmc.read(target(bmcs, a)), many)
    return {
        "polls": Reading(polls, polls / floor),
        "requests, first verify": Reading(first),
        "requests, verify": Reading(known),
        "requests, poll": Reading(one),
    }


async def connect(ground: Ground, bmcs: BmcFleet) -> None:
    """Insert one verified node at rest for each BMC. All nodes are due for a poll within the next minute. May be
    repeated."""
    version = await Credentials(bmcs.places).version(bmcs.credential)
    recorded = {
        "system_path": SYSTEM,
        "good_version": version,
        "tried_version": version,
        "health": HEALTH,
    }
    numbers = range(len(bmcs.addresses))
    await fleet.fill(ground, len(numbers))
    async with ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(_GUARDS[0])
        serials, uuids = [serial(number) for number in numbers], [uuid(number) for number in numbers]
        bmc = msgspec.json.encode(recorded).decode()
        await conn.execute(_CONNECT, bmcs.addresses, serials, uuids, bmcs.credential, bmc)
        await conn.execute(_GUARDS[1])
    await fleet.settle(ground)


async def poll(ground: Ground, bmcs: BmcFleet, *, warm_up: timedelta, interval: timedelta) -> Polled:
    """Run a daemon that polls the ground's nodes once an interval, and measure it for one interval."""
    settings = {**bmcs.environment, "FARRIER_NODE_POWER_SYNC_INTERVAL": f"{interval.total_seconds()}"}
    async with daemon.running(ground.dsn, settings) as process:
        await anyio.sleep(warm_up.total_seconds())
        await bmcs.counts()
        began, busy = time.perf_counter(), process.cpu_seconds()
        await anyio.sleep(interval.total_seconds())
        cores = (process.cpu_seconds() - busy) / (time.perf_counter() - began)
        return Polled(cores, process.memory("VmRSS"), await bmcs.counts())


async def bare(bmcs: BmcFleet, interval: timedelta) -> BareCost:
    """Poll the BMCs once an interval with aiohttp alone, in a process of its own, and measure the second interval."""
    file = bmcs.directory / "fleet.json"
    file.write_bytes(msgspec.json.encode(BareFleet(list(bmcs.addresses), str(bmcs.directory / "ca.crt"))))
    command = [sys.executable, "-m", "bench.bare_poller", str(interval.total_seconds()), str(file)]
    done = await anyio.run_process(command, stderr=None)
    return msgspec.json.decode(done.stdout, type=BareCost)


@asynccontextmanager
async def _polls(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    async with bmc_fleet(nodes) as keeping, bmc_fleet(nodes, mixed=True) as mixed:

        async def measure() -> Readings:
            alone = await _alone(keeping)
            await connect(ground, mixed)
            seen = await poll(ground, mixed, warm_up=_WARM_UP, interval=_MINUTE)
            bare_mixed = await bare(mixed, _MINUTE)
            await connect(ground, keeping)
            kept = await poll(ground, keeping, warm_up=_WARM_UP, interval=_MINUTE)
            floor = await bare(keeping, _MINUTE)
            return {
                **alone,
                "requests in a minute": Reading(sum(seen.counts.requests.values()) / nodes),
                "polled in a minute": Reading(seen.counts.asked / nodes),
                "connections in a minute": Reading(seen.counts.connections / nodes),
                "cpu": Reading(seen.cores),
                "cpu_ms": Reading(seen.cpu_ms),
                "of_bare, mixed": Reading(seen.cpu_ms / bare_mixed.cpu_ms),
                "rss": Reading(seen.rss),
                "cpu_ms, kept": Reading(kept.cpu_ms),
                "of_bare": Reading(kept.cpu_ms / floor.cpu_ms),
                "rss, kept": Reading(kept.rss),
                "rss, bare": Reading(floor.rss_mb),
            }

        yield measure


BMC_POLL = Benchmark(
    name="bmc_poll",
    what="power polls over TLS with verified certificates: polls a second of one client, requests for each task, and "
    "the CPU time and memory of a daemon that polls a fleet every 60 s: a mixed one, and one that keeps all "
    "connections, beside a bare loop of aiohttp",
    nodes=5_000,
    goals=(
        # This is twice the rate that 5,000 BMCs a minute require.
        Goal("polls", "/s", Bound.AT_LEAST, 2 * 5_000 / 60),
        Goal("requests, first verify", "", Bound.AT_MOST, 4),
        Goal("requests, verify", "", Bound.AT_MOST, 3),
        Goal("requests, poll", "", Bound.AT_MOST, 1),
        # A poll at the beginning or end of the minute may count twice, or not at all.
        Goal("requests in a minute", "/BMC", Bound.AT_MOST, 1.05),
        Goal("polled in a minute", "of all", Bound.AT_LEAST, 0.99),
        Goal("connections in a minute", "/BMC", Bound.AT_MOST, 0.65),  # 40 % of the BMCs keep connections
        Goal("cpu", "cores", Bound.AT_MOST, 0.1),
        Goal("cpu_ms", "ms", Bound.AT_MOST, 1.2),
        Goal("of_bare, mixed", "of aiohttp", Bound.AT_MOST, 1.6),
        Goal("rss", "MB", Bound.AT_MOST, 600),
        Goal("cpu_ms, kept", "ms", Bound.AT_MOST, 1.2),
        Goal("of_bare", "of aiohttp", Bound.AT_MOST, 1.6),
        Goal("rss, kept", "MB", Bound.AT_MOST, 900),
        Goal("rss, bare", "MB"),
    ),
    open=_polls,
)
