"""Objects that were edited by hand in the database: the check names them, and the next migration restores them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from tests.support import pg, toys
from tests.support.catalogs import catalogs

TOUCH = "CREATE OR REPLACE FUNCTION farrier.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"
ONE = """-- What a toy needs.
    CREATE OR REPLACE FUNCTION farrier.one(a integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURN a"""
CHECK_TOUCH = """
    CREATE CONSTRAINT TRIGGER check_touch AFTER INSERT ON farrier.toy DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION farrier.touch();
    ALTER TABLE farrier.toy ENABLE ALWAYS TRIGGER check_touch
"""
SCHEMA = toys.schema(
    {
        "function one": ONE,
        "function two": "SELECT 2",
        "function touch": TOUCH,
        "view seen": "SELECT id, name FROM farrier.toy",
        "view all_seen": "SELECT id FROM farrier.seen",
        "trigger toy.touch": "CREATE OR REPLACE TRIGGER touch BEFORE INSERT ON farrier.toy"
        " FOR EACH ROW EXECUTE FUNCTION farrier.touch()",
        "trigger toy.check_touch": CHECK_TOUCH,
        "rights 0_public": "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC",
    },
    tables="CREATE TABLE farrier.toy (id integer DEFAULT farrier.one(1) CHECK (farrier.one(id) > 0), name text)",
)
MINE = "CREATE FUNCTION farrier.mine() RETURNS integer LANGUAGE sql AS 'SELECT 3'"
BODY = "CREATE OR REPLACE FUNCTION farrier.two() RETURNS integer LANGUAGE sql AS 'SELECT 3'"
OLDER_SERVER = "UPDATE farrier.schema_set SET server = server - 1"


@pytest.fixture
async def conn(every_server: pg.Server) -> AsyncIterator[Connection]:
    async with every_server.copy(pg.EMPTY) as database, database.connect() as conn:
        await migrate.migrate(conn, schema=SCHEMA)
        yield conn


async def edited(conn: Connection) -> tuple[str, ...]:
    return (await migrate.inspect(conn, schema=SCHEMA)).edited


@pytest.mark.matrix(keep=8)
@pytest.mark.parametrize(
    ("by_hand", "named"),
    [
        (BODY, ["function two"]),
        ("ALTER FUNCTION farrier.two SECURITY DEFINER", ["function two"]),
        ("ALTER FUNCTION farrier.two SET work_mem = '1GB'", ["function two"]),
        ("DROP FUNCTION farrier.two", ["function two"]),
        ("ALTER FUNCTION farrier.two RENAME TO three; DROP FUNCTION farrier.three", ["function two"]),
        ("CREATE FUNCTION farrier.two(a text) RETURNS integer LANGUAGE sql AS 'SELECT 3'", ["function two"]),
        ("CREATE FUNCTION farrier.one(a text) RETURNS integer LANGUAGE sql AS 'SELECT 3'", ["function one"]),
        ("CREATE FUNCTION farrier.touch(a text) RETURNS integer LANGUAGE sql AS 'SELECT 3'", ["function touch"]),
        ("CREATE OR REPLACE FUNCTION farrier.one(a integer) RETURNS integer IMMUTABLE RETURN a + 1", ["function one"]),
        ("CREATE OR REPLACE VIEW farrier.seen AS SELECT id, upper(name) AS name FROM farrier.toy", ["view seen"]),
        ("CREATE OR REPLACE VIEW farrier.seen AS SELECT id, name, 1 AS one FROM farrier.toy", ["view seen"]),
        ("ALTER VIEW farrier.seen RENAME name TO called", ["view seen"]),
        ("ALTER VIEW farrier.seen SET (security_barrier)", ["view seen"]),
        ("DROP VIEW farrier.seen CASCADE", ["view all_seen", "view seen"]),
        ("DROP TRIGGER touch ON farrier.toy", ["trigger toy.touch"]),
        ("ALTER TABLE farrier.toy DISABLE TRIGGER touch", ["trigger toy.touch"]),
        ("ALTER TABLE farrier.toy ENABLE TRIGGER check_touch", ["trigger toy.check_touch"]),
        ("DROP FUNCTION farrier.touch CASCADE", ["function touch", "trigger toy.check_touch", "trigger toy.touch"]),
        (
            "CREATE OR REPLACE TRIGGER touch AFTER INSERT ON farrier.toy FOR EACH ROW EXECUTE FUNCTION farrier.touch()",
            ["trigger toy.touch"],
        ),
    ],
)
async def test_an_edit_is_reported_and_reverted_by_the_next_migration(
    conn: Connection, by_hand: str, named: list[str]
) -> None:
    before = await catalogs(conn)
    assert not await edited(conn)
    await conn.execute(by_hand)
    assert sorted(await edited(conn)) == named
    done = await migrate.migrate(conn, schema=SCHEMA)
    assert sorted(done.changed) == named
    assert await catalogs(conn) == before
    assert not await edited(conn)
    (await migrate.check(conn, schema=SCHEMA)).require_current()


async def test_an_edited_object_does_not_stop_the_program(conn: Connection) -> None:
    await conn.execute(BODY)
    (await migrate.inspect(conn, schema=SCHEMA)).require_current()


@pytest.mark.parametrize(
    "by_hand",
    [
        "COMMENT ON FUNCTION farrier.one IS 'mine'; COMMENT ON VIEW farrier.seen IS 'mine'",
        MINE,
        "CREATE VIEW farrier.mine AS SELECT farrier.two(), s.id FROM farrier.seen s",
        "CREATE TRIGGER mine BEFORE INSERT ON farrier.toy FOR EACH ROW EXECUTE FUNCTION farrier.touch()",
        "GRANT SELECT ON farrier.seen TO farrier_worker",
        "CREATE INDEX mine ON farrier.toy (name)",
    ],
    ids=["comment", "function", "view", "trigger", "right", "index"],
)
async def test_additions_of_an_operator_are_no_edit_and_stay(conn: Connection, by_hand: str) -> None:
    await conn.execute(by_hand)
    before = await catalogs(conn)
    assert not await edited(conn)
    assert not await migrate.migrate(conn, schema=SCHEMA)
    assert await catalogs(conn) == before
    await conn.execute("REVOKE SELECT ON farrier.seen FROM farrier_worker")


CONSTANTS = r"""SELECT name, interval '1 day 02:00' AS i, timestamp '2026-03-04 05:06:07' AS t,
    float8 '0.123456789' AS f, bytea '\x00ff' AS b, text 'a\b' AS s FROM farrier.toy"""
WORDED = toys.schema({"view constants": CONSTANTS}, tables="CREATE TABLE farrier.toy (name text)")


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize(
    "setting",
    [
        "quote_all_identifiers = on",
        "IntervalStyle = iso_8601",
        "DateStyle = 'German, DMY'",
        "extra_float_digits = -15",
        "bytea_output = escape",
        "standard_conforming_strings = off",
        "TimeZone = 'Asia/Tokyo'",
        "search_path = pg_catalog",
    ],
)
@pytest.mark.parametrize("of", ["DATABASE", "ROLE"])
async def test_a_setting_that_changes_how_definitions_are_printed_is_no_edit(
    every_server: pg.Server, of: str, setting: str
) -> None:
    async with every_server.copy(pg.EMPTY) as database:
        async with database.connect() as conn:
            await migrate.migrate(conn, schema=WORDED)
            name = await conn.fetchval("SELECT current_database()")
            setter = f"ALTER DATABASE {name}" if of == "DATABASE" else f"ALTER ROLE CURRENT_USER IN DATABASE {name}"
            await conn.execute(f"{setter} SET {setting}")
        async with database.connect() as conn:
            assert not (await migrate.inspect(conn, schema=WORDED)).edited
            assert not await migrate.migrate(conn, schema=WORDED)


async def test_after_a_server_upgrade_missing_objects_are_named_and_the_whole_set_is_applied(
    conn: Connection,
) -> None:
    """Another major version of PostgreSQL may print a definition differently, so definitions cannot be compared."""
    before = await catalogs(conn)
    await conn.execute(f"{BODY}; {OLDER_SERVER}")
    status = await migrate.inspect(conn, schema=SCHEMA)
    assert (status.edited, status.comparable) == ((), False)
    status.require_current()
    await conn.execute("DROP VIEW farrier.all_seen; DROP TRIGGER touch ON farrier.toy")
    assert sorted(await edited(conn)) == ["trigger toy.touch", "view all_seen"]
    assert set((await migrate.migrate(conn, schema=SCHEMA)).changed) == {str(each) for each in SCHEMA.objects}
    assert await catalogs(conn) == before
    assert not await migrate.migrate(conn, schema=SCHEMA)
    assert (await migrate.inspect(conn, schema=SCHEMA)).comparable
