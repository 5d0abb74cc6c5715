"""A schema of a few objects, and migrations that are compared with their plans."""

from __future__ import annotations

from collections.abc import Mapping

from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from farrier.io.schema import plan as schema_plan
from farrier.io.schema.files import Schema
from farrier.io.schema.plan import MigrationPlan
from tests.support import toys

TABLE = "CREATE TABLE farrier.toy (id integer PRIMARY KEY, name text, size integer)"
SEEN = "SELECT id, name FROM farrier.toy"
GO_ON = "-- replicas: go on\nALTER TABLE farrier.toy ADD COLUMN age integer"
STOP = "-- replicas: stop\nALTER TABLE farrier.toy ADD COLUMN colour text"


def schema(
    functions: Mapping[str, str] | None = None,
    views: Mapping[str, str] | None = None,
    triggers: Mapping[str, str] | None = None,
    *,
    rights: str = "",
    steps: tuple[str, ...] = (),
) -> Schema:
    """A schema; `rights` are the rights of farrier_reader."""
    roles = {"farrier_reader": rights} if rights else {}
    return toys.schema(toys.named(functions, views, triggers, roles), tables=TABLE, steps=steps)


async def planned_and_done(conn: Connection, wanted: Schema) -> MigrationPlan:
    """Migrate, assert that the migration does what its plan lists, and return the plan."""
    plan = await schema_plan.plan(conn, schema=wanted)
    assert await migrate.migrate(conn, schema=wanted) == plan.would
    assert not plan.in_the_way
    return plan
