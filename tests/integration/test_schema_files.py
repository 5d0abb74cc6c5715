"""A migrated database has exactly the objects of the schema's files."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from farrier.io.schema.files import ObjectKind
from tests.support import pg

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
