"""The counts of a fleet with many faults at once: no fault hides another, and agents choose no number of series."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.node.limits import Limits
from farrier.model.views.census import ALERTS_NAMED
from tests.integration.test_census import above, rules
from tests.support import pg, reading

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
ACTIVE = "INSERT INTO farrier.nodes (name, status, management) VALUES ($1, 'active', 'unmanaged')"
ALERTING = """
    INSERT INTO farrier.node_agents (node_id, key_hash, last_heartbeat_at, health)
    SELECT n.id, farrier.digest(n.name), farrier.now() - $2::interval, $3::jsonb FROM farrier.nodes n WHERE n.name = $1
"""

conn, pool, queries = reading.unguarded, reading.pool, reading.queries


async def test_a_paused_node_that_is_deleted_or_cancelled_counts_like_an_unpaused_one(
    conn: Connection, queries: PostgresQueries
) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management, status_entered_at, management_entered_at, paused, deleting)
        SELECT name, 'draining', 'verifying', farrier.now() - interval '100 h', farrier.now() - interval '100 h',
               '{"reason": "x"}', name = 'deleted'
          FROM unnest('{deleted, cancelled, restarted, running}'::text[]) name;
        INSERT INTO farrier.node_decommissions (node_id, mode, status, after_undo, failure_class)
        SELECT n.id, 'reimage', s, u, CASE WHEN n.deleting THEN 'timeout' END
          FROM (VALUES ('deleted', 'failed_manual_intervention', NULL), ('cancelled', 'compensating', 'cancel'),
                       ('restarted', 'compensating', 'restart'), ('running', 'running', NULL)) w (name, s, u)
          JOIN farrier.nodes n USING (name);
        UPDATE farrier.nodes n SET live_workflow_kind = 'decommission', live_workflow_id = w.id
          FROM farrier.node_decommissions w WHERE w.node_id = n.id
        """
    )
    census = await queries.census(rules())
    assert {late.name for late in census.worst} == {"deleted", "cancelled"}
    assert above(census) == {("node", "draining", ""): 2}, "the management of a paused node is held"
    assert census.manual == {"timeout": 1}


async def test_many_in_one_state_do_not_hide_the_few_in_another(conn: Connection, queries: PostgresQueries) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.nodes (name, status, management, status_entered_at, management_entered_at)
        SELECT 'b' || n, 'active', 'error', farrier.now(), farrier.now() - interval '1000 h' - n * interval '1 min'
          FROM generate_series(1, 200) n
        UNION ALL
        SELECT 'd' || n, 'draining', 'error', farrier.now() - interval '10 h' - n * interval '1 min',
               farrier.now() - interval '900 h'
          FROM generate_series(1, 7) n
        """
    )
    limits = Limits(everywhere={"management.error": HOUR, "status.draining": HOUR})
    worst = (await queries.census(rules(limits))).worst
    assert len(worst) == 100
    assert [late.name for late in worst if late.state == "draining"] == ["d7", "d6", "d5", "d4", "d3"]
    assert [late.name for late in worst if late.state == "error"] == [f"b{n}" for n in range(200, 105, -1)]


async def test_resources_that_have_failed_for_five_minutes_are_counted_by_their_error(
    db: pg.Database, conn: Connection, queries: PostgresQueries
) -> None:
    await conn.execute(
        """
        INSERT INTO farrier.outcomes (kind, id, at, outcome)
        SELECT kind, id, farrier.now() - ago * interval '1 min', o::jsonb
          FROM (VALUES ('node', 1, 6, '{"outcome": "error", "error": "internal"}'),
                       ('node', 2, 6, '{"outcome": "error", "error": "internal"}'),
                       ('node', 3, 4, '{"outcome": "error", "error": "garbage"}'),
                       ('node', 4, 6, '{"outcome": "wait", "reason": "x"}'),
                       ('maas_region', 1, 6, '{"outcome": "error", "error": "garbage"}')) v (kind, id, ago, o)
        """
    )
    found = (await queries.census(rules())).failing
    assert {(each.kind, each.error): each.count for each in found} == {
        ("node", "internal"): 2,
        ("maas_region", "garbage"): 1,
    }
    await db.advance(2 * MINUTE)
    await conn.execute("""UPDATE farrier.outcomes SET outcome = '{"outcome": "do_nothing"}' WHERE id = 1""")
    found = (await queries.census(rules())).failing
    assert {(each.kind, each.error): each.count for each in found} == {("node", "internal"): 1, ("node", "garbage"): 1}


async def test_an_error_lasts_while_only_its_text_changes_and_another_error_starts_anew(
    db: pg.Database, conn: Connection, queries: PostgresQueries
) -> None:
    store = """
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
        VALUES ('node', 1, farrier.now(), jsonb_build_object('outcome', 'error', 'error', $1::text, 'reason', $2::text))
        ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome
    """
    for minute in range(7):
        await conn.execute(store, "garbage", f"request {minute} made no sense")
        await db.advance(MINUTE)
    assert [(each.error, each.count) for each in (await queries.census(rules())).failing] == [("garbage", 1)]
    await conn.execute(store, "internal", "a crash")
    await db.advance(4 * MINUTE)
    assert not (await queries.census(rules())).failing
    await db.advance(2 * MINUTE)
    assert [each.error for each in (await queries.census(rules())).failing] == ["internal"]


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
