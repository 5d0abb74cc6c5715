"""Replicas go on during a migration only if all functions, columns and rights that they use stay, as the plan says."""

from __future__ import annotations

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from tests.support import toys
from tests.support.toys import GO_ON, SEEN, f, planned_and_done, touch, trigger

conn, schema = toys.conn, toys.of_toy


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f("a integer"), f("a integer", body="SELECT 2 - 1")),
        (f("a integer"), f"-- Says one.\n{f('a integer')}"),
        (f("a integer"), f("a integer,\n    b text DEFAULT '--' -- said (or not\n")),
        (f("a integer"), f("a integer, b numeric(3, 1) DEFAULT 1, c integer DEFAULT abs(-1)")),
        (f("a integer"), f("a integer DEFAULT 1")),
        (f("a integer, b integer DEFAULT 1"), f("a integer, b integer DEFAULT 2")),
        (f("a integer", "TABLE (x integer)"), f("a integer, b integer DEFAULT 2", "TABLE (x integer)")),
        (
            f("a integer", "SETOF integer").replace("AS $$ SELECT 1 $$", "BEGIN ATOMIC SELECT 1; END"),
            f("a integer", "SETOF integer"),
        ),
    ],
    ids=["body", "comment", "parameter", "parameters", "default", "other default", "of a table", "parsed body"],
)
async def test_replicas_go_on_if_every_call_of_a_function_stays_valid(
    conn: Connection, before: str, after: str
) -> None:
    await migrate.migrate(conn, schema=schema({"f": before}))
    call = "SELECT f.*, pg_typeof(f.*) FROM farrier.f(1) f"
    called = await conn.fetchrow(call)
    plan = await planned_and_done(conn, schema({"f": after}))
    assert plan.stops == ()
    assert await conn.fetchrow(call) == called


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f("a integer"), f("a integer, b integer")),
        (f("a integer"), f("b integer DEFAULT 1, a integer DEFAULT 1")),
        (f("a integer"), f("a bigint")),
        (f("a integer"), f("b integer")),
        (f("a integer"), f("a integer", "bigint")),
        (f("a integer"), f("a integer", "SETOF integer")),
        (f("a integer DEFAULT 1"), f("a integer")),
        (f("a text DEFAULT '--', b integer DEFAULT 1"), f("a text DEFAULT '--', b bigint DEFAULT 1")),
        (f("a integer, b integer DEFAULT 1"), f("a integer")),
        (f("a integer", "TABLE (x integer)"), f("a integer", "TABLE (x integer, y integer)", "SELECT 1, 2")),
        (f("a integer"), f("a integer, VARIADIC b integer[] DEFAULT '{}'")),
        (
            f("a integer, OUT b integer").replace("RETURNS integer", ""),
            f("a integer, OUT b integer, OUT c integer", "record", "SELECT 1, 2"),
        ),
    ],
    ids=[
        "one without a default",
        "one before",
        "type",
        "name",
        "result",
        "set",
        "default gone",
        "type behind what looks like a comment",
        "one gone",
        "column",
        "variadic",
        "out",
    ],
)
async def test_a_function_with_another_signature_stops_replicas(conn: Connection, before: str, after: str) -> None:
    await migrate.migrate(conn, schema=schema({"f": before}))
    (reason,) = (await planned_and_done(conn, schema({"f": after}))).stops
    assert reason.startswith("function f(")


async def test_a_function_whose_signature_cannot_be_parsed_stops_replicas(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema({"f": f("a integer")}))
    strangely = f("a integer").replace(" LANGUAGE sql", " STABLE\nCOST 1 LANGUAGE sql")
    odd = f"-- Odd.\n{strangely}".replace("FUNCTION farrier.f(", 'FUNCTION farrier."f" (')
    (reason,) = (await planned_and_done(conn, schema({"f": odd}))).stops
    assert reason == "the parameters and the result of function f cannot be compared"


async def test_a_dropped_function_stops_replicas_unless_it_is_a_trigger_s(conn: Connection) -> None:
    await migrate.migrate(
        conn, schema=schema({"f": f("a integer"), "touch": touch()}, triggers={"toy.touch": trigger()})
    )
    assert (await planned_and_done(conn, schema({"f": f("a integer")}))).stops == ()
    assert (await planned_and_done(conn, schema())).stops == ("function f is dropped",)


@pytest.mark.parametrize(
    ("after", "stops"),
    [
        ("SELECT id, name, size FROM farrier.toy", ()),
        ("SELECT id, name FROM farrier.toy WHERE id > 0", ()),
        ("SELECT name, id FROM farrier.toy", ("view seen changes the order of its columns",)),
        ("SELECT id FROM farrier.toy", ("view seen loses column name",)),
        ("SELECT id, name AS called FROM farrier.toy", ("view seen loses column name",)),
        ("SELECT id, name::varchar(9) AS name FROM farrier.toy", ("view seen changes the type of column name",)),
        (
            "SELECT id::bigint AS id FROM farrier.toy",
            ("view seen loses column name", "view seen changes the type of column id"),
        ),
        (None, ("view seen is dropped",)),
    ],
    ids=["one more", "other rows", "other order", "one fewer", "renamed", "other type", "both", "dropped"],
)
async def test_a_view_that_loses_or_retypes_a_column_stops_replicas(
    conn: Connection, after: str | None, stops: tuple[str, ...]
) -> None:
    await migrate.migrate(conn, schema=schema(views={"seen": SEEN}))
    assert (await planned_and_done(conn, schema(views={"seen": after} if after else {}))).stops == stops


async def test_a_view_whose_columns_need_a_step_first_stops_replicas_and_the_plan_says_why(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema(views={"seen": SEEN}))
    later = schema(views={"seen": "SELECT id, name, age FROM farrier.toy"}, steps=(GO_ON,))
    (reason,) = (await planned_and_done(conn, later)).stops
    assert reason == 'the columns of view seen are known only after the migration: column "age" does not exist'


async def test_a_view_whose_file_has_more_than_a_query_stops_replicas(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema(views={"seen": SEEN}))
    guarded = f"CREATE OR REPLACE VIEW farrier.seen WITH (security_barrier) AS {SEEN}"
    (reason,) = (await planned_and_done(conn, schema(views={"seen": guarded}))).stops
    assert "its file contains more than the query" in reason


@pytest.mark.parametrize(
    ("before", "after", "stops"),
    [
        ("", "GRANT SELECT ON farrier.toy TO farrier_reader", ()),
        (
            "GRANT SELECT ON farrier.toy TO farrier_reader",
            "GRANT SELECT ON farrier.seen, farrier.toy TO farrier_reader",
            (),
        ),
        (
            "GRANT SELECT (id) ON farrier.toy TO farrier_reader",
            "GRANT SELECT (id, name) ON farrier.toy TO farrier_reader",
            (),
        ),
        ("", "REVOKE EXECUTE ON FUNCTION farrier.new FROM farrier_reader CASCADE", ()),
        ("GRANT EXECUTE ON FUNCTION farrier.gone TO farrier_reader", "", ("function gone is dropped",)),
        (
            "GRANT SELECT, INSERT ON farrier.toy TO farrier_reader",
            "GRANT SELECT ON farrier.toy TO farrier_reader",
            ("farrier_reader may lose INSERT ON farrier.toy",),
        ),
        (
            "GRANT SELECT ON farrier.toy, farrier.seen TO farrier_reader",
            "",
            ("farrier_reader may lose SELECT ON farrier.seen, SELECT ON farrier.toy",),
        ),
        (
            "",
            "REVOKE EXECUTE ON FUNCTION farrier.same FROM farrier_reader CASCADE",
            ("farrier_reader may lose EXECUTE ON FUNCTION farrier.same",),
        ),
        (
            "",
            "ALTER TABLE farrier.toy OWNER TO CURRENT_USER",
            ("a role may lose ALTER TABLE farrier.toy OWNER TO CURRENT_USER",),
        ),
    ],
    ids=[
        "more",
        "one more table",
        "one more column",
        "new function",
        "dropped function",
        "one fewer",
        "none",
        "revoked",
        "odd",
    ],
)
async def test_a_role_that_may_do_less_stops_replicas(
    conn: Connection, before: str, after: str, stops: tuple[str, ...]
) -> None:
    gone = {"gone": "SELECT 1"} if "gone" in before else {}
    await migrate.migrate(conn, schema=schema({"same": "SELECT 1", **gone}, {"seen": SEEN}, rights=before))
    wanted = schema({"same": "SELECT 1", "new": "SELECT 1"}, {"seen": SEEN}, rights=after)
    assert (await planned_and_done(conn, wanted)).stops == stops
