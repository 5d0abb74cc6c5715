"""Polls BMCs with aiohttp alone: `python -m bench.bare_poller SECONDS FLEET_FILE`.

This is the floor of a daemon's polls: the same request to each BMC of the file, spread over SECONDS, on a connection
that is kept and with a verified certificate; the body is read, but not decoded. After a first round, which opens the
connections, the process prints its CPU time for each request of the second.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import anyio
import msgspec

from bench.bmc_server import PASSWORD, SYSTEM, USERNAME

_BASIC = f"Basic {base64.b64encode(f'{USERNAME}:{PASSWORD}'.encode()).decode()}"


class BareFleet(msgspec.Struct, frozen=True):
    """The BMCs to poll, and the file of their certificate authority."""

    addresses: Sequence[str]
    ca_file: str


class BareCost(msgspec.Struct, frozen=True):
    """The result that the process prints: its CPU time for a request, in milliseconds, and its memory in MB."""

    cpu_ms: float
    rss_mb: float


async def _round(http: aiohttp.ClientSession, addresses: Sequence[str], seconds: float) -> None:
    """Send one request to each BMC, evenly spread."""

    async def poll(address: str) -> None:
        async with http.get(address + SYSTEM, headers={"Authorization": _BASIC}) as response:
            response.raise_for_status()
            await response.read()

    began = asyncio.get_running_loop().time()
    async with anyio.create_task_group() as polls:
        for number, address in enumerate(addresses):
            due = began + number * seconds / len(addresses)
            await anyio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            polls.start_soon(poll, address)


async def poll(seconds: float, fleet: BareFleet) -> BareCost:
    """Poll the fleet twice, and return the cost of the second round."""
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=10 * seconds, ssl=ssl.create_default_context(cafile=fleet.ca_file)
    )
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
        await _round(http, fleet.addresses, seconds)
        began = time.process_time()
        await _round(http, fleet.addresses, seconds)
        cpu = time.process_time() - began
        return BareCost(cpu_ms=cpu * 1000 / len(fleet.addresses), rss_mb=_rss())


def _rss() -> float:
    """Return the resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024 / 1e6


def main(seconds: str, file: str) -> None:
    """Run the process."""
    fleet = msgspec.json.decode(Path(file).read_bytes(), type=BareFleet)
    cost = anyio.run(poll, float(seconds), fleet, backend_options={"use_uvloop": True})
    sys.stdout.buffer.write(msgspec.json.encode(cost) + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
