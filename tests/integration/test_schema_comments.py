"""Comments in the files of tables become comments in the database, in a new and in an upgraded one."""

from __future__ import annotations

from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from tests.support import pg, toys

TOYS = """\
-- The header of the file.

-- Toys, by name;
-- each once.
CREATE UNLOGGED TABLE farrier.toy (
    id     integer PRIMARY KEY,
    name   text,  -- what a child calls it,
                  -- 'quoted'
    colour text
           CHECK (colour <> ''),  -- 'red' or 'green'
    -- About the next line.
    made   timestamptz,
    CONSTRAINT toy_name CHECK (name <> '')  -- not a comment of a column
) WITH (
    fillfactor = 50  -- nor this one
);
CREATE INDEX toy_name ON farrier.toy (name);

CREATE TABLE farrier.bear (
    LIKE farrier.toy INCLUDING ALL,
    fur text  -- its length
);
ALTER TABLE farrier.bear ALTER name SET NOT NULL;  -- what a bear is called
"""
COMMENTS = {
    "toy": "Toys, by name; each once.",
    "toy.name": "what a child calls it, 'quoted'",
    "toy.colour": "'red' or 'green'",
    "bear.name": "what a bear is called",
    "bear.colour": "'red' or 'green'",
    "bear.fur": "its length",
}
COMMENTED = """
    SELECT concat_ws('.', c.relname, a.attname) AS name, d.description
      FROM pg_description d JOIN pg_class c ON c.oid = d.objoid AND d.classoid = 'pg_class'::regclass
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
     WHERE c.relname = ANY ($1)
"""
SILENT = """
    SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'r' AND obj_description(c.oid, 'pg_class') IS NULL
"""


async def commented(conn: Connection) -> dict[str, str]:
    return {row["name"]: row["description"] for row in await conn.fetch(COMMENTED, ["toy", "bear"])}


async def test_comments_of_tables_and_columns_arrive_in_a_new_database(empty_db: pg.Database) -> None:
    async with empty_db.connect() as conn:
        await migrate.migrate(conn, schema=toys.schema(tables=TOYS))
        assert await commented(conn) == COMMENTS


async def test_an_upgraded_database_gets_the_comments_of_the_new_release(empty_db: pg.Database) -> None:
    before = "CREATE TABLE farrier.bear (\n    fur text  -- its length\n);\n"
    after = "-- Bears.\nCREATE TABLE farrier.bear (\n    fur text,\n    paws integer  -- four\n);\n"
    step = "-- replicas: go on\nALTER TABLE farrier.bear ADD paws integer;"
    async with empty_db.connect() as conn:
        await migrate.migrate(conn, schema=toys.schema(tables=before))
        assert await commented(conn) == {"bear.fur": "its length"}
        await migrate.migrate(conn, schema=toys.schema(tables=after, steps=[step]))
        assert await commented(conn) == {"bear": "Bears.", "bear.paws": "four"}


async def test_a_corrected_comment_arrives_without_a_change_of_the_tables(empty_db: pg.Database) -> None:
    async with empty_db.connect() as conn:
        await migrate.migrate(conn, schema=toys.schema(tables=TOYS))
        corrected = toys.schema(tables=TOYS.replace("its length", "its length in mm"))
        await migrate.migrate(conn, schema=corrected)
        assert await commented(conn) == COMMENTS | {"bear.fur": "its length in mm"}
        (await migrate.check(conn, schema=corrected)).require_current()


async def test_every_table_has_a_comment(db: pg.Database) -> None:
    async with db.connect() as conn:
        assert await conn.fetch(SILENT) == []
