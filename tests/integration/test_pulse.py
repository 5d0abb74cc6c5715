"""The database's clock is set back: stored times in the future are replaced, and limits count from the new times."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.io.connections.pulse import PostgresPulse
from farrier.io.schema import migrate
from tests.support import again, pg
from tests.support.process import PATIENCE, replica

BACK = timedelta(hours=2)
HEARTBEAT = "SELECT farrier.heartbeat($1, $2::text::jsonb, $3)"
WELL = '{"ok": true, "ssh_seed": "ok"}'
OFFLINE_AFTER = timedelta(seconds=180)
A_PULSE_LATER = timedelta(seconds=10)

# Columns with times of past events: without times of future events, and without tables that are never mended.
COLUMNS = """
    SELECT c.oid::regclass::text AS relation, quote_ident(a.attname) AS name
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
       AND a.atttypid = 'timestamptz'::regtype AND NOT farrier.is_of_the_future(a.attname)
       AND c.relname NOT IN ('history', 'wakes', 'migrator', 'schema_steps', 'schema_set')
"""


async def in_the_future(conn: Connection) -> list[str]:
    """The columns that hold a time in the future."""
    return [
        f"{column['relation']}.{column['name']}"
        for column in await conn.fetch(COLUMNS)
        if await conn.fetchval(f"SELECT count(*) FROM {column['relation']} WHERE {column['name']} > farrier.now()")
    ]


OLD = "created_at = farrier.now() - interval '1 day', status_entered_at = farrier.now() - interval '1 day'"


async def enrolled(conn: Connection, name: str) -> str:
    """Register a node with an agent; returns the agent's key."""
    await conn.execute("SELECT farrier.register_node($1)", name)
    token = await conn.fetchval("SELECT farrier.issue_bootstrap($1)", name)
    key: str = await conn.fetchval("SELECT agent_key FROM farrier.enroll_agent($1)", token)
    return key


async def beat(db: pg.Database) -> timedelta | None:
    """Run one pulse and all batches of the mend; returns `done` of the last batch."""
    async with db.pool(1) as connections:
        pulse = PostgresPulse(connections)
        await pulse.beat()
        while (batch := await pulse.mend()).more:
            pass
        return batch.done


@pytest.mark.full
async def test_after_the_clock_is_set_back_only_nodes_of_dead_agents_go_offline(
    db: pg.Database,
) -> None:
    async with replica(db.dsn) as daemon, db.connect() as conn:
        await daemon.until("daemon.ready")
        keys = {name: await enrolled(conn, name) for name in ("dead", "living")}
        for name, key in keys.items():
            await conn.execute(HEARTBEAT, name, WELL, key)
        await conn.execute(
            "SET session_replication_role = replica;"
            "UPDATE farrier.nodes SET status = 'active', ever_active = true, ever_onboarded = true,"
            " live_workflow_kind = NULL, live_workflow_id = NULL, version = version + 1;"
            "UPDATE farrier.node_onboardings SET status = 'completed', ended_at = farrier.now();"
            "SET session_replication_role = origin"
        )
        await db.advance(-BACK)
        assert (await daemon.until("clock.mended"))[
            "set_back_by"
        ] > BACK.total_seconds() - A_PULSE_LATER.total_seconds()
        assert await conn.fetchval("SELECT bool_and(status = 'active') FROM farrier.nodes")
        await db.advance(OFFLINE_AFTER / 2)
        await conn.execute(HEARTBEAT, "living", WELL, keys["living"])
        await db.advance(OFFLINE_AFTER / 2 + A_PULSE_LATER)
        status = "SELECT status FROM farrier.nodes WHERE name = $1"
        with anyio.fail_after(PATIENCE):
            while await conn.fetchval(status, "dead") != "offline":
                await again.later()
        assert await conn.fetchval(status, "living") == "active"


async def test_no_time_of_a_past_event_lies_in_the_future_after_the_next_pulse(
    db: pg.Database, conn: Connection
) -> None:
    key = await enrolled(conn, "gpu-1")
    await conn.execute(HEARTBEAT, "gpu-1", WELL, key)
    await conn.execute("INSERT INTO farrier.intents (node, action) VALUES ('gpu-1', 'delete')")
    await conn.execute(
        "INSERT INTO farrier.outcomes (kind, id, at, outcome) VALUES ('node', 1, farrier.now(), '{\"error\": \"x\"}')"
    )
    await conn.execute(
        """
        INSERT INTO farrier.brakes (site, source, since, counted_at)
        VALUES ('fra', 'bmc', farrier.now(), farrier.now());
        INSERT INTO farrier.departures (site, source, node, at, held) VALUES ('fra', 'bmc', 1, farrier.now(), true);
        INSERT INTO farrier.node_conditions (node, source, id, requested) VALUES (1, 'agent', 'fan', 'note')
        """
    )
    await db.advance(-BACK)
    assert await in_the_future(conn), "nothing to mend: this test would prove nothing"
    assert await beat(db) is not None
    assert await in_the_future(conn) == []
    assert await beat(db) is None


async def test_times_of_future_events_keep_their_distance_from_now(db: pg.Database, conn: Connection) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-1', bootstrap_ttl => interval '1 hour')")
    await conn.execute("SELECT farrier.issue_bootstrap('gpu-1', interval '1 hour')")
    await conn.execute(
        "INSERT INTO farrier.brake_lifts (site, until, reason, requested_by)"
        " VALUES ('fra', farrier.now() + interval '1 hour', 'drill', 'me')"
    )
    await beat(db)  # a pulse just before the clock is set back
    await db.advance(-BACK)
    await beat(db)
    for table, column in (("bootstrap_tokens", "expires_at"), ("brake_lifts", "until")):
        left = await conn.fetchval(f"SELECT max({column}) - farrier.now() FROM farrier.{table}")
        assert timedelta(minutes=59) < left <= timedelta(hours=1) + A_PULSE_LATER


async def test_mended_times_of_a_bmc_age_again_and_its_logins_keep_their_distances(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute(
            "SELECT farrier.register_node('gpu-1', bmc_address => 'https://192.0.2.1', bmc_credential => 'file:/x')"
        )
        await conn.execute(
            "UPDATE farrier.nodes SET bmc = jsonb_build_object('power', 'on', 'power_at', farrier.now(),"
            " 'next_sync_at', farrier.now() + interval '30 s', 'sync_error', 'at 2026-01-01T00:00:00Z',"
            " 'tries', jsonb_build_array(farrier.now() - interval '9 s', farrier.now() - interval '4 s'))"
        )
        await beat(db)  # a pulse just before the clock is set back
        await db.advance(-BACK)
        await beat(db)
        bmc = msgspec.json.decode(await conn.fetchval("SELECT bmc FROM farrier.nodes"), type=dict[str, object])
        ages = await conn.fetchrow(
            "SELECT farrier.now() - (bmc ->> 'power_at')::timestamptz AS power,"
            " (bmc ->> 'next_sync_at')::timestamptz - farrier.now() AS sync FROM farrier.nodes"
        )
        logins = await conn.fetch("SELECT farrier.now() - at AS age FROM farrier.bmc_logins ORDER BY at")
    assert ages is not None
    assert timedelta(0) <= ages["power"] < A_PULSE_LATER
    assert timedelta(0) < ages["sync"] <= timedelta(seconds=30) + A_PULSE_LATER
    assert bmc["sync_error"] == "at 2026-01-01T00:00:00Z"
    assert logins[0]["age"] - logins[1]["age"] == timedelta(seconds=5)


async def test_changed_rows_and_rows_with_a_step_get_a_new_version_and_all_are_enqueued(
    db: pg.Database, conn: Connection
) -> None:
    for name in ("recent", "acting", "old"):
        await conn.execute("SELECT farrier.register_node($1)", name)
    await conn.execute(
        "SET session_replication_role = replica;"
        f"UPDATE farrier.nodes SET {OLD}, management_entered_at = farrier.now() - interval '1 day'"
        " WHERE name <> 'recent';"
        "INSERT INTO farrier.marks SELECT gen_random_uuid(), 'node', 1, jsonb_build_object(id,"
        " jsonb_build_object('step', 'probe', 'begun_at', farrier.now() - interval '1 day'))"
        " FROM farrier.nodes WHERE name = 'acting';"
        f"UPDATE farrier.node_onboardings SET {OLD}, stage_entered_at = farrier.now() - interval '1 day'"
        " WHERE node_id IN (SELECT id FROM farrier.nodes WHERE name <> 'recent');"
        "SET session_replication_role = origin; DELETE FROM farrier.wakes"
    )
    await beat(db)  # a pulse just before the clock is set back
    await db.advance(-BACK)
    await beat(db)
    anew = await conn.fetchval("SELECT array_agg(name ORDER BY name) FROM farrier.nodes WHERE version > 1")
    woken = await conn.fetchval(
        "SELECT array_agg(DISTINCT n.name ORDER BY n.name) FROM farrier.wakes w"
        "  JOIN farrier.nodes n ON n.id = w.resource AND w.kind = 'node'"
    )
    assert anew == ["acting", "recent"]
    assert woken == ["acting", "old", "recent"]


async def test_a_node_is_enqueued_after_all_data_of_its_snapshot_are_mended(db: pg.Database) -> None:
    async with db.connect() as conn, db.pool(1) as connections:
        pulse = PostgresPulse(connections)
        await pulse.beat()
        key = await enrolled(conn, "gpu-1")
        await conn.execute(HEARTBEAT, "gpu-1", WELL, key)
        await conn.execute("DELETE FROM farrier.wakes")
        await db.advance(-BACK)
        await pulse.beat()
        assert "node_agents.last_heartbeat_at" in await in_the_future(conn)
        while not await conn.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = 'node'"):
            assert (await pulse.mend()).more
        assert await in_the_future(conn) == []


async def test_a_pulse_waits_for_no_row_and_another_process_continues_the_mend(
    db: pg.Database,
) -> None:
    fleet, batch = 25, 10
    async with db.connect() as conn, db.connect() as other:
        await conn.execute("SELECT farrier.register_node('gpu-' || n) FROM generate_series(1, $1) n", fleet)
        await beat(db)
        await db.advance(-BACK)
        ahead = "SELECT count(*) FROM farrier.nodes WHERE created_at > farrier.now()"
        async with other.transaction():
            await other.execute("SELECT FROM farrier.nodes FOR UPDATE")
            async with db.pool(1) as connections:
                assert await PostgresPulse(connections).beat() is not None
        assert await conn.fetchval(ahead) == fleet
        left, calls, more = fleet, 0, True
        while more:
            async with db.pool(1) as connections:  # a process of its own for each batch
                more = (await PostgresPulse(connections).mend(batch)).more
            now_left = await conn.fetchval(ahead)
            assert left - now_left <= batch
            left, calls = now_left, calls + 1
        assert (left, await in_the_future(conn)) == (0, [])
        assert calls > fleet / batch
        assert await conn.fetchval("SELECT max(version) FROM farrier.nodes") == 2


async def test_one_process_mends_at_a_time(db: pg.Database) -> None:
    async with db.connect() as conn, db.connect() as other, db.pool(1) as connections:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        await PostgresPulse(connections).beat()
        await db.advance(-BACK)
        await PostgresPulse(connections).beat()
        async with other.transaction():
            await other.fetchrow("SELECT * FROM farrier.mend(10)")
            assert not (await PostgresPulse(connections).mend()).more
        assert await beat(db) is not None


async def test_a_migrator_at_work_stays_the_migrator(db: pg.Database) -> None:
    """The migrator is identified by the start of its session, which the database's moved clock does not affect."""
    async with db.connect() as migrator, db.connect() as other:
        assert await migrate.becomes_migrator(migrator)
        await beat(db)
        await db.advance(-BACK)
        assert await beat(db) is not None
        assert not await migrate.becomes_migrator(other)


async def test_a_clock_that_is_not_set_back_mends_nothing(db: pg.Database, conn: Connection) -> None:
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    for by in (timedelta(0), timedelta(hours=3), -timedelta(seconds=2)):
        await db.advance(by)
        assert await beat(db) is None
    assert await conn.fetchval("SELECT version FROM farrier.nodes") == 1


async def outages(conn: Connection) -> list[tuple[Any, ...]]:
    """How long ago each outage ended, and how long it lasted."""
    ended = "SELECT farrier.now() - upper(t), upper(t) - lower(t) FROM farrier.outages CROSS JOIN unnest(times) t"
    return [tuple(row) for row in await conn.fetch(ended)]


@pytest.mark.parametrize(
    ("gap", "is_outage"),
    [(timedelta(seconds=9), False), (timedelta(seconds=11), True), (timedelta(hours=1), True)],
)
async def test_a_gap_between_pulses_is_an_outage(
    db: pg.Database, conn: Connection, gap: timedelta, is_outage: bool
) -> None:
    await db.freeze()
    await beat(db)
    await conn.execute("UPDATE farrier.pulse SET gaps = '{}'")
    await db.advance(gap, pulses=False)
    assert await outages(conn) == ([(timedelta(0), gap)] if is_outage else [])
    await beat(db)
    await db.advance(timedelta(seconds=2), pulses=False)
    await beat(db)
    assert await outages(conn) == ([(timedelta(seconds=2), gap)] if is_outage else [])


async def test_the_time_of_an_outage_does_not_count_towards_the_expiry_of_a_condition(
    db: pg.Database, conn: Connection
) -> None:
    await db.freeze()
    await conn.execute("SELECT farrier.register_node('gpu-1'); SELECT farrier.beat()")
    await conn.execute(
        """
        INSERT INTO farrier.node_conditions (node, source, id, requested, expires_at)
        SELECT 1, 'monitor:dcgm', x.id, 'note', farrier.now() + x.later
          FROM (VALUES ('open', interval '5 minutes'), ('over', interval '-1 minute')) x (id, later)
        """
    )
    await db.advance(timedelta(hours=1), pulses=False)
    await conn.execute("SELECT farrier.beat()")
    left = await conn.fetch("SELECT id, expires_at - farrier.now() AS after FROM farrier.node_conditions ORDER BY id")
    assert [tuple(row) for row in left] == [("open", timedelta(minutes=5)), ("over", timedelta(minutes=-61))]


async def test_no_outage_ends_in_the_future_after_the_clock_is_set_back(db: pg.Database, conn: Connection) -> None:
    await db.freeze()
    await beat(db)
    await conn.execute("UPDATE farrier.pulse SET gaps = '{}'")
    await db.advance(BACK, pulses=False)
    await beat(db)
    await db.advance(-BACK)
    assert await beat(db) is not None
    assert await outages(conn) == []


async def test_at_most_a_hundred_outages_of_a_week_are_remembered(db: pg.Database, conn: Connection) -> None:
    await db.freeze()
    await beat(db)
    await conn.execute("UPDATE farrier.pulse SET gaps = '{}'")
    for _ in range(101):
        await db.advance(timedelta(seconds=11), pulses=False)
        await beat(db)
        await db.advance(timedelta(seconds=2), pulses=False)
        await beat(db)
    ended = [ago for ago, _ in await outages(conn)]
    assert sorted(ended) == [timedelta(seconds=2 + 13 * number) for number in range(100)]
    await db.advance(timedelta(days=7))
    await beat(db)
    assert await outages(conn) == []


async def test_only_the_controller_s_role_may_run_the_pulse(conn: Connection) -> None:
    await conn.execute("SET ROLE farrier_controller")
    assert await conn.fetchval("SELECT farrier.beat()") is None
    for role in ("farrier_intents", "farrier_agent", "farrier_reader"):
        await conn.execute(f"RESET ROLE; SET ROLE {role}")
        with pytest.raises(pg.PostgresError, match="permission denied"):
            await conn.execute("SELECT farrier.beat()")
