"""Triggers of the schema: each matches its file, and no check is skipped while a trigger is made anew."""

from __future__ import annotations

import pytest

from farrier import errors
from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema.files import Schema
from tests.support import toys

TABLE, conn, schema = toys.TABLE, toys.conn, toys.of_toy


async def test_a_trigger_on_a_view_is_made_again_with_it(conn: Connection) -> None:
    functions = {"touch": toys.touch("INSERT INTO farrier.toy VALUES (NEW.id); RETURN NEW")}
    instead = {
        "seen.touch": "CREATE OR REPLACE TRIGGER touch INSTEAD OF INSERT ON farrier.seen"
        " FOR EACH ROW EXECUTE FUNCTION farrier.touch()"
    }
    await migrate.migrate(conn, schema=schema(functions, {"seen": "SELECT id, name FROM farrier.toy"}, instead))
    await migrate.migrate(conn, schema=schema(functions, {"seen": "SELECT id FROM farrier.toy"}, instead))
    await conn.execute("INSERT INTO farrier.seen VALUES (4)")
    assert await conn.fetchval("SELECT id FROM farrier.toy") == 4


CHECKS = (
    "CREATE CONSTRAINT TRIGGER touch AFTER INSERT ON farrier.toy DEFERRABLE INITIALLY DEFERRED"
    " FOR EACH ROW EXECUTE FUNCTION farrier.touch()"
)
STATE = "SELECT tgdeferrable, tginitdeferred, tgenabled FROM pg_trigger WHERE tgrelid = 'farrier.toy'::regclass"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CHECKS, f"-- Checks.\n{CHECKS}"),
        (CHECKS, f"{CHECKS};\nALTER TABLE farrier.toy ENABLE ALWAYS TRIGGER touch"),
        (f"{CHECKS};\nALTER TABLE farrier.toy ENABLE ALWAYS TRIGGER touch", CHECKS),
        (toys.trigger(), CHECKS),
        (CHECKS, toys.trigger()),
    ],
    ids=["constraint", "always", "no longer always", "to a constraint", "from a constraint"],
)
async def test_a_migrated_trigger_equals_one_made_from_its_file(conn: Connection, before: str, after: str) -> None:
    functions = {"touch": toys.touch()}
    await migrate.migrate(conn, schema=schema(functions, triggers={"toy.touch": before}))
    await migrate.migrate(conn, schema=schema(functions, triggers={"toy.touch": after}))
    found = await conn.fetch(STATE)
    await conn.execute(f"DROP TRIGGER touch ON farrier.toy; {after}")
    assert found == await conn.fetch(STATE)


async def test_rows_that_a_step_wrote_are_checked_by_the_old_trigger_before_it_is_replaced(conn: Connection) -> None:
    """The check also runs before the next step alters the table."""
    functions = {"touch": toys.touch("IF NEW.size IS NULL THEN RAISE check_violation; END IF; RETURN NULL")}
    await migrate.migrate(conn, schema=schema(functions, triggers={"toy.touch": CHECKS}))

    def written(size: str) -> Schema:
        steps = [
            f"INSERT INTO farrier.toy VALUES (1, 'bear', {size})",
            "ALTER TABLE farrier.toy ADD COLUMN age integer",
        ]
        return toys.schema(
            toys.named(functions, triggers={"toy.touch": f"-- Checks.\n{CHECKS}"}),
            tables=TABLE,
            steps=[f"-- replicas: go on\n{step}" for step in steps],
        )

    with pytest.raises(errors.RefusedByModel, match=r"migration 2 \(toy_2\) failed: check_violation"):
        await migrate.migrate(conn, schema=written("NULL"))
    assert (await migrate.migrate(conn, schema=written("2"))).versions == (2, 3)
