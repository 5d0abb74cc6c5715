"""An operator's object with the name of an object of farrier is neither replaced nor dropped silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from farrier import errors
from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema import plan as schema_plan
from farrier.io.schema.files import Schema
from tests.support import toys
from tests.support.catalogs import places
from tests.support.toys import planned_and_done

conn = toys.conn


def schema(functions: Mapping[str, str] | None = None, *others: Mapping[str, str], steps: Sequence[str] = ()) -> Schema:
    """A schema whose functions include one for triggers."""
    return toys.of_toy({"touch": toys.touch(), **(functions or {})}, *others, steps=steps)


async def refused(conn: Connection, wanted: Schema) -> errors.RefusedByModel:
    """The migration's refusal, after asserting that its plan refuses likewise and that nothing has changed."""
    before = await places(conn)
    plan = await schema_plan.plan(conn, schema=wanted)
    with pytest.raises(errors.RefusedByModel) as planned:
        plan.require_free_way()
    with pytest.raises(errors.RefusedByModel) as done:
        await migrate.migrate(conn, schema=wanted)
    assert (planned.value.text, planned.value.hint) == (done.value.text, done.value.hint)
    assert await places(conn) == before
    return done.value


F, SEEN, TOUCHED = schema({"f": "SELECT 1"}), schema({}, {"seen": "SELECT 1 AS x"}), {"toy.touch": toys.trigger()}


@pytest.mark.parametrize(
    ("by_hand", "wanted", "named"),
    [
        ("CREATE FUNCTION farrier.f() RETURNS integer RETURN 7", F, "function f() has the same name as function f"),
        (
            "CREATE FUNCTION farrier.f(x text) RETURNS text RETURN x",
            F,
            "function f(text) has the same name as function f",
        ),
        ("CREATE PROCEDURE farrier.f() LANGUAGE sql AS ''", F, "f() has the same name as function f"),
        ("CREATE AGGREGATE farrier.f(integer) (SFUNC = int4pl, STYPE = integer)", F, "f(integer) has the same name as"),
        ("CREATE VIEW farrier.seen AS SELECT 7 AS x", SEEN, "view seen has the same name as view seen"),
        (
            "CREATE MATERIALIZED VIEW farrier.seen AS SELECT 7 AS x",
            SEEN,
            "materialized view seen has the same name as view",
        ),
        ("CREATE TABLE farrier.seen (x integer)", SEEN, "table seen has the same name as view seen"),
        ("CREATE DOMAIN farrier.seen AS integer", SEEN, "type seen has the same name as view seen"),
        (
            toys.trigger("false"),
            schema({}, {}, TOUCHED),
            "trigger touch on table toy has the same name as trigger toy.tou",
        ),
    ],
)
async def test_an_operators_object_is_not_replaced_by_a_new_object_of_the_same_name(
    conn: Connection, by_hand: str, wanted: Schema, named: str
) -> None:
    await migrate.migrate(conn, schema=schema())
    await conn.execute(by_hand)
    refusal = await refused(conn, wanted)
    assert named in refusal.text
    assert refusal.hint == "Rename or drop the object, then migrate."


async def test_the_refusal_names_every_object_with_a_name_of_the_set(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema())
    await conn.execute("CREATE FUNCTION farrier.f() RETURNS integer RETURN 7")
    await conn.execute("CREATE VIEW farrier.seen AS SELECT 1 AS x")
    refusal = await refused(conn, schema({"f": "SELECT 1"}, {"seen": "SELECT 1 AS x"}))
    assert "function f() has" in refusal.text
    assert "view seen has" in refusal.text


async def test_an_object_with_a_name_of_the_set_blocks_the_first_migration_too(conn: Connection) -> None:
    await conn.execute("CREATE SCHEMA farrier; CREATE FUNCTION farrier.f() RETURNS integer RETURN 7")
    plan = await schema_plan.plan(conn, schema=F)
    with pytest.raises(errors.RefusedByModel, match="function f\\(\\) has the same name as function f"):
        plan.require_free_way()
    with pytest.raises(errors.RefusedByModel, match="function f\\(\\) has the same name as function f"):
        await migrate.migrate(conn, schema=F)
    await conn.execute("DROP FUNCTION farrier.f()")
    assert await migrate.migrate(conn, schema=F)


@pytest.mark.parametrize(
    ("by_hand", "named"),
    [
        ("DROP VIEW farrier.seen; CREATE MATERIALIZED VIEW farrier.seen AS SELECT 1 AS x", "materialized view seen"),
        ("DROP VIEW farrier.seen; CREATE TABLE farrier.seen (x integer)", "table seen"),
        ("DROP FUNCTION farrier.f(); CREATE PROCEDURE farrier.f() LANGUAGE sql AS ''", "f()"),
    ],
    ids=["materialized view", "table", "procedure"],
)
async def test_an_object_of_another_sort_with_a_name_of_the_set_is_refused(
    conn: Connection, by_hand: str, named: str
) -> None:
    wanted = schema({"f": "SELECT 1"}, {"seen": "SELECT 1 AS x"})
    await migrate.migrate(conn, schema=wanted)
    await conn.execute(by_hand)
    assert f"{named} has the same name as" in (await refused(conn, wanted)).text


async def test_a_name_that_a_step_frees_is_not_in_the_way(conn: Connection) -> None:
    await migrate.migrate(conn, schema=schema())
    await conn.execute("CREATE FUNCTION farrier.f() RETURNS integer RETURN 7")
    wanted = schema({"f": "SELECT 1"}, steps=("-- replicas: go on\nDROP FUNCTION farrier.f()",))
    plan = await schema_plan.plan(conn, schema=wanted)
    assert [each.unless for each in plan.namesakes] == ["migration 2 changes that"]
    plan.require_free_way()
    await migrate.migrate(conn, schema=wanted)
    assert await conn.fetchval("SELECT farrier.f()") == 1


BY_HAND = "CREATE FUNCTION farrier.f(x text) RETURNS text RETURN x;"
F_EDITED = "CREATE OR REPLACE FUNCTION farrier.f() RETURNS integer LANGUAGE sql AS $$ SELECT 2 $$;"


@pytest.mark.parametrize(
    ("by_hand", "wanted", "dropped"),
    [
        (BY_HAND, F, ("function f(text)",)),
        (BY_HAND, schema({"f": "SELECT 2"}), ("function f(text)",)),
        (BY_HAND, schema({"f": toys.f("a integer")}), ("function f(text)",)),
        (BY_HAND, schema({"f": toys.f("x text", "text", "SELECT $1")}), ("function f(text)",)),
        (BY_HAND, schema(), ("function f", "function f(text)")),
        (f"{BY_HAND} {F_EDITED}", F, ("function f(text)",)),
        (f"{BY_HAND} UPDATE farrier.schema_set SET server = server - 1", F, ("function f(text)",)),
        (
            f"{BY_HAND} CREATE FUNCTION farrier.f(x date) RETURNS date RETURN x",
            F,
            ("function f(date)", "function f(text)"),
        ),
        (F_EDITED, F, ()),
        (F_EDITED, schema({"f": toys.f("a integer")}), ()),
        (f"DROP FUNCTION farrier.f(); {BY_HAND}", F, ()),
    ],
    ids=[
        "unchanged",
        "another body",
        "other parameters",
        "its own parameters",
        "no such function any more",
        "edited too",
        "another server",
        "two",
        "edited only",
        "edited only, other parameters",
        "instead of it",
    ],
)
async def test_an_operators_overload_that_is_dropped_is_in_the_plan_and_in_the_report(
    conn: Connection, by_hand: str, wanted: Schema, dropped: tuple[str, ...]
) -> None:
    await migrate.migrate(conn, schema=F)
    await conn.execute(by_hand)
    assert (await planned_and_done(conn, wanted)).would.dropped == dropped
    assert not await migrate.migrate(conn, schema=wanted)


async def test_a_foreign_view_on_an_overload_that_is_dropped_is_in_the_way(conn: Connection) -> None:
    await migrate.migrate(conn, schema=F)
    await conn.execute(f"{BY_HAND} CREATE SCHEMA theirs; CREATE VIEW theirs.v AS SELECT farrier.f('a')")
    (obstacle,) = (await schema_plan.plan(conn, schema=F)).in_the_way
    assert str(obstacle) == "view theirs.v depends on function f(text), which must be dropped and created again"
    with pytest.raises(errors.RefusedByModel, match=r"view theirs\.v depends on it"):
        await migrate.migrate(conn, schema=F)
