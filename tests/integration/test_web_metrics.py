"""The fleet's gauges on the metrics page: current, and counted no more often than needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.metrics.fleet import FleetGauges
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.limits import Limits
from farrier.model.views.census import Rules
from farrier.web.server.probes import Probes
from tests.support import figures, pg
from tests.support.clock import HandClock
from tests.support.web import register

RULES = Rules(
    limits=Limits(), offline_after=timedelta(minutes=3), observation_ttl=timedelta(minutes=5), name_at_most=100
)


@pytest.fixture
async def queries(db: pg.Database) -> AsyncIterator[PostgresQueries]:
    """The queries of a controller, which alone counts the fleet."""
    async with db.pool(size=1) as connections:
        yield PostgresQueries(connections)


def sampled(gauges: FleetGauges) -> dict[tuple[str, str], float]:
    """The samples' values by name and state."""
    return {(s.name, s.labels.get("state", "")): s.value for family in gauges.collect() for s in family.samples}


async def test_the_fleet_is_counted_for_metrics_and_not_more_often_than_needed(
    queries: PostgresQueries, conn: Connection
) -> None:
    clock = HandClock()
    gauges = FleetGauges(RULES, clock)
    await gauges.refresh()
    assert sampled(gauges)["farrier_fleet_collected_timestamp_seconds", ""] == 0
    assert ("farrier_resources", "enrolling") not in sampled(gauges), "no samples are better than wrong ones"
    async with figures.counted(gauges, queries):
        await gauges.refresh()
        assert sampled(gauges)["farrier_resources", "enrolling"] == 0
        await register(conn, "gpu-1")
        await gauges.refresh()
        assert sampled(gauges)["farrier_resources", "enrolling"] == 0
        clock.advance(timedelta(seconds=5))
        await gauges.refresh()
    assert sampled(gauges)["farrier_resources", "enrolling"] == 1
    assert sampled(gauges)["farrier_intents_pending", ""] == 0
    failing = next(family for family in gauges.collect() if family.name == "farrier_power_sync_failing")
    assert {s.labels["failure"]: s.value for s in failing.samples} == dict.fromkeys(map(str, BmcFailure), 0)


async def test_a_scrape_counts_the_current_fleet(queries: PostgresQueries, conn: Connection) -> None:
    registry = CollectorRegistry()
    gauges = FleetGauges(RULES, HandClock())
    registry.register(gauges)
    probes = Probes(registry, unready_because=lambda: None, refresh=gauges.refresh)
    transport = httpx.ASGITransport(app=probes.app)
    await register(conn, "gpu-1")
    async with (
        figures.counted(gauges, queries),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        text = (await client.get("/metrics")).text
        openmetrics = await client.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")
    assert 'farrier_resources{kind="node",state="enrolling",substate=""} 1.0' in text
    assert 'farrier_resources{kind="onboarding",state="running",substate="wait_for_ready"} 0.0' in text
    assert 'farrier_state_sla_seconds{kind="maas_region",state="failing",substate=""} 300.0' in text
