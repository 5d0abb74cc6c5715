"""A migrated database has exactly the objects of the schema's files, with the comments in them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from farrier.io.schema.files import ObjectKind
from tests.support import pg, toys

# Without the functions that come with a range type.
FUNCTIONS = """
    SELECT p.proname, p.prosrc FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
     WHERE p.pronamespace = 'farrier'::regnamespace AND l.lanname <> 'internal'
"""
VIEWS = "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('v', 'm')"
# Without the triggers that make_kind makes on the tables of kinds, which have no files.
TRIGGERS = """
    SELECT c.relname || '.' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'farrier'::regnamespace AND NOT t.tgisinternal
       AND NOT (t.tgrelid IN (SELECT k.relation FROM farrier.kinds k WHERE k.from_template)
                AND t.tgname IN ('begin_resource', 'enqueue_resource', 'enter_state'))
"""
QUOTED = re.compile(r"\sAS (\$\w*\$)(.*)\1;", re.DOTALL)


@pytest.fixture
async def conn(every_server: pg.Server) -> AsyncIterator[Connection]:
    async with every_server.copy(pg.EMPTY) as database, database.connect() as conn:
        await migrate.migrate(conn, after=catalog.sync)
        yield conn


def files(kind: ObjectKind) -> dict[str, str]:
    return {each.name: each.source for each in migrate.carried().objects if each.kind is kind}


async def test_every_function_has_the_body_in_its_file(conn: Connection) -> None:
    """Compares bodies that PostgreSQL stores as text; a parsed body it prints in its own form."""
    found = await conn.fetch(FUNCTIONS)
    assert sorted(row["proname"] for row in found) == sorted(files(ObjectKind.FUNCTION))
    bodies = {name: QUOTED.search(text) for name, text in files(ObjectKind.FUNCTION).items()}
    assert {row["proname"]: row["prosrc"] for row in found} == {
        name: body.group(2) if body else "" for name, body in bodies.items()
    }
    assert len([body for body in bodies.values() if body]) > 100


async def test_every_view_and_trigger_has_a_file(conn: Connection) -> None:
    assert {row[0] for row in await conn.fetch(VIEWS)} == files(ObjectKind.VIEW).keys()
    assert {row[0] for row in await conn.fetch(TRIGGERS)} == files(ObjectKind.TRIGGER).keys()


def test_a_view_names_its_columns() -> None:
    """A star stands for the columns that the table has when the view is created: after a new column, an existing view
    would differ from that of a new database."""
    assert not [name for name, text in files(ObjectKind.VIEW).items() if re.search(r"(\.|SELECT )\*", text)]


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
        assert not await migrate.migrate(conn, schema=corrected)
        assert await commented(conn) == COMMENTS | {"bear.fur": "its length in mm"}
        (await migrate.check(conn, schema=corrected)).require_current()


async def test_every_table_has_a_comment(db: pg.Database) -> None:
    async with db.connect() as conn:
        assert await conn.fetch(SILENT) == []
