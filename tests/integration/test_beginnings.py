"""The history of a resource begins with a row for each layer, without a source value and with the creating role."""

from __future__ import annotations

from typing import Any

from farrier.io.connections.pool import Connection
from tests.support import pg

FIRST = """
    SELECT DISTINCT ON (kind, layer) kind, layer, version, from_value, to_value, cause, requested_by
      FROM farrier.history WHERE kind = $1 ORDER BY kind, layer, version
"""


async def beginning(conn: Connection, kind: str) -> list[tuple[Any, ...]]:
    return [tuple(row)[1:] for row in await conn.fetch(FIRST, kind)]


async def test_a_node_begins_with_its_registration(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        by = await conn.fetchval("SELECT session_user")
        assert await beginning(conn, "node") == [
            ("management", 1, None, "unmanaged", "register_node", by),
            ("onboarding", 1, None, "pending", "register_node", by),
            ("status", 1, None, "enrolling", "register_node", by),
        ]


async def test_a_region_begins_with_its_site(every_db: pg.Database) -> None:
    site = '[{"site": "ams1", "url": "http://maas.test/MAAS", "motion_seconds": 30, "sweep_seconds": 1800}]'
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.set_sites($1::jsonb)", site)
        await conn.execute("SELECT farrier.set_sites($1::jsonb)", site)
        by = await conn.fetchval("SELECT session_user")
        assert await beginning(conn, "maas_region") == [("state", 1, None, "starting", "created", by)]
        assert await conn.fetchval("SELECT count(*) FROM farrier.history") == 1


async def test_a_resource_begins_with_the_intent_that_created_it_or_else_with_the_login(every_db: pg.Database) -> None:
    async with every_db.connect() as conn, conn.transaction():
        await conn.execute("SELECT farrier.set_pool('pkey:ams1', 1, 100)")
        for kind, params in (
            ("ib_partition", '{"site": "ams1", "pkey": 16}'),
            ("network_segment", '{"site": "ams1", "prefixes": ["10.0.0.0/24"]}'),
        ):
            asked = "SELECT farrier.resource_intent($1, 'one', 'create', $2::jsonb, NULL, 'the tenant portal')"
            intent = await conn.fetchval(asked, kind, params)
            by = "the tenant portal"
            assert await beginning(conn, kind) == [("state", 1, None, "provisioning", f"intent {intent}", by)]
        await conn.execute("DELETE FROM farrier.history")
        await conn.execute(
            "INSERT INTO farrier.network_segments (name, site, prefixes) VALUES ('two', 'ams1', '{10.0.1.0/24}')"
        )
        by = await conn.fetchval("SELECT session_user")
        assert await beginning(conn, "network_segment") == [("state", 1, None, "provisioning", "created", by)]
