"""Foreign objects that depend on farrier's and block a migration: the refusal names them, and nothing is changed."""

from __future__ import annotations

import pytest

from farrier import errors
from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema.files import Schema
from tests.support import toys
from tests.support.catalogs import places

conn, schema = toys.conn, toys.of_toy


@pytest.mark.parametrize(
    ("need", "named"),
    [
        ("size integer DEFAULT farrier.f(1)", "default value for column size of table"),
        ("size integer CHECK (farrier.f(size) > 0)", "constraint toy_size_check"),
        ("size integer); CREATE INDEX toy_f ON farrier.toy (farrier.f(size)", "index"),
        ("size integer, f integer GENERATED ALWAYS AS (farrier.f(size)) STORED", "column f of table"),
        ("size integer); CREATE POLICY p ON farrier.toy USING (farrier.f(1) > 0", "policy p"),
    ],
    ids=["default", "check", "index", "generated", "policy"],
)
async def test_a_new_signature_of_a_function_that_a_table_uses_is_refused(
    conn: Connection, need: str, named: str
) -> None:
    tables = f"CREATE TABLE farrier.toy ({need})"

    def with_f(parameters: str, body: str = "SELECT 1") -> Schema:
        f = toys.f(parameters, "integer IMMUTABLE", body)
        return schema({"a": "SELECT 1" if body == "SELECT 1" else "SELECT 2", "f": f}, tables=tables)

    await migrate.migrate(conn, schema=with_f("n integer"))
    before = await places(conn)
    for changed in ("n integer, m integer DEFAULT 1", "m integer", "n bigint"):
        with pytest.raises(errors.RefusedByModel, match=rf"function f must be .*{named}.* depends on it"):
            await migrate.migrate(conn, schema=with_f(changed, "SELECT 3"))
        assert await places(conn) == before
    await migrate.migrate(conn, schema=with_f("n integer", "SELECT 3"))
    assert await conn.fetchval("SELECT farrier.f(0)") == 3


THEIRS = "CREATE SCHEMA theirs;"


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ("CREATE VIEW theirs.v AS SELECT farrier.f(1)", ["view theirs.v"]),
        ("CREATE MATERIALIZED VIEW theirs.m AS SELECT farrier.f(1)", ["materialized view theirs.m"]),
        ("CREATE FUNCTION theirs.g() RETURNS integer RETURN farrier.f(1)", ["function theirs.g()"]),
        ("CREATE TABLE theirs.t (x integer DEFAULT farrier.f(1))", ["default value for column x of table theirs.t"]),
        ("CREATE VIEW theirs.v AS SELECT x FROM farrier.seen", ["view theirs.v"]),
        ("CREATE VIEW theirs.v AS SELECT s FROM farrier.seen s", ["view theirs.v"]),
        ("CREATE FUNCTION theirs.g(farrier.seen[]) RETURNS integer RETURN 1", ["function theirs.g(seen[])"]),
        ("CREATE TABLE theirs.t (x farrier.seen[])", ["table theirs.t"]),
        (
            """CREATE FUNCTION theirs.g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
               CREATE TRIGGER t INSTEAD OF INSERT ON farrier.seen FOR EACH ROW EXECUTE FUNCTION theirs.g()""",
            ["trigger t on view seen"],
        ),
        ("CREATE RULE r AS ON INSERT TO farrier.seen DO INSTEAD NOTHING", ["rule r on view seen"]),
        (
            """CREATE VIEW theirs.v AS SELECT farrier.f(1);
               CREATE MATERIALIZED VIEW theirs.m AS SELECT farrier.f(2);
               CREATE FUNCTION theirs.g() RETURNS integer RETURN farrier.f(1)""",
            ["function theirs.g()", "materialized view theirs.m", "view theirs.v"],
        ),
    ],
)
async def test_foreign_objects_in_the_way_are_named_and_nothing_is_changed(
    conn: Connection, theirs: str, named: list[str]
) -> None:
    def with_f(parameters: str, body: str, columns: str, *more: str) -> Schema:
        seen = f"SELECT {columns} FROM (SELECT farrier.f(1) AS x, 2 AS y) s"
        return schema(
            {"a": body, "f": toys.f(parameters, body=body), **dict.fromkeys(more, "SELECT 1")}, {"seen": seen}
        )

    await migrate.migrate(conn, schema=with_f("n integer", "SELECT 1", "x, y", "gone"))
    await conn.execute(THEIRS + theirs)
    before = await places(conn)
    with pytest.raises(errors.RefusedByModel) as refusal:
        await migrate.migrate(conn, schema=with_f("n integer, m integer DEFAULT 0", "SELECT 2", "y"))
    assert f"{', '.join(named)} depends on it" in str(refusal.value)
    assert await places(conn) == before
    await migrate.migrate(conn, schema=with_f("n integer", "SELECT 2", "x, y, 3 AS z"))
    assert await conn.fetchval("SELECT x + z FROM farrier.seen") == 5


@pytest.mark.parametrize(
    ("step", "theirs", "dependent"),
    [
        (
            "ALTER TABLE farrier.toy DROP COLUMN size",
            "CREATE VIEW theirs.v AS SELECT size FROM farrier.toy",
            "view theirs.v depends on column size of table toy",
        ),
        (
            "ALTER TABLE farrier.toy ALTER size TYPE bigint",
            "CREATE VIEW theirs.v AS SELECT size FROM farrier.toy",
            'view theirs.v depends on column "size"',
        ),
        (
            "DROP FUNCTION farrier.f(integer)",
            "CREATE VIEW theirs.v AS SELECT farrier.f(1)",
            "view theirs.v depends on function f(integer)",
        ),
    ],
    ids=["drops a column", "changes a type", "drops a function"],
)
async def test_a_foreign_object_in_the_way_of_a_step_is_named_with_the_step(
    conn: Connection, step: str, theirs: str, dependent: str
) -> None:
    functions = {"f": toys.f("a integer")}
    await migrate.migrate(conn, schema=schema(functions))
    await conn.execute(THEIRS + theirs)
    before = await places(conn)
    with pytest.raises(errors.RefusedByModel) as refusal:
        await migrate.migrate(conn, schema=schema(functions, steps=[f"-- replicas: stop\n{step}"]))
    assert "migration 2 (toy_2) failed: cannot" in refusal.value.text
    assert dependent in refusal.value.text
    assert refusal.value.hint == "Drop the dependent objects, migrate, and create them again."
    assert await places(conn) == before


async def test_a_foreign_view_on_objects_that_stay_does_not_block_a_migration(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema({"f": "SELECT 1"}, {"seen": "SELECT id FROM farrier.toy"}))
    await conn.execute(THEIRS + "CREATE VIEW theirs.v AS SELECT farrier.f(), id FROM farrier.seen")
    await migrate.migrate(conn, schema=schema({"f": "SELECT 2"}, {"seen": "SELECT id, name FROM farrier.toy"}))
    await conn.execute("INSERT INTO farrier.toy VALUES (7)")
    assert tuple(await conn.fetchrow("SELECT * FROM theirs.v") or ()) == (2, 7)
