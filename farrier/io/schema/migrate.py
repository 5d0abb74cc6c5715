"""Brings the schema to the version of this program, and checks its version.

The commands `farrier db migrate|check|roles`, the demo, the daemon (which only checks) and the tests use this module. A
new database gets the baseline; a database of an earlier release gets the steps that it lacks. Both get the set of
functions, views, triggers and rights, and the data that `after` copies from the model. All of this is one transaction,
so after a failure, the database still has the earlier version. Only one migrator at a time runs on a database; other
migrators wait and then find no work left. A migration needs a session, so connect directly, not through PgBouncer in
transaction mode.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

import anyio
import asyncpg
import msgspec
import structlog

from farrier import __version__, errors
from farrier.io import statements
from farrier.io.connections import session
from farrier.io.connections.lock_timeout import LOCKED, PATIENT, LockPatience, patiently
from farrier.io.connections.pool import CONNECTION_ERRORS
from farrier.io.schema import files, objects
from farrier.io.schema.files import BASELINE, MigrationStep, Schema
from farrier.io.schema.objects import FREE_THE_WAY

if TYPE_CHECKING:
    from farrier.io.connections.pool import Connection


log = structlog.stdlib.get_logger(__name__)

_RECORDS = files.RECORDS.read_text(encoding="utf-8")
_LOCK = statements.load("schema/lock_migrator")
_ACT_AS_OWNER = statements.load("schema/act_as_owner")
_BEGIN = statements.load("schema/begin_migrating")
_END = statements.load("schema/end_migrating")
_MIGRATOR = statements.load("schema/migrator")
_HAS_TABLES = statements.load("schema/has_tables")
_TABLE_EXISTS = statements.load("schema/table_exists")
_STEPS = statements.load("schema/steps")
_SETTLE = statements.load("schema/settle")
_RECORD_STEP = statements.load("schema/record_step")
_APPLIED_SET = statements.load("schema/applied_set")
_ROLES = statements.load("schema/roles")
_EMBEDDED_LOGINS = statements.load("schema/embedded_logins")
_VERSION = statements.load("schema/version")

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")

# The time limit for ending the migration in the database. If it fails, the next migrator notices that this session
# ended.
_END_SECONDS = 5
# How often a migrator checks whether the previous one has finished.
_POLL_SECONDS = 0.1
# The errors of CREATE ... IF NOT EXISTS if another session creates the object at the same moment.
_MADE_MEANWHILE = (asyncpg.UniqueViolationError, asyncpg.DuplicateSchemaError, asyncpg.DuplicateTableError)
# The errors of a DROP, or of a change of a column's type, if another object depends on the object or the column.
_IN_THE_WAY = (asyncpg.DependentObjectsStillExistError, asyncpg.FeatureNotSupportedError)


@cache
def carried() -> Schema:
    """Return the schema of this program."""
    return files.read(release=__version__)


class MissingTables(msgspec.Struct, frozen=True):
    """The tables that a database lacks. A new database lacks all tables; any other database lacks the tables of
    `steps`."""

    new: bool
    steps: tuple[MigrationStep, ...]

    @property
    def versions(self) -> tuple[int, ...]:
        return (*((BASELINE,) if self.new else ()), *(step.version for step in self.steps))


class Migrated(msgspec.Struct, frozen=True):
    """The result of a migration: the applied versions, the objects that were created or replaced, and the objects that
    were dropped. `made` lists the created objects; `edited` lists the objects that had been changed or dropped by
    hand."""

    versions: tuple[int, ...] = ()
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.versions or self.changed or self.dropped)


class SchemaStatus(msgspec.Struct, frozen=True):
    """Whether a database fits this program. `found` is the version of the database's tables (0 without a schema), and
    `needed` is the version that the program needs. `set_fits` is true if the database has the set of this program: its
    functions, views, triggers and rights. `edited` lists the objects that were changed by hand since the set was
    applied. If definitions are not `comparable`, `edited` contains only objects that were dropped."""

    found: int
    needed: int
    set_fits: bool
    edited: tuple[str, ...] = ()
    comparable: bool = True

    def require_current(self) -> None:
        """Raise SchemaMissing unless the database fits this program. Objects that were edited by hand are accepted."""
        if self.found < self.needed or not self.set_fits:
            raise errors.SchemaMissing(found=self.found, needed=self.needed)


async def migrate(
    conn: Connection,
    *,
    schema: Schema | None = None,
    after: Callable[[Connection], Awaitable[None]] | None = None,
    patience: LockPatience = PATIENT,
) -> Migrated:
    """Apply everything that is missing. May be called at any time, by any number of processes at once.

    `after` runs last, in the same transaction, even if nothing was missing; it makes the tables that mirror the model
    equal to this program's model. Raises SchemaTooNew, SchemaUnrecorded or SchemaChanged before anything is changed.
    Raises RefusedByModel if roles are missing and cannot be created, if a table stays locked for longer than
    `patience`, if an object that does not belong to farrier is in the way, or if a step fails.
    """
    wanted = carried() if schema is None else schema
    await _applied(conn)

    async def migrated() -> Migrated:
        await conn.execute(_LOCK)
        await conn.execute(_ACT_AS_OWNER)
        done = await _migrated(conn, wanted)
        if after is not None:
            await after(conn)
        return done

    await create_roles(conn)  # before the first commit: without the roles, a migration leaves nothing behind
    async with _alone(conn):
        return await patiently(conn, "the migration", migrated, patience)


async def _migrated(conn: Connection, wanted: Schema) -> Migrated:
    lacks = await pending(conn, wanted)
    before = await objects.state(conn)
    granted = await objects.grants(conn)
    if lacks.new:
        await conn.execute(_RECORD_STEP, BASELINE, "baseline", wanted.tables_hash)
    elif lacks.steps:
        await objects.hold_still(conn)
    for step in lacks.steps:
        if not lacks.new:
            await _apply(conn, step)
        await conn.execute(_RECORD_STEP, step.version, step.name, step.checksum)
    changed, dropped = await objects.apply(conn, wanted, granted, new=lacks.new, stepped=bool(lacks.versions))
    missing = {str(each) for each in wanted.objects if before.lacks(each)}
    made = tuple(name for name in changed if name in missing)
    return Migrated(lacks.versions, changed, dropped, made, tuple(before.edited()))


async def _apply(conn: Connection, step: MigrationStep) -> None:
    """Apply a step. Raises RefusedByModel, which names the step and, if PostgreSQL reports them, the objects that
    depend on a dropped object."""
    try:
        await conn.execute(step.sql)
        await conn.execute(_SETTLE)
    except LOCKED:
        raise
    except asyncpg.PostgresError as error:
        if session.ends_connection(error):
            raise
        text = f"migration {step.version} ({step.name}) failed: {error.message or error}"
        if isinstance(error, _IN_THE_WAY) and error.detail:  # the detail of other errors may contain a row
            text = f"{text}: {'; '.join(error.detail.splitlines())}"
            raise errors.RefusedByModel(text, hint=FREE_THE_WAY, sqlstate=error.sqlstate or "") from error
        raise errors.RefusedByModel(text, hint=error.hint or "", sqlstate=error.sqlstate or "") from error


async def pending(conn: Connection, wanted: Schema) -> MissingTables:
    """Return the tables and steps that a database lacks. Writes nothing. Raises SchemaTooNew, SchemaUnrecorded or
    SchemaChanged."""
    applied = await _applied(conn)
    await _refuse_other(conn, wanted, applied)
    return MissingTables(not applied, tuple(step for step in wanted.steps if step.version not in applied))


async def check(conn: Connection, *, schema: Schema | None = None) -> SchemaStatus:
    """Compare the database with this program. Writes nothing. Raises SchemaTooNew, SchemaUnrecorded or
    SchemaChanged."""
    wanted = carried() if schema is None else schema
    applied = await _applied(conn)
    await _refuse_other(conn, wanted, applied)
    if not applied:
        return SchemaStatus(found=0, needed=wanted.version, set_fits=False)
    return SchemaStatus(max(applied), wanted.version, (await _applied_set(conn))["hash"] == wanted.set_hash)


async def inspect(conn: Connection, *, schema: Schema | None = None) -> SchemaStatus:
    """Do the same as `check`, and also find the objects that were edited by hand."""
    status = await check(conn, schema=schema)
    if not status.found:
        return status
    state = await objects.state(conn)
    return msgspec.structs.replace(status, edited=tuple(state.edited()), comparable=state.comparable)


async def create_roles(conn: Connection) -> None:
    """Create the missing roles; the next migration grants them their rights. CREATEROLE is required only if a role is
    missing."""
    try:
        await conn.execute(_ROLES)
    except asyncpg.InsufficientPrivilegeError as refusal:
        raise errors.RefusedByModel(
            "roles of farrier are missing, and this user cannot create them; run `farrier db roles` once as a user "
            "with CREATEROLE"
        ) from refusal


async def create_embedded_logins(conn: Connection) -> None:
    """Create the missing logins of an embedded database, each with the rights of one server."""
    await conn.execute(_EMBEDDED_LOGINS)


async def version(conn: Connection) -> int:
    """Return the version of the database's tables; 0 without a schema that tells it. Any role of farrier may ask."""
    try:
        found: int = await conn.fetchval(_VERSION)
    except (asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError):
        return 0
    return found


@asynccontextmanager
async def _alone(conn: Connection) -> AsyncIterator[None]:
    """Record in a row that this session migrates. With an advisory lock, any login could block an upgrade."""
    while not await conn.fetchval(_TABLE_EXISTS, "farrier.migrator"):
        with suppress(*_MADE_MEANWHILE):
            await conn.execute(_RECORDS)
    waits = False
    while not await becomes_migrator(conn):
        if not waits:
            pid, login = await conn.fetchrow(_MIGRATOR) or (None, None)
            log.warning("migration.waits", pid=pid, login=login)
            waits = True
        await anyio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        # If the connection is lost, its session has ended or will end.
        with anyio.move_on_after(_END_SECONDS, shield=True), suppress(*CONNECTION_ERRORS):
            await conn.execute(_END)


async def becomes_migrator(conn: Connection) -> bool:
    """Make this session the migrator. Returns False while another session migrates."""
    # The list of sessions is as old as the statement that reads it. If it were read before the row is locked, a
    # migrator that connected meanwhile would be missing from it, and would count as ended.
    async with conn.transaction(isolation="read_committed"):
        await conn.execute(_LOCK)
        return await conn.fetchval(_BEGIN) is not None


async def _applied(conn: Connection) -> Mapping[int, asyncpg.Record]:
    """Return the versions that were applied to the database; none without a schema. Raises SchemaUnrecorded."""
    # The tables are checked before the records: otherwise, if another migrator commits in between, this session would
    # see its tables without its records.
    has_tables = await conn.fetchval(_HAS_TABLES)
    applied = {}
    if await conn.fetchval(_TABLE_EXISTS, "farrier.schema_set"):
        applied = {record["version"]: record for record in await conn.fetch(_STEPS)}
    if has_tables and not applied:
        raise errors.SchemaUnrecorded
    return applied


async def _applied_set(conn: Connection) -> asyncpg.Record:
    """Return the set that was recorded in the transaction of the last version."""
    recorded = await conn.fetchrow(_APPLIED_SET)
    if recorded is None:
        raise errors.SchemaUnrecorded
    return recorded


async def _refuse_other(conn: Connection, wanted: Schema, applied: Mapping[int, asyncpg.Record]) -> None:
    """Raise SchemaTooNew or SchemaChanged if the database does not fit this program's release."""
    if not applied:
        return
    applied_set = await _applied_set(conn)
    if max(applied) > wanted.version or _parts(applied_set["release"]) > _parts(wanted.release):
        raise errors.SchemaTooNew(found=max(applied), known=wanted.version, release=applied_set["release"])
    for step in wanted.steps:
        record = applied.get(step.version)
        if record is not None and record["checksum"] != step.checksum:
            raise errors.SchemaChanged(version=step.version, name=record["name"])
    if max(applied) == wanted.version and applied_set["tables"] != wanted.tables_hash:
        raise errors.SchemaChanged(version=wanted.version, name="the tables")


def _parts(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, for comparisons. A candidate has those of the final release."""
    found = _NUMBERS.match(release)
    return tuple(map(int, found.group().split("."))) if found else ()
