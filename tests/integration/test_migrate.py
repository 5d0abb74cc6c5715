"""Migrations: forward only, and a schema that does not fit is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import anyio
import asyncpg
import pytest

from farrier import errors
from farrier.config import DatabaseConfig
from farrier.io.connections import command_session as client
from farrier.io.connections.lock_timeout import LockPatience
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from farrier.io.schema.files import Schema
from tests.support import pg, proxy, toys

TOY = "CREATE TABLE farrier.toy (id integer PRIMARY KEY);"
TOY_WITH_NAME = "CREATE TABLE farrier.toy (id integer PRIMARY KEY, name text);"
ADD_NAME = "-- replicas: go on\nALTER TABLE farrier.toy ADD COLUMN name text;"
BROKEN = "-- replicas: go on\nALTER TABLE farrier.toy ADD COLUMN colour text; SELECT 1/0;"
FIRST = toys.schema(tables=TOY)
SECOND = toys.schema(tables=TOY_WITH_NAME, steps=[ADD_NAME])
BROKEN_SECOND = toys.schema(tables=TOY, steps=[BROKEN])
conn = toys.conn
HASTY = LockPatience(wait=timedelta(milliseconds=20), pause=timedelta(0), tries=3)


async def columns(conn: Connection) -> list[str]:
    names = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'farrier' AND table_name = 'toy'"
    return [record[0] for record in await conn.fetch(f"{names} ORDER BY ordinal_position")]


async def test_a_migration_that_fails_leaves_nothing_of_itself_and_lets_the_next_migrator_in(
    empty_db: pg.Database,
) -> None:
    async with empty_db.connect() as conn, empty_db.connect() as other:
        await migrate.migrate(conn, schema=FIRST)
        with pytest.raises(errors.RefusedByModel, match=r"migration 2 \(toy_2\) failed: division by zero"):
            await migrate.migrate(conn, schema=BROKEN_SECOND)
        assert await columns(conn) == ["id"]
        with anyio.fail_after(10):
            assert (await migrate.migrate(other, schema=SECOND)).versions == (2,)


async def test_a_failing_mirror_of_the_model_leaves_the_database_as_it_was(conn: Connection) -> None:
    async def mirror(conn: Connection) -> None:
        await conn.execute("INSERT INTO farrier.toy VALUES (1)")
        raise errors.InternalError("the model is not what the table wants")

    with pytest.raises(errors.InternalError):
        await migrate.migrate(conn, schema=FIRST, after=mirror)
    assert (await migrate.check(conn, schema=FIRST)).found == 0
    assert await columns(conn) == []


MODEL = ("contradictions", "edges", "kind_actions", "kind_layers", "kind_states", "task_types")


async def test_rows_of_the_model_that_differ_are_written_and_no_others(db: pg.Database) -> None:
    async def rows(conn: Connection) -> list[tuple[str, str]]:
        """Each row with its place, which changes when the row is written."""
        tables = (f"SELECT t::text, t.ctid::text FROM farrier.{name} t" for name in MODEL)
        return [tuple(row) for row in await conn.fetch(" UNION ALL ".join(tables))]

    async with db.connect() as conn:
        before = await rows(conn)
        await catalog.sync(conn)
        assert await rows(conn) == before
        await conn.execute(
            """
            INSERT INTO farrier.task_types VALUES ('node.polish');
            INSERT INTO farrier.kind_states VALUES ('barrel', 'state', 'full', true, false, NULL, 'kept');
            UPDATE farrier.kind_states SET sla = NULL WHERE kind = 'node';
            UPDATE farrier.contradictions SET statuses = '{}';
            DELETE FROM farrier.edges WHERE kind = 'node';
            DELETE FROM farrier.kind_layers WHERE relation IS NOT NULL;
            """
        )
        await catalog.sync(conn)
        other = {text for text, _ in await rows(conn)} ^ {text for text, _ in before}
    assert other == {"(barrel,state,full,t,f,,kept)"}, "rows of a kind that is not the program's stay"


async def test_a_schema_of_a_newer_program_is_refused_untouched(conn: Connection) -> None:
    await migrate.migrate(conn, schema=SECOND)
    for refused in (migrate.migrate, migrate.check):
        with pytest.raises(errors.SchemaTooNew, match=r"version 2.*at most 1") as refusal:
            await refused(conn, schema=FIRST)
        assert refusal.value.exit_code is errors.ExitCode.SCHEMA_TOO_NEW


async def test_a_schema_with_functions_of_a_newer_release_is_too_new(conn: Connection) -> None:
    newer = toys.schema({"function one": "SELECT 1"}, tables=TOY, release="0.10.0")
    older = toys.schema({"function one": "SELECT 2"}, tables=TOY, release="0.9.0")
    await migrate.migrate(conn, schema=newer)
    with pytest.raises(errors.SchemaTooNew, match=r"by farrier 0\.10\.0, .*older release; upgrade"):
        await migrate.migrate(conn, schema=older)
    assert await conn.fetchval("SELECT farrier.one()") == 1


async def test_a_release_counts_as_newer_than_its_candidates(conn: Connection) -> None:
    for body, release in (("SELECT 1", "1.0.0rc2"), ("SELECT 2", "1.0.0"), ("SELECT 3", "1.0.1.dev4")):
        await migrate.migrate(conn, schema=toys.schema({"function one": body}, tables=TOY, release=release))
    assert await conn.fetchval("SELECT farrier.one()") == 3


async def test_functions_of_another_checkout_of_the_release_require_a_migration(conn: Connection) -> None:
    this = toys.schema({"function one": "SELECT 1"}, tables=TOY)
    other = toys.schema({"function one": "SELECT 2"}, tables=TOY)
    await migrate.migrate(conn, schema=this)
    status = await migrate.check(conn, schema=other)
    with pytest.raises(errors.SchemaMissing, match=r"another version of farrier.*farrier db migrate"):
        status.require_current()
    await migrate.migrate(conn, schema=other)
    (await migrate.check(conn, schema=other)).require_current()


@pytest.mark.parametrize(
    "changed",
    [
        toys.schema(tables=TOY_WITH_NAME, steps=[ADD_NAME + " -- edited"]),
        toys.schema(tables=TOY_WITH_NAME + "CREATE TABLE farrier.more ();", steps=[ADD_NAME]),
    ],
    ids=["migration", "tables"],
)
async def test_tables_that_changed_after_they_were_applied_are_refused(conn: Connection, changed: Schema) -> None:
    await migrate.migrate(conn, schema=SECOND)
    for refused in (migrate.migrate, migrate.check):
        with pytest.raises(errors.SchemaChanged, match="version 2"):
            await refused(conn, schema=changed)


@pytest.mark.parametrize(
    "unrecorded",
    [
        "DROP SCHEMA farrier CASCADE; CREATE SCHEMA farrier; CREATE TABLE farrier.schema_migrations (version integer)",
        "TRUNCATE farrier.migrator, farrier.schema_steps, farrier.schema_set, farrier.schema_objects",
        "TRUNCATE farrier.schema_set",
    ],
    ids=["before the first release", "a dump without data", "no set"],
)
async def test_tables_without_the_migration_record_are_refused_with_the_commands_to_run(
    conn: Connection, unrecorded: str
) -> None:
    await migrate.migrate(conn, schema=FIRST)
    await conn.execute(unrecorded)
    for refused in (migrate.migrate, migrate.check):
        with pytest.raises(errors.SchemaUnrecorded, match=r"DROP SCHEMA farrier CASCADE.*farrier db migrate"):
            await refused(conn, schema=FIRST)
    await conn.execute("DROP SCHEMA farrier CASCADE")
    assert await migrate.migrate(conn, schema=FIRST)


async def test_a_missing_schema_and_an_old_one_have_different_messages(conn: Connection) -> None:
    status = await migrate.check(conn, schema=SECOND)
    with pytest.raises(errors.SchemaMissing, match=r"has no farrier schema.*farrier db migrate"):
        status.require_current()
    await migrate.migrate(conn, schema=FIRST)
    with pytest.raises(errors.SchemaMissing, match="has schema version 1, but this program requires 2"):
        (await migrate.check(conn, schema=SECOND)).require_current()


async def test_the_schema_is_made_on_every_supported_server(every_server: pg.Server) -> None:
    async with every_server.copy(pg.EMPTY) as database, database.connect() as conn:
        await migrate.migrate(conn)
        status = await migrate.inspect(conn)
        status.require_current()
        assert not status.edited


async def test_a_user_with_createrole_who_is_no_superuser_can_migrate(conn: Connection) -> None:
    name = await conn.fetchval("SELECT current_database()")
    owner = f"owner_of_{name}"
    await conn.execute(f"CREATE ROLE {owner} CREATEROLE; GRANT CREATE ON DATABASE {name} TO {owner}")
    await conn.execute(f"SET ROLE {owner}")
    try:
        assert (await migrate.migrate(conn, after=catalog.sync)).versions == (migrate.carried().version,)
        assert not await migrate.migrate(conn, after=catalog.sync)
    finally:
        await conn.execute(f"RESET ROLE; DROP OWNED BY {owner}; DROP ROLE {owner}")


async def test_a_migrator_that_is_ended_to_resolve_a_deadlock_tries_again(empty_db: pg.Database) -> None:
    """The migrator locks tables in the order of their creation, while a client locks them in the opposite order."""
    both = f"{TOY} CREATE TABLE farrier.gate (); CREATE TABLE farrier.other (id integer);"
    after = toys.schema(tables=both, steps=[ADD_NAME])
    patience = LockPatience(wait=timedelta(minutes=1), pause=timedelta(0), tries=2)
    reading, go_on = anyio.Event(), anyio.Event()

    async def read(client: Connection) -> None:
        await client.execute("SET deadlock_timeout = '1h'")
        async with client.transaction():
            await client.execute("SELECT FROM farrier.other")
            reading.set()
            await go_on.wait()
            await client.execute("SELECT FROM farrier.toy")

    async with empty_db.connect() as conn, empty_db.connect() as client, empty_db.connect() as gate:
        await migrate.migrate(conn, schema=toys.schema(tables=both))
        await conn.execute("SET deadlock_timeout = '10ms'")
        async with anyio.create_task_group() as group:
            group.start_soon(read, client)
            await reading.wait()
            async with gate.transaction():
                await gate.execute("LOCK TABLE farrier.gate")
                group.start_soon(partial(migrate.migrate, conn, schema=after, patience=patience))
                await empty_db.until_blocked()
                go_on.set()
                await empty_db.until_blocked(2)
        assert await columns(conn) == ["id", "name"]


async def test_a_migration_that_waits_for_a_locked_table_lets_clients_pass_and_gives_up(
    empty_db: pg.Database,
) -> None:
    """Each try gives way to waiting clients; at the end the operator gets an error, and nothing is applied."""
    async with empty_db.connect() as conn, empty_db.connect() as dump:
        await migrate.migrate(conn, schema=FIRST)
        async with dump.transaction():
            await dump.execute("SELECT FROM farrier.toy")
            with pytest.raises(errors.RefusedByModel, match=r"has locked.*pg_stat_activity"):
                await migrate.migrate(conn, schema=SECOND, patience=HASTY)
            assert await columns(conn) == ["id"]
        assert (await migrate.migrate(conn, schema=SECOND, patience=HASTY)).versions == (2,)


async def _migrate_as_an_operator(dsn: str, after: Callable[[Connection], Awaitable[None]]) -> None:
    async with client.administrator(DatabaseConfig(dsn=dsn)) as conn:
        await migrate.migrate(conn, schema=FIRST, after=after)


async def test_a_connection_lost_during_a_migration_is_reported_with_an_advice(empty_db: pg.Database) -> None:
    async def lose(conn: Connection) -> None:
        pid = await conn.fetchval("SELECT pg_backend_pid()")
        async with empty_db.connect() as other:
            await other.execute("SELECT pg_terminate_backend($1)", pid)

    with pytest.raises(errors.DatabaseUnreachable, match=r"the migration.*completely or not at all.*run it again"):
        await _migrate_as_an_operator(empty_db.dsn, lose)
    async with empty_db.connect() as conn:
        assert await columns(conn) == []
        assert await migrate.migrate(conn, schema=FIRST)


async def test_a_commit_without_a_reply_is_reported_with_an_advice(empty_db: pg.Database) -> None:
    async with proxy.before(empty_db.dsn) as between:

        async def arm(_conn: Connection) -> None:
            between.cut_after(b"COMMIT")

        with pytest.raises(errors.DatabaseUnreachable, match=r"the migration.*completely or not at all.*run it again"):
            await _migrate_as_an_operator(between.dsn, arm)
    async with empty_db.connect() as conn:
        assert await columns(conn) == ["id"]
        assert not await migrate.migrate(conn, schema=FIRST)


async def test_a_connection_lost_outside_of_a_migration_is_an_unreachable_database(empty_db: pg.Database) -> None:
    async def check_after_a_loss() -> None:
        async with client.administrator(DatabaseConfig(dsn=empty_db.dsn)) as conn, empty_db.connect() as other:
            await other.execute("SELECT pg_terminate_backend($1)", await conn.fetchval("SELECT pg_backend_pid()"))
            with suppress(asyncpg.PostgresError):
                await migrate.check(conn)
            await migrate.check(conn)

    with pytest.raises(errors.DatabaseUnreachable):
        await check_after_a_loss()
