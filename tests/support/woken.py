"""Counts the wakes of resources by a trigger, because a wake that a run has seen is deleted."""

from __future__ import annotations

from farrier.io.connections.pool import Connection

_COUNT = """
    CREATE TABLE IF NOT EXISTS farrier_test.woken (kind text NOT NULL, resource bigint NOT NULL);
    CREATE OR REPLACE FUNCTION farrier_test.count_wake() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO farrier_test.woken VALUES (NEW.kind, NEW.resource);
        RETURN NULL;
    END $$;
    CREATE OR REPLACE TRIGGER count_wake AFTER INSERT ON farrier.wakes
        FOR EACH ROW EXECUTE FUNCTION farrier_test.count_wake();
"""


async def count(conn: Connection) -> None:
    """Count from now on. May be called again."""
    await conn.execute(_COUNT)


async def times(conn: Connection, kind: str, id_: int) -> int:
    """How often the resource was enqueued since `count`."""
    found: int = await conn.fetchval(
        "SELECT count(*) FROM farrier_test.woken WHERE kind = $1 AND resource = $2", kind, id_
    )
    return found
