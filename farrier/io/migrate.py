"""Brings the schema to the version of this program, and says whether it is there.

Called by `farrier db migrate|check|roles`, the demo, the daemon (which only checks) and the tests. Migrations
are the files NNNN_name.sql of one directory, numbered without gaps, forward-only, never edited once released.
Guarantees: one migrator at a time per database, the others wait and find nothing left to do; each migration
is one transaction with its own record, so one that fails leaves the earlier ones applied and itself not.
Needs a session: connect directly and not through PgBouncer in transaction mode.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import asyncpg
import msgspec

from farrier import errors
from farrier.io import statements
from farrier.io.patience import PATIENT, LockPatience, patiently

if TYPE_CHECKING:
    from farrier.io.pool import Connection


DIRECTORY = Path(__file__).parent / "migrations"

_PREPARED = statements.load("schema/prepared")
_LOCK = statements.load("schema/lock_migrator")
_BEGIN = statements.load("schema/begin_migrating")
_END = statements.load("schema/end_migrating")
_EXISTS = statements.load("schema/exists")
_PREPARE = statements.load("schema/prepare")
_APPLIED = statements.load("schema/applied")
_RECORD = statements.load("schema/record")
_ROLES = statements.load("schema/roles")

# What a session that ends anyway may take to let the next migrator in, which would notice that it ended.
_END_SECONDS = 5
# How often a migrator looks whether the one before it is done.
_POLL_SECONDS = 0.1
# What CREATE ... IF NOT EXISTS raises for one that another session makes at the same moment.
_MADE_MEANWHILE = (asyncpg.UniqueViolationError, asyncpg.DuplicateSchemaError, asyncpg.DuplicateTableError)


class Migration(msgspec.Struct, frozen=True):
    """One file, read."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


class SchemaStatus(msgspec.Struct, frozen=True):
    """How far a database is (`found`, 0 for one without a schema) and how far this program needs it."""

    found: int
    needed: int

    def require_current(self) -> None:
        """Raises SchemaMissing or SchemaTooNew unless program and database fit."""
        if self.found > self.needed:
            raise errors.SchemaTooNew(found=self.found, known=self.needed)
        if self.found < self.needed:
            raise errors.SchemaMissing(found=self.found, needed=self.needed)


def read(directory: Path = DIRECTORY) -> tuple[Migration, ...]:
    """The migrations this program carries, in order."""
    found = []
    for expected, path in enumerate(sorted(directory.glob("*.sql")), start=1):
        number, _, name = path.stem.partition("_")
        if number != f"{expected:04d}" or not name:
            raise errors.InternalError(f"expected migration {expected:04d}_<name>.sql, found {path.name}")
        found.append(Migration(version=expected, name=name, sql=path.read_text(encoding="utf-8")))
    return tuple(found)


async def migrate(
    conn: Connection,
    *,
    migrations: Sequence[Migration] | None = None,
    after: Callable[[Connection], Awaitable[None]] | None = None,
    patience: LockPatience = PATIENT,
) -> list[int]:
    """Apply what is missing; answers the versions applied here. May be called at any time by anyone.

    `after` runs last, under the same lock and in a transaction, even if nothing was missing: it brings tables
    that mirror the model in line with this program. Raises SchemaTooNew before anything is touched, and RefusedByModel
    when somebody keeps a table locked for longer than `patience`; what was applied until then stays.
    """
    carried = read() if migrations is None else migrations
    async with _alone(conn):
        pending = _pending(carried, await _applied(conn))
        if pending:
            await create_roles(conn)
        for migration in pending:
            await _apply(conn, migration, patience)
        if after is not None:
            async with conn.transaction():
                await after(conn)
    return [migration.version for migration in pending]


async def _apply(conn: Connection, migration: Migration, patience: LockPatience) -> None:
    async def applied() -> None:
        await conn.execute(_RECORD, migration.version, migration.name, migration.checksum)
        await conn.execute(migration.sql)

    await patiently(conn, f"migration {migration.version} ({migration.name})", applied, patience)


async def check(conn: Connection, *, migrations: Sequence[Migration] | None = None) -> SchemaStatus:
    """How the database stands to this program. Writes nothing. Raises MigrationChanged."""
    carried = read() if migrations is None else migrations
    applied = await _applied(conn)
    _refuse_changed(carried, applied)
    return SchemaStatus(found=max(applied, default=0), needed=len(carried))


async def create_roles(conn: Connection) -> None:
    """Make the roles that migrations grant to, where missing. Needs CREATEROLE only if one is missing."""
    try:
        await conn.execute(_ROLES)
    except asyncpg.InsufficientPrivilegeError as refusal:
        raise errors.RefusedByModel(
            "roles of farrier are missing, and this user may not make them; run `farrier db roles` once as a "
            "user with CREATEROLE"
        ) from refusal


@asynccontextmanager
async def _alone(conn: Connection) -> AsyncIterator[None]:
    """A row says who migrates: a lock that any login may take would keep an upgrade waiting for as long as it likes."""
    while not await conn.fetchval(_PREPARED):
        await _prepare(conn)
    while True:
        if await becomes_migrator(conn):
            break
        await anyio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if not conn.is_closed():
            with anyio.move_on_after(_END_SECONDS, shield=True):
                await conn.execute(_END)


async def becomes_migrator(conn: Connection) -> bool:
    """Whether this session migrates from now on; false while another one does."""
    # The list of sessions is as old as the statement that reads it. If it were read before the row is locked, a
    # migrator that connected meanwhile would be missing from it and pass for dead.
    async with conn.transaction(isolation="read_committed"):
        await conn.execute(_LOCK)
        return await conn.fetchval(_BEGIN) is not None


async def _prepare(conn: Connection) -> None:
    await create_roles(conn)
    with suppress(*_MADE_MEANWHILE):
        await conn.execute(_PREPARE)


async def _applied(conn: Connection) -> dict[int, asyncpg.Record]:
    if not await conn.fetchval(_EXISTS):
        return {}
    return {record["version"]: record for record in await conn.fetch(_APPLIED)}


def _pending(carried: Sequence[Migration], applied: Mapping[int, asyncpg.Record]) -> list[Migration]:
    newest = max(applied, default=0)
    if newest > len(carried):
        raise errors.SchemaTooNew(found=newest, known=len(carried))
    _refuse_changed(carried, applied)
    return [migration for migration in carried if migration.version not in applied]


def _refuse_changed(carried: Sequence[Migration], applied: Mapping[int, asyncpg.Record]) -> None:
    for migration in carried:
        record = applied.get(migration.version)
        if record is not None and record["checksum"] != migration.checksum:
            raise errors.MigrationChanged(version=migration.version, name=record["name"])
