"""Figures of the fleet that are counted while a test runs, as a daemon has them counted.

Used by tests of gauges. Guarantees that a scrape within the context is one that may count.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from farrier.metrics.fleet import FleetGauges
from farrier.protocols import Queries


@asynccontextmanager
async def counted(gauges: FleetGauges, queries: Queries) -> AsyncIterator[None]:
    """`gauges` count with `queries`."""
    async with anyio.create_task_group() as group:
        await group.start(gauges.run, queries)
        yield
        group.cancel_scope.cancel()
