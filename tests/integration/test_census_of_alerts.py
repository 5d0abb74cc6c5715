"""Nodes with recent heartbeats are counted by the alerts of their agents, with a bounded number of alert names."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.node.limits import Limits
from farrier.model.views.census import ALERTS_NAMED, Rules
from tests.support import reading

MINUTE = timedelta(minutes=1)
ACTIVE = "INSERT INTO farrier.nodes (name, status, management) VALUES ($1, 'active', 'unmanaged')"
ALERTING = """
    INSERT INTO farrier.node_agents (node_id, key_hash, last_heartbeat_at, health)
    SELECT n.id, farrier.digest(n.name), farrier.now() - $2::interval, $3::jsonb FROM farrier.nodes n WHERE n.name = $1
"""


def rules() -> Rules:
    return Rules(limits=Limits(), offline_after=3 * MINUTE, observation_ttl=5 * MINUTE, name_at_most=100)


conn, pool, queries = reading.unguarded, reading.pool, reading.queries


async def alerting(conn: Connection, name: str, *ids: str, ago: timedelta = timedelta(0)) -> None:
    await conn.execute(ACTIVE, name)
    await conn.execute(ALERTING, name, ago, json.dumps({"ok": False, "alerts": [{"id": each} for each in ids]}))


async def test_nodes_are_counted_by_the_alerts_of_agents_with_recent_heartbeats(
    conn: Connection, queries: PostgresQueries
) -> None:
    assert (await queries.census(rules())).alerts == {"other": 0}
    await alerting(conn, "n-1", "xid-79", "fan")
    await alerting(conn, "n-2", "xid-79", "xid-79", "other", "x" * 300)
    await alerting(conn, "n-3", "silent", ago=4 * MINUTE)
    await alerting(conn, "n-4")
    await alerting(conn, "n-5", "deleted")
    await conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE name = 'n-5'")
    assert (await queries.census(rules())).alerts == {"xid-79": 2, "fan": 1, "x" * 64: 1, "other": 1}


async def test_the_fifty_most_frequent_alerts_are_counted_by_name_and_the_rest_together(
    conn: Connection, queries: PostgresQueries
) -> None:
    ids = [f"a-{number:02}" for number in range(70)]
    await alerting(conn, "n-1", *ids)
    await alerting(conn, "n-2", *ids[-5:])
    counted = (await queries.census(rules())).alerts
    assert len(counted) == ALERTS_NAMED + 1
    assert counted["other"] == 1
    assert {id_ for id_, count in counted.items() if count == 2} == {*ids[-5:]}


@pytest.mark.parametrize("alerts", ['"none"', "{}", "null", "7", '["x", 7, {}, {"id": null}]'])
async def test_malformed_alerts_are_not_counted(conn: Connection, queries: PostgresQueries, alerts: str) -> None:
    await conn.execute(ACTIVE, "n-1")
    await conn.execute(ALERTING, "n-1", timedelta(0), f'{{"ok": false, "alerts": {alerts}}}')
    assert (await queries.census(rules())).alerts == {"other": 0}
