"""Measures the time of the pages for operators with a large fleet: the inventory, also filtered, sorted and searched,
and one node.

Each page is requested from the web application in this process, without a socket, as a browser with an open page does
every few seconds. The time includes all queries and the rendering.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from statistics import median

import httpx
from prometheus_client import CollectorRegistry

from bench import fleet
from bench.figures import Benchmark, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.io.calls.monitors import PostgresMonitorCalls
from farrier.io.calls.requests import PostgresRequests
from farrier.io.queries.lists import PostgresQueries
from farrier.model.node.limits import Limits
from farrier.web.server.backend import Backend
from farrier.web.server.site import WebApplication

_SAMPLES = 30
# This is enough time to update all nodes.
_SECONDS = 600
# Sites and models are those of the generated fleet. Operators filter by racks of 16 nodes and by two labels.
_DETAILS = """
    UPDATE farrier.nodes
       SET rack = 'r' || id / 16, labels = jsonb_build_object('row', id % 40, 'gpu', 'h100')
"""
# One node in a hundred has been offline for longer than its limit. The inventory shows these nodes first.
_LATE = """
    UPDATE farrier.nodes
       SET status = 'offline', status_entered_at = farrier.now() - interval '1 hour'
     WHERE id % 100 = 0
"""
_PATHS: Mapping[str, str] = {
    "inventory": "/",
    "second": "/?after=gpu-5",
    "status": "/?status=offline",
    "site": "/?site=site-3",
    "rack": "/?rack=r77",
    "label": "/?label=row%3D7",
    "search": "/?q=99",
    "oldest": "/?sort=oldest",
    "by_site": "/?sort=site",
    "node": "/nodes/gpu-500",
    "history": "/history",
    "controllers": "/controllers",
}


@asynccontextmanager
async def _pages(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    async with ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(fleet.WITHOUT_GUARDS)
        await conn.execute(_DETAILS, timeout=_SECONDS)
        await conn.execute(_LATE, timeout=_SECONDS)
        await conn.execute(fleet.WITH_GUARDS)
    await fleet.settle(ground)
    site = WebApplication(CollectorRegistry(), unready_because=lambda: None)
    requests = PostgresRequests(ground.pool, ground.dsn)
    site.open(Backend(PostgresQueries(ground.pool), requests, Limits(), None, PostgresMonitorCalls(ground.pool)))
    transport = httpx.ASGITransport(app=site.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def measure() -> Readings:
            return {name: Reading(await _milliseconds(client, path)) for name, path in _PATHS.items()}

        yield measure


async def _milliseconds(client: httpx.AsyncClient, path: str) -> float:
    """Return the median time of a page."""
    took = []
    for _ in range(_SAMPLES):
        began = time.perf_counter()
        answer = await client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        answer.raise_for_status()
    return median(took)


PAGE = Benchmark(
    name="page",
    what="pages for operators, with all queries and the rendering: the inventory, its filters, orders and search, and "
    "the page of a node",
    nodes=100_000,
    goals=tuple(Goal(name, "ms") for name in _PATHS),
    open=_pages,
)
