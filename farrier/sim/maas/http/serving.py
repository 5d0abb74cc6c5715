"""Serves a region in this process by an httpx transport, or over a socket of 127.0.0.1.

Tests, benchmarks and the demo use this module. With `speed`, the region's clock runs that many times as fast as real
time; without it, only `Region.advance` moves the clock.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio

from farrier.sim.maas.http.app import RegionApp
from farrier.sim.maas.region import Region
from farrier.sim.serving import AppTransport, open_app

# The real time between two steps of the simulated clock.
_TICK_SECONDS = 0.02


class RegionTransport(AppTransport):
    """A transport that sends requests to `region` without a socket."""

    def __init__(self, region: Region) -> None:
        super().__init__(RegionApp(region))


@asynccontextmanager
async def open_region(region: Region, *, speed: float | None = None) -> AsyncIterator[str]:
    """Serve `region` on 127.0.0.1. Yields the base URL, `http://127.0.0.1:PORT/MAAS`."""
    clock = anyio.CancelScope()
    async with (
        open_app(RegionApp(region), name="maas simulation") as url,
        anyio.create_task_group() as tasks,
    ):
        if speed is not None:
            tasks.start_soon(_follow_real_time, region, speed, clock, name="maas simulation clock")
        try:
            yield f"{url}/MAAS"
        finally:
            clock.cancel()


async def _follow_real_time(region: Region, speed: float, scope: anyio.CancelScope) -> None:
    with scope:
        last = time.monotonic()
        while True:
            await anyio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            region.advance(timedelta(seconds=(now - last) * speed))
            last = now
