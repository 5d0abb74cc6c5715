"""One migrator at a time: others wait for it, but not for one that died, nor for a session of another login."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import anyio
import asyncpg
import pytest
from structlog.testing import capture_logs

from farrier.io import statements
from farrier.io.connections.pool import Connection
from farrier.io.schema import migrate
from tests.integration.test_migrate import FIRST, SECOND
from tests.support import pg, toys

conn = toys.conn
MIGRATES = """
    UPDATE farrier.migrator SET pid = a.pid, login = a.usename, backend_start = a.backend_start
      FROM pg_stat_activity a WHERE a.pid = $1
"""
# The next transaction id. A waiting migrator consumes one each time it checks whether the other has finished.
TRANSACTIONS = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


async def test_of_twenty_concurrent_migrators_one_migrates_and_none_fails(
    empty_db: pg.Database,
) -> None:
    applied: list[tuple[int, ...]] = []
    mirrored = 0

    async def mirror(_conn: Connection) -> None:
        nonlocal mirrored
        mirrored += 1

    async def one() -> None:
        async with empty_db.connect() as conn:
            applied.append((await migrate.migrate(conn, schema=SECOND, after=mirror)).versions)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)

    assert sorted(applied) == [()] * 19 + [(1, 2)]
    assert mirrored == 20
    async with empty_db.connect() as conn:
        (await migrate.check(conn, schema=SECOND)).require_current()


async def test_a_migrator_waits_for_a_live_migrator_and_not_for_a_dead_one(empty_db: pg.Database) -> None:
    started, finish = anyio.Event(), anyio.Event()
    order: list[str] = []

    async def slowly(_conn: Connection) -> None:
        started.set()
        await finish.wait()
        order.append("first")

    async def second() -> None:
        async with empty_db.connect() as conn:
            await migrate.migrate(conn, schema=FIRST)
            order.append("second")

    async with empty_db.connect() as dying:
        await migrate.migrate(dying, schema=FIRST)
        await dying.execute(statements.load("schema/begin_migrating"))
    async with empty_db.connect() as conn, anyio.create_task_group() as group:
        group.start_soon(partial(migrate.migrate, conn, schema=FIRST, after=slowly))
        await started.wait()
        group.start_soon(second)
        finish.set()
    assert order == ["first", "second"]


async def test_a_waiting_migrator_logs_once_which_session_it_waits_for(empty_db: pg.Database) -> None:
    async with empty_db.connect() as first, empty_db.connect() as second, anyio.create_task_group() as group:
        await migrate.migrate(first, schema=FIRST)
        assert await migrate.becomes_migrator(first)
        pid = await first.fetchval("SELECT pg_backend_pid()")
        with capture_logs() as logs:
            group.start_soon(partial(migrate.migrate, second, schema=FIRST))
            with anyio.fail_after(pg.PATIENCE.total_seconds()):
                while not logs:
                    await anyio.lowlevel.checkpoint()
                looked = await first.fetchval(TRANSACTIONS)
                while await first.fetchval(TRANSACTIONS) < looked + 2:
                    await anyio.lowlevel.checkpoint()
            await first.execute(statements.load("schema/end_migrating"))
    assert [(each["event"], each["pid"], each["login"]) for each in logs] == [("migration.waits", pid, "postgres")]


async def test_a_migrator_that_connected_later_is_not_taken_for_dead(
    empty_db: pg.Database,
) -> None:
    answers: list[bool] = []

    async def ask(conn: Connection) -> None:
        answers.append(await migrate.becomes_migrator(conn))

    async with empty_db.connect() as holder, empty_db.connect() as waiting:
        await migrate.migrate(holder, schema=FIRST)
        turn = holder.transaction()
        await turn.start()
        await holder.execute("SELECT FROM farrier.migrator FOR UPDATE")
        async with AsyncExitStack() as later, anyio.create_task_group() as group:
            group.start_soon(ask, waiting)
            await empty_db.until_blocked()
            late = await later.enter_async_context(empty_db.connect())
            await holder.execute(MIGRATES, await late.fetchval("SELECT pg_backend_pid()"))
            await turn.commit()
    assert answers == [False]


@pytest.mark.parametrize(("of_the_same_login", "dead"), [(True, False), (False, True)])
async def test_a_session_of_another_login_with_a_dead_migrators_process_id_is_not_waited_for(
    empty_db: pg.Database, of_the_same_login: bool, dead: bool
) -> None:
    """Tested with a login that may not see when sessions of other logins began."""
    async with empty_db.connect() as conn, empty_db.connect() as other:
        await migrate.migrate(conn, schema=FIRST)
        login = f"migrates_{await conn.fetchval('SELECT current_database()')}"
        await conn.execute(f"CREATE ROLE {login}; GRANT USAGE ON SCHEMA farrier TO {login}")
        await conn.execute(f"GRANT ALL ON farrier.migrator TO {login}")
        await conn.execute(MIGRATES, await other.fetchval("SELECT pg_backend_pid()"))
        if not of_the_same_login:
            await conn.execute("UPDATE farrier.migrator SET login = 'of_one_that_died'")
        await conn.execute(f"SET ROLE {login}")
        try:
            assert await migrate.becomes_migrator(conn) is dead
        finally:
            await conn.execute(f"RESET ROLE; DROP OWNED BY {login}; DROP ROLE {login}")


async def test_no_other_login_keeps_a_migrator_waiting(empty_db: pg.Database) -> None:
    async with empty_db.connect() as conn, empty_db.connect() as other:
        await migrate.migrate(conn, schema=FIRST)
        login = f"stranger_to_{await conn.fetchval('SELECT current_database()')}"
        await conn.execute(f"CREATE ROLE {login} LOGIN; GRANT USAGE ON SCHEMA farrier TO {login}")
        await other.execute(f"SET SESSION AUTHORIZATION {login}")
        try:
            await other.execute("SELECT pg_advisory_lock(7022186424051131233)")
            for attempt in ("SELECT FROM farrier.migrator FOR UPDATE", "LOCK TABLE farrier.migrator"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    async with other.transaction():
                        await other.execute(attempt)
            assert (await migrate.migrate(conn, schema=SECOND)).versions == (2,)
        finally:
            await other.execute("RESET SESSION AUTHORIZATION")
            await conn.execute(f"DROP OWNED BY {login}; DROP ROLE {login}")


async def test_a_migrator_inserts_its_row_if_it_is_missing(conn: Connection) -> None:
    await migrate.migrate(conn, schema=FIRST)
    await conn.execute("TRUNCATE farrier.migrator")
    with anyio.fail_after(10):
        assert (await migrate.migrate(conn, schema=SECOND)).versions == (2,)
