"""Rights on farrier's objects: farrier's roles have exactly those of the files, and an operator's grants stay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema.files import Schema
from tests.support import pg, toys

TABLE = "CREATE TABLE farrier.toy (id integer PRIMARY KEY, name text)"
F = "CREATE OR REPLACE FUNCTION farrier.f(a integer) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$"
F_REPLACED = F.replace("SELECT 1", "SELECT 2")
F_ANEW = F.replace("a integer", "a integer, b integer DEFAULT 2")
SEEN = "SELECT id, name FROM farrier.toy"
SEEN_REPLACED = "SELECT id, name, farrier.f(1) AS f FROM farrier.toy"
SEEN_ANEW = "SELECT name, id FROM farrier.toy"
DROP_SEEN = "-- replicas: go on\nDROP VIEW farrier.seen; ALTER TABLE farrier.toy ALTER name TYPE varchar(9)"

# The rights of roles other than the owner; `*` marks a right with grant option.
RIGHTS = """
    SELECT a.grantee, a.privilege_type || CASE WHEN a.is_grantable THEN '*' ELSE '' END || ' on ' || a.what
      FROM (
        SELECT x.*, p.proname AS what FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
         WHERE p.pronamespace = 'farrier'::regnamespace AND x.grantee <> p.proowner
        UNION ALL
        SELECT x.*, c.relname FROM pg_class c, aclexplode(c.relacl) x
         WHERE c.relnamespace = 'farrier'::regnamespace AND x.grantee <> c.relowner
        UNION ALL
        SELECT x.*, c.relname || '.' || t.attname
          FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid, aclexplode(t.attacl) x
         WHERE c.relnamespace = 'farrier'::regnamespace) a
     WHERE a.grantee = coalesce(to_regrole($1), 0)
"""

OWNERS = """
    SELECT DISTINCT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'farrier'::regnamespace
    UNION
    SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'farrier'::regnamespace
"""


@pytest.fixture
async def conn(empty_db: pg.Database) -> AsyncIterator[Connection]:
    async with empty_db.connect() as conn:
        await migrate.create_roles(conn)
        yield conn


@pytest.fixture
async def operator(conn: Connection) -> AsyncIterator[str]:
    """A role that an operator made for a program of their own."""
    name = f"theirs_in_{await conn.fetchval('SELECT current_database()')}"
    await conn.execute(f"CREATE ROLE {name}; CREATE ROLE {name}_too")
    yield name
    await conn.execute(f"DROP OWNED BY {name}, {name}_too CASCADE; DROP ROLE {name}, {name}_too")


async def rights(conn: Connection, role: str) -> set[str]:
    """The rights of a role; `public` for those of all roles."""
    return {row[1] for row in await conn.fetch(RIGHTS, role)}


def schema(
    functions: Mapping[str, str] | None = None,
    view: str = SEEN,
    *,
    granted: Mapping[str, str] | None = None,
    steps: tuple[str, ...] = (),
) -> Schema:
    nobody = {
        "0_public": "REVOKE ALL ON ALL TABLES IN SCHEMA farrier FROM PUBLIC;"
        " REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC"
    }
    views = {"seen": view} if view else {}
    objects = toys.named(functions or {"f": F}, views, rights=nobody | dict(granted or {}))
    return toys.schema(objects, tables=TABLE, steps=steps)


def reader(*grants: str) -> dict[str, str]:
    return {"farrier_reader": "".join(f"GRANT {grant} TO farrier_reader;\n" for grant in grants)}


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (reader("SELECT ON farrier.toy", "SELECT ON farrier.seen"), reader("SELECT ON farrier.toy"), {"SELECT on toy"}),
        (reader("SELECT ON farrier.toy, farrier.seen"), reader("SELECT ON farrier.seen"), {"SELECT on seen"}),
        (reader("SELECT, UPDATE ON farrier.toy"), reader("SELECT ON farrier.toy"), {"SELECT on toy"}),
        (reader("SELECT ON farrier.toy"), reader("SELECT (id) ON farrier.toy"), {"SELECT on toy.id"}),
        (reader("SELECT (id, name) ON farrier.toy"), reader("SELECT (id) ON farrier.toy"), {"SELECT on toy.id"}),
        (
            reader("EXECUTE ON FUNCTION farrier.f, farrier.grant_rights"),
            reader("EXECUTE ON FUNCTION farrier.f"),
            {"EXECUTE on f"},
        ),
        (
            reader("EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier"),
            reader("EXECUTE ON FUNCTION farrier.f"),
            {"EXECUTE on f"},
        ),
        (reader("SELECT ON farrier.toy"), {}, set()),
    ],
    ids=["a line", "an object", "a privilege", "columns", "a column", "a function", "all functions", "a role"],
)
async def test_rights_that_the_set_no_longer_grants_are_revoked(
    conn: Connection, before: dict[str, str], after: dict[str, str], left: set[str]
) -> None:
    await migrate.migrate(conn, schema=schema(granted=before))
    assert left != await rights(conn, "farrier_reader")
    assert await migrate.migrate(conn, schema=schema(granted=after))
    assert await rights(conn, "farrier_reader") == left
    (await migrate.check(conn, schema=schema(granted=after))).require_current()


@pytest.mark.parametrize(
    "by_hand",
    [
        "DROP VIEW farrier.seen",
        "CREATE FUNCTION farrier.f(text) RETURNS integer LANGUAGE sql AS 'SELECT 3'",
        "DROP FUNCTION farrier.f(integer)",
    ],
)
async def test_changes_by_hand_do_not_keep_a_right_from_being_revoked(conn: Connection, by_hand: str) -> None:
    before = reader("SELECT ON farrier.seen, farrier.toy", "EXECUTE ON FUNCTION farrier.f, farrier.grant_rights")
    await migrate.migrate(conn, schema=schema(granted=before))
    await conn.execute(by_hand)
    await migrate.migrate(conn, schema=schema(granted=reader("SELECT ON farrier.seen")))
    assert await rights(conn, "farrier_reader") == {"SELECT on seen"}


async def test_rights_on_a_dropped_object_are_dropped_with_it(conn: Connection) -> None:
    granted = reader("EXECUTE ON FUNCTION farrier.f", "SELECT ON farrier.seen, farrier.toy")
    await migrate.migrate(conn, schema=schema(granted=granted))
    await migrate.migrate(conn, schema=schema({"g": "SELECT 1"}, "", granted=reader("SELECT ON farrier.toy")))
    assert await rights(conn, "farrier_reader") == {"SELECT on toy"}


@pytest.mark.parametrize(
    ("functions", "view", "steps"),
    [
        ({"f": F_REPLACED}, SEEN, ()),
        ({"f": F_REPLACED}, SEEN_REPLACED, ()),
        ({"f": F_ANEW}, SEEN, ()),
        ({"f": F}, SEEN_ANEW, ()),
        ({"f": F_ANEW}, SEEN_ANEW, ()),
        ({"f": F}, SEEN, (DROP_SEEN,)),
        ({"f": F_ANEW}, SEEN_ANEW, (DROP_SEEN,)),
    ],
    ids=["body", "in place", "signature", "columns", "both", "step", "all of it"],
)
async def test_grants_of_an_operator_stay(
    conn: Connection, operator: str, functions: dict[str, str], view: str, steps: tuple[str, ...]
) -> None:
    await migrate.migrate(conn, schema=schema())
    await conn.execute(f"""
        GRANT EXECUTE ON FUNCTION farrier.f TO {operator} WITH GRANT OPTION;
        GRANT SELECT, TRIGGER ON farrier.seen TO {operator}; GRANT SELECT ON farrier.toy TO {operator};
        GRANT SELECT (name), UPDATE (id) ON farrier.seen TO {operator}_too WITH GRANT OPTION;
        GRANT USAGE ON SCHEMA farrier TO {operator};
        SET ROLE {operator}; GRANT EXECUTE ON FUNCTION farrier.f TO {operator}_too; RESET ROLE;
    """)
    before = [await rights(conn, role) for role in (operator, f"{operator}_too")]
    assert before == [
        {"EXECUTE* on f", "SELECT on seen", "TRIGGER on seen", "SELECT on toy"},
        {"SELECT* on seen.name", "UPDATE* on seen.id", "EXECUTE on f"},
    ]
    assert await migrate.migrate(conn, schema=schema(functions, view, steps=steps))
    assert [await rights(conn, role) for role in (operator, f"{operator}_too")] == before


async def test_a_right_on_a_column_ends_with_the_column(conn: Connection, operator: str) -> None:
    await migrate.migrate(conn, schema=schema())
    await conn.execute(f"GRANT SELECT (id), SELECT (name) ON farrier.seen TO {operator}")
    await migrate.migrate(conn, schema=schema(view="SELECT id FROM farrier.toy"))
    assert await rights(conn, operator) == {"SELECT on seen.id"}


@pytest.mark.parametrize("made", [F_REPLACED, F_ANEW], ids=["in place", "anew"])
async def test_a_right_that_the_set_revokes_from_a_role_is_revoked(conn: Connection, made: str) -> None:
    every = "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;\n"
    await migrate.migrate(conn, schema=schema(granted={"farrier_controller": every}))
    but = f"{every}REVOKE EXECUTE ON FUNCTION farrier.f FROM farrier_controller;\n"
    await migrate.migrate(conn, schema=schema({"f": made}, granted={"farrier_controller": but}))
    assert await rights(conn, "farrier_controller") == {"EXECUTE on grant_rights"}


async def test_a_revoked_right_is_also_revoked_from_roles_to_which_it_was_passed_on(
    conn: Connection, operator: str
) -> None:
    every = "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;\n"
    but = f"{every}REVOKE EXECUTE ON FUNCTION farrier.f FROM farrier_controller CASCADE;\n"
    granted = {"farrier_controller": every, **reader("SELECT ON farrier.toy")}
    await migrate.migrate(conn, schema=schema(granted=granted))
    await conn.execute(f"""
        GRANT USAGE ON SCHEMA farrier TO farrier_reader, farrier_controller;
        GRANT SELECT ON farrier.toy TO farrier_reader WITH GRANT OPTION;
        GRANT EXECUTE ON FUNCTION farrier.f TO farrier_controller WITH GRANT OPTION;
        SET ROLE farrier_reader; GRANT SELECT ON farrier.toy TO {operator}, {operator}_too; RESET ROLE;
        SET ROLE farrier_controller; GRANT EXECUTE ON FUNCTION farrier.f TO {operator}; RESET ROLE;
        GRANT SELECT ON farrier.toy TO {operator}_too;
    """)
    assert await rights(conn, operator) == {"SELECT on toy", "EXECUTE on f"}
    await migrate.migrate(conn, schema=schema(granted={"farrier_controller": but}))
    for role in ("farrier_reader", operator):
        assert await rights(conn, role) == set()
    assert await rights(conn, f"{operator}_too") == {"SELECT on toy"}


@pytest.mark.parametrize("made", [F_REPLACED, F_ANEW], ids=["in place", "anew"])
async def test_grants_to_public_on_farriers_objects_are_revoked(conn: Connection, made: str) -> None:
    await migrate.migrate(conn, schema=schema())
    await conn.execute("""
        GRANT SELECT ON farrier.toy, farrier.seen TO PUBLIC; GRANT SELECT (id) ON farrier.seen TO PUBLIC;
        GRANT EXECUTE ON FUNCTION farrier.f TO PUBLIC
    """)
    await migrate.migrate(conn, schema=schema({"f": made}, SEEN_ANEW))
    assert await rights(conn, "public") == set()


@pytest.mark.parametrize("after", [F, F_REPLACED, F_ANEW], ids=["unchanged", "in place", "anew"])
async def test_objects_of_an_operator_in_the_schema_keep_their_rights(conn: Connection, after: str) -> None:
    every = "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;\n"
    await migrate.migrate(conn, schema=schema())
    await conn.execute("""
        CREATE FUNCTION farrier.mine() RETURNS integer RETURN 1;
        CREATE TABLE farrier.my_table (); CREATE VIEW farrier.my_view AS SELECT 1 AS one;
        GRANT SELECT ON farrier.my_table, farrier.my_view, farrier.toy, farrier.seen TO PUBLIC;
        CREATE FUNCTION farrier.not_for_all() RETURNS integer RETURN 1;
        REVOKE EXECUTE ON FUNCTION farrier.not_for_all FROM PUBLIC;
    """)
    await migrate.migrate(conn, schema=schema({"f": after}, granted={"farrier_controller": every}))
    assert await rights(conn, "public") == {"EXECUTE on mine", "SELECT on my_table", "SELECT on my_view"}
    assert await rights(conn, "farrier_controller") == {"EXECUTE on f", "EXECUTE on grant_rights"}


@pytest.fixture
async def owner(conn: Connection) -> AsyncIterator[str]:
    """An ordinary user who owns the schema."""
    database = await conn.fetchval("SELECT current_database()")
    name = f"owner_of_{database}"
    await conn.execute(f"CREATE ROLE {name}; GRANT CREATE ON DATABASE {database} TO {name}; SET ROLE {name}")
    await migrate.migrate(conn, schema=schema())
    await conn.execute("RESET ROLE")
    yield name
    await conn.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


async def test_objects_that_a_superuser_creates_belong_to_the_owner_of_the_schema(conn: Connection, owner: str) -> None:
    """The owner must be able to replace the object, and SECURITY DEFINER functions must run with the owner's rights."""
    await migrate.migrate(conn, schema=schema({"f": F_ANEW}, SEEN_ANEW))
    assert {row[0] for row in await conn.fetch(OWNERS)} == {owner}
    assert await conn.fetchval("SELECT current_user") != owner


async def test_an_operators_view_on_a_foreign_table_does_not_stop_a_migration(conn: Connection, owner: str) -> None:
    await conn.execute(f"""
        CREATE SCHEMA theirs; CREATE TABLE theirs.t (id integer);
        GRANT USAGE ON SCHEMA theirs TO {owner}; GRANT SELECT ON theirs.t TO {owner};
        SET ROLE {owner};
        CREATE VIEW farrier.mine AS SELECT id FROM theirs.t;
    """)
    try:
        assert await migrate.migrate(conn, schema=schema(view=SEEN_ANEW))
    finally:
        await conn.execute("RESET ROLE")
