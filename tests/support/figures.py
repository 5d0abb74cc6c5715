"""Gauges of the fleet that count while a test runs, as in a daemon.

Used by tests of gauges. A scrape within the context may count the fleet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from farrier.metrics.fleet import FleetGauges
from farrier.protocols import Queries

# Values by the name of the series and the values of its labels.
Samples: TypeAlias = dict[tuple[str, tuple[str, ...]], float]


@asynccontextmanager
async def counted(gauges: FleetGauges, queries: Queries) -> AsyncIterator[None]:
    """Within the block, `gauges` count with `queries`."""
    async with anyio.create_task_group() as group:
        await group.start(gauges.run, queries)
        yield
        group.cancel_scope.cancel()


def samples(gauges: FleetGauges) -> Samples:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in gauges.collect()
        for sample in family.samples
    }


async def scraped(gauges: FleetGauges) -> Samples:
    """The samples of a scrape, which may count the fleet."""
    await gauges.refresh()
    return samples(gauges)
