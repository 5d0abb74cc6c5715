"""Small schemas in the form in which a release has its schema, and migrations that are compared with their plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema import plan as schema_plan
from farrier.io.schema.files import BASELINE, MigrationStep, ObjectKind, Schema, SchemaObject, TableFile
from farrier.io.schema.plan import MigrationPlan
from tests.support import pg

TABLE = "CREATE TABLE farrier.toy (id integer PRIMARY KEY, name text, size integer)"
SEEN = "SELECT id, name FROM farrier.toy"
GO_ON = "-- replicas: go on\nALTER TABLE farrier.toy ADD COLUMN age integer"
# The objects that every schema needs: rights, and a function that a migration calls.
LEAST = {
    "function grant_rights": "SELECT 1",
    "rights usage": "GRANT USAGE ON SCHEMA farrier TO farrier_reader",
}


def schema(
    objects: Mapping[str, str] | None = None, *, tables: str = "", steps: Sequence[str] = (), release: str = "1.0.0"
) -> Schema:
    """A schema. The keys of `objects` are KIND NAME; the values are whole statements, bodies of functions that have no
    parameters and return an integer, or queries of views."""
    return Schema(
        tables=(TableFile("toys", tables),),
        objects=tuple(_object(called, text) for called, text in ({**LEAST, **(objects or {})}).items()),
        steps=tuple(
            MigrationStep(number, f"toy_{number}", sql, "-- replicas: go on" in sql)
            for number, sql in enumerate(steps, BASELINE + 1)
        ),
        release=release,
    )


def named(
    functions: Mapping[str, str] | None = None,
    views: Mapping[str, str] | None = None,
    triggers: Mapping[str, str] | None = None,
    rights: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The `objects` of a schema, from mappings by name; triggers are named TABLE.TRIGGER, rights by their role."""
    kinds = {"function": functions, "view": views, "trigger": triggers, "rights": rights}
    return {f"{kind} {name}": text for kind, texts in kinds.items() for name, text in (texts or {}).items()}


def of_toy(
    functions: Mapping[str, str] | None = None,
    views: Mapping[str, str] | None = None,
    triggers: Mapping[str, str] | None = None,
    *,
    rights: str = "",
    tables: str = TABLE,
    steps: Sequence[str] = (),
) -> Schema:
    """A schema with the table `toy`; `rights` are the rights of farrier_reader."""
    roles = {"farrier_reader": rights} if rights else {}
    return schema(named(functions, views, triggers, roles), tables=tables, steps=steps)


@pytest.fixture
async def conn(empty_db: pg.Database) -> AsyncIterator[Connection]:
    """A connection to a database without a schema. A test module assigns it to a name."""
    async with empty_db.connect() as connection:
        yield connection


async def planned_and_done(conn: Connection, wanted: Schema) -> MigrationPlan:
    """Migrate, assert that the migration does what its plan lists, and return the plan."""
    plan = await schema_plan.plan(conn, schema=wanted)
    assert await migrate.migrate(conn, schema=wanted) == plan.would
    assert not plan.in_the_way
    return plan


def reordered(schema: Schema) -> Schema:
    """The schema with its objects in another order, as if the same files were in other folders."""
    return msgspec.structs.replace(schema, objects=schema.objects[::-1])


def f(parameters: str, returns: str = "integer", body: str = "SELECT 1", *, name: str = "f") -> str:
    """A function whose body is a string, which the server does not parse when it creates the function."""
    return f"CREATE OR REPLACE FUNCTION farrier.{name}({parameters}) RETURNS {returns} LANGUAGE sql AS $$ {body} $$"


def returning(name: str, expression: str, returns: str = "integer", parameters: str = "") -> str:
    """A function whose body the server parses when it creates it, so that it depends on the objects in its body."""
    return f"CREATE OR REPLACE FUNCTION farrier.{name}({parameters}) RETURNS {returns} RETURN {expression}"


def touch(body: str = "RETURN NEW") -> str:
    """A trigger function."""
    return f"CREATE OR REPLACE FUNCTION farrier.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$"


def trigger(condition: str = "true") -> str:
    """A trigger on a table `toy`."""
    return (
        "CREATE OR REPLACE TRIGGER touch BEFORE INSERT ON farrier.toy"
        f" FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION farrier.touch()"
    )


def _object(called: str, text: str) -> SchemaObject:
    kind, name = called.split()
    if not text.startswith(("CREATE", "--")):
        if kind == ObjectKind.FUNCTION:
            text = f"CREATE OR REPLACE FUNCTION farrier.{name}() RETURNS integer LANGUAGE sql AS $$ {text} $$"
        elif kind == ObjectKind.VIEW:
            text = f"CREATE OR REPLACE VIEW farrier.{name} AS {text}"
    return SchemaObject(ObjectKind(kind), name, "", f"{text};\n")
