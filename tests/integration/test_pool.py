"""Connections: an unreachable server is reported in time, and without the password."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from farrier import errors
from farrier.config import DatabaseConfig
from farrier.enqueuer.listener import Listener
from farrier.io.connections import command_session, pool, refusals
from tests.support import pg, pgbouncer, proxy
from tests.support.sockets import free_port

NOW = timedelta(0)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which no program listens."""
    with free_port() as port:
        yield port


async def test_a_closed_port_is_unreachable_and_the_password_is_not_shown(closed_port: int) -> None:
    with pytest.raises(errors.DatabaseUnreachable) as caught:
        await pool.connect(f"postgresql://me:hunter2@127.0.0.1:{closed_port}/farrier", patience=NOW)
    assert f"postgresql://me@127.0.0.1:{closed_port}/farrier" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.exit_code is errors.ExitCode.DATABASE_UNREACHABLE


async def test_connection_attempts_go_on_until_the_patience_is_over(closed_port: int) -> None:
    begun = anyio.current_time()
    with anyio.fail_after(pg.PATIENCE.total_seconds()), pytest.raises(errors.DatabaseUnreachable):
        await pool.open_pool(f"postgresql://127.0.0.1:{closed_port}/farrier", size=2, patience=timedelta(seconds=0.5))
    # The attempts end before a pause that would exceed the limit; each pause is at most twice as long as the previous.
    assert anyio.current_time() - begun > 0.2


async def test_a_missing_database_is_not_tried_again(pg_server: pg.Server) -> None:
    missing = pg_server.dsn_of("never_created")
    with anyio.fail_after(10), pytest.raises(errors.DatabaseUnreachable, match="does not exist"):
        await pool.connect(missing, patience=timedelta(hours=1))


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://me:hunter2@db/farrier",
        "postgresql://me:hunter2/3@db:5432/farrier",
        "postgresql://me:hun#ter2@db:5432/farrier",
        "postgresql://db:hunter2/farrier",
        "host=db password=hunter2",
    ],
)
async def test_an_unreadable_dsn_is_an_error_of_the_settings_and_is_not_quoted(dsn: str) -> None:
    with pytest.raises(errors.ConfigError, match="percent-encoded") as caught:
        await pool.connect(dsn, patience=NOW)
    chain = f"{caught.value!r} {caught.value.__cause__!r}"
    assert "hunter2" not in chain
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:hunter2@127.0.0.1:99999/farrier", "postgresql://me@127.0.0.1:99999/farrier"),
        ("postgresql://me:hunter2@127.0.0.1:0/farrier", "postgresql://me@127.0.0.1:0/farrier"),
        ("postgresql://me:hunter2@127.0.0.1:-1/farrier", "(unreadable DSN)"),
        ("postgresql://me:hunter2@[::1],127.0.0.1:70000/farrier", "postgresql://me@[::1],127.0.0.1:70000/farrier"),
        ("postgresql://me:hunter2@/farrier?host=127.0.0.1&port=70000", "port=70000"),
        ("postgresql://me:20010911/farrier", "(unreadable DSN)"),  # a password without its host
    ],
)
async def test_an_invalid_port_is_named_and_the_password_is_not(dsn: str, shown: str) -> None:
    for attempt in (pool.connect, lambda dsn, patience: pool.open_pool(dsn, size=1, patience=patience)):
        with pytest.raises(errors.ConfigError, match="expected a port from 1 to 65535") as caught:
            await attempt(dsn, patience=NOW)
        assert shown in str(caught.value)
        assert caught.value.exit_code is errors.ExitCode.USAGE
        assert "hunter2" not in str(caught.value)
        assert "20010911" not in str(caught.value)


async def test_an_invalid_port_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "99999")
    with pytest.raises(errors.ConfigError, match="PGPORT"):
        await pool.connect("postgresql://127.0.0.1/farrier", patience=NOW)


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("connect_timeout=5", "connect_timeout"),
        ("keepalives=1", "keepalives"),
        ("channel_binding=prefer", "channel_binding"),
        ("sslmod=require", "sslmod"),
        ("statement_timeout=abc", "statement_timeout"),
        ("max_connections=9", "max_connections"),
    ],
)
@pytest.mark.parametrize("hosts", [1, 2])
async def test_a_key_of_the_dsn_that_the_server_refuses_is_named_and_not_tried_again(
    db: pg.Database, key: str, named: str, hosts: int
) -> None:
    async with proxy.before(db.dsn) as one, proxy.before(db.dsn) as other:
        dsn = proxy.one_of(one, other) if hosts == 2 else one.dsn
        dsn = f"{dsn}{'&' if '?' in dsn else '?'}{key}"
        with anyio.fail_after(10), pytest.raises(errors.ConfigError, match=f'"{named}".*of the DSN'):
            await pool.open_pool(dsn, size=1, patience=timedelta(hours=1))


async def test_a_statement_timeout_of_the_database_is_named_as_the_cause(db: pg.Database) -> None:
    await db.set_default("statement_timeout", "1ms")
    opened = await pool.open_pool(db.dsn, size=1, patience=pg.PATIENCE)
    with pytest.raises(errors.DatabaseUnreachable, match="statement_timeout of the login or the database"):
        async with refusals.borrowed(opened) as conn:
            await conn.execute("SELECT pg_sleep(60)")
    opened.terminate()


@pytest.mark.parametrize("mode", ["verify-full", "verify-ca"])
async def test_a_missing_file_of_authorities_is_named(
    mode: str, closed_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    dsn = f"postgresql://me:hunter2@127.0.0.1:{closed_port}/farrier?sslmode={mode}"
    with pytest.raises(errors.ConfigError, match=f"{tmp_path}/.postgresql/root.crt.* cannot be read") as usual:
        await pool.connect(dsn, patience=NOW)
    with pytest.raises(errors.ConfigError, match=f"{tmp_path}/db-ca.pem.* cannot be read") as named:
        await pool.connect(f"{dsn}&sslrootcert={tmp_path}/db-ca.pem", patience=NOW)
    assert "hunter2" not in f"{usual.value} {named.value}"
    assert "sslrootcert=FILE" in str(usual.value)


async def test_a_session_has_farrier_first_in_its_search_path_and_utc(db: pg.Database) -> None:
    async with db.pool() as opened, opened.acquire() as conn:
        settings = await conn.fetchrow(
            "SELECT current_setting('search_path') AS path, current_setting('timezone') AS zone,"
            " current_setting('application_name') AS name"
        )
    assert tuple(settings or ()) == ("farrier,pg_temp", "UTC", "farrier")


async def test_a_session_is_read_committed_regardless_of_the_default_of_its_database(db: pg.Database) -> None:
    await db.set_default("default_transaction_isolation", "serializable")
    async with db.pool(1) as connections:
        assert await connections.fetchval("SHOW transaction_isolation") == "read committed"


async def test_a_connection_returned_in_a_transaction_is_reused_without_the_transaction(db: pg.Database) -> None:
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _loop, context: complaints.append(context["message"]))
    try:
        async with db.pool(size=2) as opened:
            conn = await opened.acquire()
            await conn.execute("BEGIN; CREATE TABLE farrier.left_behind ()")
            await opened.release(conn)
            assert await opened.fetchval("SELECT to_regclass('farrier.left_behind')") is None
    finally:
        loop.set_exception_handler(before)
    assert [complaint for complaint in complaints if "active transaction" in str(complaint)] == complaints
    assert complaints


async def test_the_database_s_clock_is_moved_for_one_database_only(pg_server: pg.Server) -> None:
    async with pg_server.database() as moved, pg_server.database() as other:
        before = await other.now()
        await moved.advance(timedelta(days=3))
        assert await moved.now() - before >= timedelta(days=3)
        assert await other.now() - before < timedelta(days=1)


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:hunter2@db:5432/farrier", "postgresql://me@db:5432/farrier"),
        ("postgresql://db/farrier", "postgresql://db/farrier"),
        (
            "postgresql://me:x@one:5432,two:5432/farrier?target_session_attrs=read-write",
            "postgresql://me@one:5432,two:5432/farrier?target_session_attrs=read-write",
        ),
        ("postgresql://db/farrier?password=hunter2&sslpassword=x", "postgresql://db/farrier"),
        ("postgresql://postgres@/farrier?host=/var/lib/x", "postgresql://postgres@/farrier?host=/var/lib/x"),
        ("postgresql://me:hun/ter2@db/farrier", "(unreadable DSN)"),
        ("postgresql://me:hun[ter2@db/farrier", "(unreadable DSN)"),
        ("not a url", "(unreadable DSN)"),
    ],
)
def test_a_dsn_is_shown_without_anything_secret(dsn: str, shown: str) -> None:
    assert pool.redacted(dsn) == shown


@pytest.fixture
def bouncer(db: pg.Database) -> Iterator[str]:
    """A DSN that leads through PgBouncer in transaction mode."""
    with pgbouncer.before(db.dsn) as dsn:
        yield dsn


async def test_through_pgbouncer_statements_need_no_session(bouncer: str) -> None:
    opened = await pool.open_pool(bouncer, size=4, patience=pg.PATIENCE, pgbouncer=True)

    async def ask() -> None:
        for number in range(10):
            async with opened.acquire() as conn, conn.transaction():
                assert await conn.fetchval("SELECT $1::integer + 1", number) == number + 1

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)
    await opened.close()


async def test_through_pgbouncer_a_session_has_utc_regardless_of_the_default_of_its_database(db: pg.Database) -> None:
    await db.set_default("timezone", "Asia/Tokyo")
    with pgbouncer.before(db.dsn) as dsn:
        opened = await pool.open_pool(dsn, size=1, patience=pg.PATIENCE, pgbouncer=True)
        assert await opened.fetchval("SHOW timezone") == "UTC"
        opened.terminate()


async def test_a_pgbouncer_that_is_not_in_the_settings_is_recognised(bouncer: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"PgBouncer.*database\.pgbouncer"):
        await pool.open_pool(bouncer, size=1, patience=pg.PATIENCE)


async def test_administration_through_pgbouncer_is_refused_with_the_advice_to_connect_directly(bouncer: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"direct connection.*PgBouncer.*--dsn") as refused:
        async with command_session.administrator(DatabaseConfig(dsn=bouncer, pgbouncer=True)):
            pass
    assert "database.pgbouncer" not in str(refused.value)


async def test_a_key_of_the_dsn_that_pgbouncer_refuses_is_named(bouncer: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"keepalives.*key of the DSN"):
        await pool.open_pool(f"{bouncer}&keepalives=1", size=1, patience=pg.PATIENCE, pgbouncer=True)


async def test_a_full_pgbouncer_is_tried_again_until_a_client_leaves(db: pg.Database) -> None:
    with pgbouncer.before(db.dsn, clients=1) as dsn:
        somebody = await pool.connect(dsn, patience=pg.PATIENCE, pgbouncer=True)
        found: list[int] = []

        async def come_too() -> None:
            other = await pool.connect(dsn, patience=pg.PATIENCE, pgbouncer=True)
            found.append(await other.fetchval("SELECT 1"))
            await other.close()

        with capture_logs() as logged:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(come_too)
                with anyio.fail_after(pg.PATIENCE.total_seconds()):
                    while not logged:
                        await anyio.lowlevel.checkpoint()
                await somebody.close()
    assert found == [1]
    assert (logged[0]["event"], logged[0]["reason"]) == (
        "database.unreachable",
        "no more connections allowed (max_client_conn)",
    )


async def test_a_pgbouncer_that_stays_full_is_unreachable(db: pg.Database) -> None:
    with pgbouncer.before(db.dsn, clients=1) as dsn:
        somebody = await pool.connect(dsn, patience=pg.PATIENCE, pgbouncer=True)
        with pytest.raises(errors.DatabaseUnreachable, match="no more connections"):
            await pool.connect(dsn, patience=NOW, pgbouncer=True)
        with pytest.raises(errors.DatabaseUnreachable, match="no more connections"):
            await Listener(dsn, wake=lambda *_: None, missed=lambda: None).listen()
        await somebody.close()
