"""Functions, views and triggers: a migration makes anew those that differ, in any order, and touches no others."""

from __future__ import annotations

import asyncpg
import pytest

from farrier import errors
from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema.files import Schema
from tests.support import toys
from tests.support.catalogs import places

conn, schema = toys.conn, toys.of_toy

SIGNATURES = """
    SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'farrier'::regnamespace AND p.proname = $1
"""
COLUMNS = """
    SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
     WHERE a.attrelid = $1::text::regclass ORDER BY a.attnum
"""


async def texts(conn: Connection, query: str, *arguments: object) -> list[str]:
    return [row[0] for row in await conn.fetch(query, *arguments)]


async def test_a_second_migration_writes_nothing(conn: Connection) -> None:
    everything = schema(
        {"one": "SELECT 1", "touch": toys.touch()},
        {"seen": "SELECT id FROM farrier.toy"},
        {"toy.touch": toys.trigger()},
    )
    await migrate.migrate(conn, schema=everything)
    before = await places(conn)
    assert not await migrate.migrate(conn, schema=everything)
    assert await places(conn) == before


async def test_unchanged_objects_are_not_touched(conn: Connection) -> None:
    functions = {"one": "SELECT 1", "other": "SELECT 2", "touch": toys.touch()}
    views, triggers = {"seen": "SELECT id FROM farrier.toy"}, {"toy.touch": toys.trigger()}
    await migrate.migrate(conn, schema=schema(functions, views, triggers))
    before = await places(conn)
    done = await migrate.migrate(conn, schema=schema(functions | {"one": "SELECT 3"}, views, triggers))
    assert (done.changed, done.dropped) == (("function one",), ())
    written = {name for name, place in (await places(conn)).items() if before[name] != place}
    # The record of the objects is always written as a whole.
    assert {name for name in written if not name.startswith(("record of", "the set"))} == {"one()"}
    assert await conn.fetchval("SELECT farrier.one()") == 3


async def test_objects_moved_to_another_folder_are_the_same_set(conn: Connection) -> None:
    here = schema({"one": "SELECT 1", "other": "SELECT 2"})
    elsewhere = toys.reordered(here)
    await migrate.migrate(conn, schema=here)
    assert not await migrate.migrate(conn, schema=elsewhere)
    (await migrate.check(conn, schema=elsewhere)).require_current()


@pytest.mark.parametrize(
    ("before", "after", "called"),
    [
        (toys.f("a integer"), toys.f("a integer", "bigint"), "f(integer)"),
        (toys.f("a integer"), toys.f("b integer"), "f(integer)"),
        (toys.f("a integer"), toys.f("a bigint"), "f(bigint)"),
        (toys.f("a integer"), toys.f("a integer, b integer DEFAULT 2"), "f(integer,integer)"),
        (toys.f("a integer, b integer DEFAULT 2"), toys.f("a integer"), "f(integer)"),
        (
            toys.f("a integer, b integer DEFAULT 2"),
            toys.f("a integer DEFAULT 1, b integer DEFAULT 2"),
            "f(integer,integer)",
        ),
        (toys.f("a integer DEFAULT 1"), toys.f("a integer"), "f(integer)"),
        (
            toys.f("a integer", "TABLE (x integer)"),
            toys.f("a integer", "TABLE (x integer, y text)", "SELECT 1, ''"),
            "f(integer)",
        ),
        (toys.f("a integer"), toys.f("VARIADIC a integer[]"), "f(integer[])"),
        (toys.returning("f", "a", "integer", "a integer"), toys.returning("f", "b", "text", "b text"), "f(text)"),
    ],
    ids=[
        "result type",
        "name of a parameter",
        "type of a parameter",
        "one more parameter",
        "one parameter fewer",
        "one more default",
        "one default fewer",
        "one more column of the result",
        "variadic",
        "all of it",
    ],
)
async def test_a_function_with_a_new_signature_replaces_the_old_one_and_its_users_are_made_again(
    conn: Connection, before: str, after: str, called: str
) -> None:
    """The function is used by a view, by a function with a parsed body, and by the condition of a trigger."""
    views = {"seen": "SELECT farrier.f(1::smallint) AS one", "seen_again": "SELECT s.one FROM farrier.seen s"}
    users = {"touch": toys.touch()}
    triggers = {"toy.touch": toys.trigger("NEW.id > 0")}
    if "TABLE" in before:
        views["seen"] = "SELECT x AS one FROM farrier.f(1::smallint) f"
    elif "text" not in after:
        users["reads"] = toys.returning("reads", "farrier.f(1::smallint) + 1", "bigint")
        triggers["toy.touch"] = toys.trigger("farrier.f(NEW.id::smallint) > 0")
    if "text" in after and "TABLE" not in after:
        views["seen"] = "SELECT farrier.f('1') AS one"
    await migrate.migrate(conn, schema=schema({"f": before, **users}, views, triggers))
    await migrate.migrate(conn, schema=schema({"f": after, **users}, views, triggers))
    assert await texts(conn, SIGNATURES, "f") == [called]
    assert int(await conn.fetchval("SELECT one FROM farrier.seen_again")) == 1
    if "reads" in users:
        assert await conn.fetchval("SELECT farrier.reads()") == 2
    assert await conn.fetchval("INSERT INTO farrier.toy VALUES (1) RETURNING id") == 1
    assert await texts(conn, "SELECT tgname FROM pg_trigger WHERE tgrelid = 'farrier.toy'::regclass") == ["touch"]
    assert not (await migrate.inspect(conn, schema=schema({"f": after, **users}, views, triggers))).edited


@pytest.mark.parametrize(
    ("functions", "views"),
    [
        ({}, {}),
        ({"h": "SELECT 7"}, {"a": "SELECT farrier.h() AS x"}),
        ({"g": toys.f("a integer", name="g")}, {"b": "SELECT farrier.g(1) AS x"}),
        ({"r": toys.returning("r", "9")}, {}),
    ],
    ids=["all of them", "a changed view no longer uses it", "what used it changed with it", "what used it stays"],
)
async def test_objects_without_a_file_are_dropped_in_the_order_of_their_dependencies(
    conn: Connection, functions: dict[str, str], views: dict[str, str]
) -> None:
    first = schema(
        {"g": "SELECT 7", "r": toys.returning("r", "farrier.g()"), "touch": toys.touch()},
        {
            "a": "SELECT farrier.g() AS x",
            "b": "SELECT a.x + farrier.r() AS x FROM farrier.a",
            "c": "SELECT * FROM farrier.b",
        },
        {"toy.touch": toys.trigger("farrier.g() > 0")},
    )
    second = schema(functions, views)
    await migrate.migrate(conn, schema=first)
    done = await migrate.migrate(conn, schema=second)
    assert "view c" in done.dropped
    assert "trigger toy.touch" in done.dropped
    kept = await conn.fetch("SELECT name FROM farrier.schema_objects WHERE kind IN ('function', 'view')")
    assert {row["name"] for row in kept} == {*functions, *views, "grant_rights"}
    status = await migrate.inspect(conn, schema=second)
    status.require_current()
    assert not status.edited


@pytest.mark.parametrize(
    "after",
    [
        "SELECT id, name FROM farrier.toy",
        "SELECT id, name AS called, size FROM farrier.toy",
        "SELECT id, name, size::bigint AS size FROM farrier.toy",
        "SELECT size, name, id FROM farrier.toy",
        "SELECT id, name, size, 1 AS one FROM farrier.toy",
    ],
    ids=["loses", "renames", "retypes", "reorders", "gets"],
)
async def test_a_view_may_change_its_columns(conn: Connection, after: str) -> None:
    """Another view reads the view, and a function returns the view's row type."""
    users = {"read": toys.f("", "SETOF farrier.seen", "SELECT * FROM farrier.seen", name="read")}
    above = {"above": "SELECT s.id FROM farrier.seen s"}
    await migrate.migrate(conn, schema=schema(users, {"seen": "SELECT id, name, size FROM farrier.toy", **above}))
    await migrate.migrate(conn, schema=schema(users, {"seen": after, **above}))
    await conn.execute(f"CREATE VIEW pg_temp.fresh AS {after}")
    assert await texts(conn, COLUMNS, "farrier.seen") == await texts(conn, COLUMNS, "pg_temp.fresh")
    await conn.execute("INSERT INTO farrier.toy VALUES (1, 'bear', 2)")
    assert (
        await conn.fetchval("SELECT id FROM farrier.above") == await conn.fetchval("SELECT id FROM farrier.read()") == 1
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Objects whose names come before those of the objects that they use, so that the files' order is the wrong one.
        ({}, {"a": toys.returning("a", "farrier.z()"), "z": "SELECT 1"}),
        (
            {"a": toys.returning("a", "1"), "z": toys.f("", "point", "SELECT '(0,0)'::point", name="z")},
            {"a": toys.returning("a", "farrier.z()"), "z": "SELECT 1"},
        ),
        (
            {"a": toys.returning("a", "1"), "z": toys.f("", "integer", name="z")},
            {
                "a": toys.returning("a", "CASE WHEN farrier.z() THEN 1 END"),
                "z": toys.f("", "boolean", "SELECT true", name="z"),
            },
        ),
        (
            {"a": toys.returning("a", "farrier.z()"), "z": "SELECT 2"},
            {"a": "SELECT 1", "z": toys.returning("z", "farrier.a()")},
        ),
        (
            {"a": toys.returning("a", "1"), "z": toys.f("n integer", name="z")},
            {"a": toys.returning("a", "farrier.z(1, 2)"), "z": toys.f("n integer, m integer", name="z")},
        ),
    ],
    ids=["both new", "of another type before", "of another type where it is used", "the other way round", "more"],
)
async def test_functions_are_made_in_the_order_of_their_dependencies(
    conn: Connection, old: dict[str, str], new: dict[str, str]
) -> None:
    await migrate.migrate(conn, schema=schema(old))
    await migrate.migrate(conn, schema=schema(new))
    assert await conn.fetchval("SELECT farrier.a()") == 1


async def test_views_are_made_in_the_order_of_their_dependencies(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema(views={"a": "SELECT 1 AS x", "z": "SELECT a.x FROM farrier.a"}))
    turned = schema(
        {"m": toys.returning("m", "(SELECT max(x) FROM farrier.z)")},
        {"a": "SELECT farrier.m() AS x, 'new' AS y", "z": "SELECT 5 AS x"},
    )
    await migrate.migrate(conn, schema=turned)
    assert await conn.fetchval("SELECT x FROM farrier.a") == 5


async def test_views_above_a_changed_view_are_made_again_in_the_order_of_their_dependencies(
    conn: Connection,
) -> None:
    """The lowest view is dropped with the views above it, of which the middle one has not changed."""
    middle = {"middle": "SELECT l.id FROM farrier.lowest l"}
    before = {"lowest": "SELECT id, name FROM farrier.toy", **middle, "top": "SELECT m.id FROM farrier.middle m"}
    after = {"lowest": "SELECT name, id FROM farrier.toy", **middle, "top": "SELECT m.id, 1 AS x FROM farrier.middle m"}
    await migrate.migrate(conn, schema=schema(views=before))
    await migrate.migrate(conn, schema=schema(views=after))
    await conn.execute("INSERT INTO farrier.toy VALUES (3, 'bear')")
    assert tuple(await conn.fetchrow("SELECT * FROM farrier.top") or ()) == (3, 1)


async def test_a_set_that_cannot_be_made_names_the_object_and_the_reason_and_changes_nothing(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema({"one": "SELECT 1"}))
    before = await places(conn)
    broken = schema({"one": "SELECT 2", "bad": toys.returning("bad", "farrier.nowhere()")})
    with pytest.raises(errors.InternalError, match=r"cannot be created: function bad: function farrier\.nowhere\(\)"):
        await migrate.migrate(conn, schema=broken)
    assert await places(conn) == before


async def test_the_header_of_a_file_is_the_comment_of_its_object(conn: Connection) -> None:
    def commented(text: str) -> Schema:
        return schema(
            {"touch": text + toys.touch()},
            {"seen": f"{text}CREATE OR REPLACE VIEW farrier.seen AS SELECT 1 AS one"},
            {"toy.touch": text + toys.trigger()},
        )

    comments = """
        SELECT obj_description('farrier.touch'::regproc), obj_description('farrier.seen'::regclass),
               (SELECT obj_description(oid, 'pg_trigger') FROM pg_trigger WHERE tgname = 'touch')
    """
    for header, comment in (
        ("-- What it is for,\n-- and why it's so.\n", "What it is for, and why it's so."),
        ("-- Otherwise.\n", "Otherwise."),
        ("", None),
    ):
        await migrate.migrate(conn, schema=commented(header))
        assert tuple(await conn.fetchrow(comments) or ()) == (comment,) * 3


async def test_a_step_may_drop_objects_and_the_set_makes_them_again(conn: Connection) -> None:
    functions = {"reads": toys.returning("reads", "(SELECT max(size) FROM farrier.seen)"), "touch": toys.touch()}
    views, triggers = {"seen": "SELECT id, size FROM farrier.toy"}, {"toy.touch": toys.trigger("NEW.size > 0")}
    await migrate.migrate(conn, schema=schema(functions, views, triggers))
    step = """-- replicas: stop
        DROP FUNCTION farrier.reads; DROP VIEW farrier.seen; DROP TRIGGER touch ON farrier.toy;
        ALTER TABLE farrier.toy ALTER size TYPE bigint;
    """
    later = schema(functions, views, triggers, steps=[step])
    await migrate.migrate(conn, schema=later)
    assert await texts(conn, COLUMNS, "farrier.seen") == ["id integer", "size bigint"]
    assert not (await migrate.inspect(conn, schema=later)).edited
    with pytest.raises(asyncpg.UndefinedFunctionError):
        await conn.execute("SELECT farrier.f()")


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
        changed = {"toy.touch": f"-- Checks.\n{CHECKS}"}
        return schema(functions, triggers=changed, steps=[f"-- replicas: go on\n{step}" for step in steps])

    with pytest.raises(errors.RefusedByModel, match=r"migration 2 \(toy_2\) failed: check_violation"):
        await migrate.migrate(conn, schema=written("NULL"))
    assert (await migrate.migrate(conn, schema=written("2"))).versions == (2, 3)
