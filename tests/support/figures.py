"""Gauges of the fleet that count while a test runs, as in a daemon.

Used by tests of gauges. A scrape within the context may count the fleet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from farrier.metrics.fleet import FleetGauges
from farrier.protocols import Queries


@asynccontextmanager
async def counted(gauges: FleetGauges, queries: Queries) -> AsyncIterator[None]:
    """Within the block, `gauges` count with `queries`."""
    async with anyio.create_task_group() as group:
        await group.start(gauges.run, queries)
        yield
        group.cancel_scope.cancel()
