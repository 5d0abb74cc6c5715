"""Among many segments, also ended ones, statements find each by a key: measured by the scans, and not by time."""

from __future__ import annotations

import json

from farrier.io.connections.pool import Connection
from tests.support.segments import Lan

MANY = """
    WITH made AS (
        INSERT INTO farrier.network_segments (name, site, state, prefixes, vlan, vni, ended_at)
        SELECT 'seg-' || n, 'site-' || n % 5, 'ready', ARRAY[format('10.%s.%s.0/24', n / 256, n % 256)], 1 + n / 5, n,
               CASE WHEN n % 2 = 0 THEN farrier.now() END
          FROM generate_series(1, 6000) n RETURNING id, prefixes[1]::cidr AS prefix, site, ended_at
    ), used AS (
        INSERT INTO farrier.segment_usage (segment, open) SELECT id, ended_at IS NULL FROM made
    ), given AS (
        INSERT INTO farrier.segment_prefixes
        SELECT id, prefix, site, NULL, host(prefix)::inet + 1, host(prefix)::inet + 254, 254 FROM made
    )
    INSERT INTO farrier.segment_free SELECT id, prefix, host(prefix)::inet + 1, host(prefix)::inet + 254 FROM made
"""
SEQUENTIAL = """
    SELECT jsonb_object_agg(relname, seq_scan) FROM pg_stat_user_tables
     WHERE relname = 'network_segments' OR relname LIKE 'segment\\_%'
"""
CREATE = "SELECT farrier.resource_intent('network_segment', $1, 'create', $2::text::jsonb)"
# PostgreSQL may use a generic plan only after five executions of a statement.
TIMES = 8


async def read(conn: Connection) -> dict[str, int]:
    """The number of sequential scans of each table, after this session's own counters were flushed."""
    await conn.execute("SELECT pg_stat_force_next_flush()")
    counted: dict[str, int] = json.loads(await conn.fetchval(SEQUENTIAL))
    return counted


async def test_no_call_scans_all_segments(lan: Lan) -> None:
    async with lan.db.connect() as client:
        await client.execute("SET session_replication_role = replica")
        await client.execute(MANY)
        await client.execute("SET session_replication_role = origin")
        await client.execute(
            "ANALYZE farrier.network_segments, farrier.segment_usage, farrier.segment_prefixes, farrier.segment_free"
        )
        before = await read(client)
        for number in range(TIMES):
            owner = f"o-{number}"
            for segment in ("seg-77", "79"):
                address = await client.fetchval("SELECT farrier.allocate_address($1, $2)", segment, owner)
                assert await client.fetchval("SELECT farrier.release_address($1, $2, $3)", segment, address, owner)
            for ended in ("seg-78", "80"):
                assert not await client.fetchval("SELECT farrier.release_address($1, '10.0.78.1', $2)", ended, owner)
            asked = {"site": "site-1", "prefixes": [f"172.16.{number}.0/24"]}
            await client.execute(CREATE, f"new-{number}", json.dumps(asked))
            numbered = {
                "site": "site-9",
                "prefixes": [f"172.16.{number}.0/24"],
                "vlan": 1 + number,
                "vni": 9000 + number,
            }
            await client.execute(CREATE, f"numbered-{number}", json.dumps(numbered))
        assert await read(client) == before
