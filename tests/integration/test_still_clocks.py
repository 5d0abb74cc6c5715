"""The clock of a limit stands still where the model says so, in all SQL that counts by it."""

from __future__ import annotations

import random

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.node import clocks, sla
from farrier.model.node.layers import LAYER_KIND
from farrier.model.node.limits import Limits
from farrier.model.views.nodes import NodeFilter
from tests.integration.test_census import add_node, place, rules
from tests.support import reading

LATE = """
    WITH job AS (INSERT INTO farrier.node_onboardings (node_id, mode, status, status_entered_at)
                 VALUES (1, 'manual', 'failed_retryable', farrier.now() - interval '50 h') RETURNING id)
    INSERT INTO farrier.nodes (id, name, status, management, status_entered_at, management_entered_at,
                               live_workflow_kind, live_workflow_id)
    OVERRIDING SYSTEM VALUE
    SELECT 1, 'gpu-1', 'offline', 'error', farrier.now() - interval '50 h', farrier.now() - interval '50 h',
           'onboarding', id FROM job
"""
# For each clock of the node above, a fact of the node that could stop it.
STOPS = [
    ("node", "offline", "management", "error"),
    ("node", "offline", "onboarding", "failed_retryable"),
    ("management", "error", "manage_asked", "false"),
    ("onboarding", "failed_retryable", "has_mode", "true"),
]
STOP = "INSERT INTO farrier.clock_stops (kind, state, fact, value) VALUES ($1, $2, $3, $4)"
CLOCKS = "SELECT kind, state, substate FROM farrier.node_clocks WHERE node_id = $1"


conn, pool, queries = reading.unguarded, reading.pool, reading.queries


@pytest.mark.parametrize("stop", STOPS)
async def test_a_stopped_clock_is_missing_from_the_view_the_census_and_the_overdue_list(
    conn: Connection, queries: PostgresQueries, stop: tuple[str, str, str, str]
) -> None:
    await conn.execute(LATE)
    kind, state, *_ = stop
    for stands in (False, True):
        if stands:
            await conn.execute(STOP, *stop)
        shown = {(row["kind"], row["state"]) for row in await conn.fetch(CLOCKS, 1)}
        counted = {(late.kind, late.state) for late in (await queries.census(rules())).above}
        assert ((kind, state) in shown) is ((kind, state) in counted) is not stands
    assert [overdue.node.id for overdue in (await queries.overdue(NodeFilter(), Limits())).rows] == [1]
    for other in STOPS:
        if other != stop:
            await conn.execute(STOP, *other)
    assert (await queries.overdue(NodeFilter(), Limits())).rows == ()


@pytest.mark.parametrize("seed", range(3))
async def test_the_view_lists_the_clocks_that_run_for_a_node_and_no_other(
    conn: Connection, queries: PostgresQueries, seed: int
) -> None:
    dice = random.Random(seed)
    for number in range(150):
        await add_node(conn, dice, f"gpu-{number}")
    page = await queries.inventory(NodeFilter(), limit=1000)
    assert page.rows
    for node in page.rows:
        run = {place(clock) for clock in clocks.running(node, page.now, Limits()) if clock.limit is not None}
        assert {tuple(row) for row in await conn.fetch(CLOCKS, node.id)} == run, node.name


async def test_the_database_has_the_clock_stops_of_the_model(conn: Connection) -> None:
    rows = await conn.fetch("SELECT kind, state, fact, value FROM farrier.clock_stops")
    assert {tuple(row) for row in rows} == {
        (LAYER_KIND[stop.layer], stop.state, stop.fact, value) for stop in sla.STOPS for value in stop.values
    }
