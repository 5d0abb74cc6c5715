"""The primary vanishes: its packets are dropped, and no connection is closed. Daemons follow to its successor."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import anyio
import pytest

from farrier import errors
from farrier.enqueuer.listener import Listener
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.connections import hosts, pool, session
from tests.support import pg, proxy, standby
from tests.support.process import Farrier, replica, until

NOW = timedelta(0)
# Long enough for a server on this machine to respond, and short for tests in which the server vanished.
SHORT = pool.Timeouts(connect=timedelta(seconds=2), statement=timedelta(seconds=1))
# The documented limit of a fail-over, from the promotion to the next move.
FOLLOWED_SECONDS = 15
DELETED = "SELECT status = 'deleted' FROM farrier.nodes WHERE name = $1"
SLEEPS_NO_MORE = """
    SELECT count(*) = 0 FROM pg_stat_activity
     WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg_sleep%'
"""


@pytest.mark.full
async def test_nodes_move_again_within_15_s_of_the_promotion_after_the_primary_vanished() -> None:
    async with standby.replicated() as pair, replica(pair.dsn) as daemon:
        await daemon.until("daemon.ready")
        async with pair.db.connect() as client:
            await client.execute("SELECT farrier.register_node(name) FROM unnest(ARRAY['gpu-1', 'gpu-2']) name")
        await delete(pair.db, "gpu-1")
        await pair.db.until(DELETED, "gpu-1")
        async with pair.db.connect() as primary:
            written = await primary.fetchval("SELECT pg_current_wal_lsn()::text")
        await pair.standby.until("SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", written)
        await pair.fail_over()
        with anyio.fail_after(FOLLOWED_SECONDS):
            await delete(pair.standby, "gpu-2")
            await pair.standby.until(DELETED, "gpu-2")
        await until(lambda: is_ready(daemon))


async def delete(db: pg.Database, node: str) -> None:
    async with db.connect() as client:
        await client.execute("INSERT INTO farrier.intents (node, action) VALUES ($1, 'delete')", node)


async def is_ready(daemon: Farrier) -> bool:
    return (await daemon.get("/readyz")).status_code == 200


async def test_a_vanished_host_does_not_use_up_the_time_of_the_next_host(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as dead, proxy.before(db.dsn) as live:
        dead.drop()
        conn = await pool.connect(proxy.one_of(dead, live), patience=NOW, timeouts=SHORT)
        assert await conn.fetchval("SELECT 1") == 1
        await conn.close()


async def test_the_host_that_served_last_is_tried_first(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as dead, proxy.before(db.dsn) as live:
        dead.drop()
        opened = await pool.open_pool(proxy.one_of(dead, live), size=3, patience=NOW, timeouts=SHORT)
        async with opened.acquire(), opened.acquire(), opened.acquire():
            pass
        assert (dead.connections, live.connections) == (1, 3)
        opened.terminate()


async def test_where_no_host_serves_the_reason_of_each_is_given(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as dead, proxy.before(db.dsn) as other:
        dead.drop()
        await db.set_default("default_transaction_read_only", "on")
        with pytest.raises(errors.DatabaseUnreachable) as caught:
            await pool.connect(proxy.one_of(dead, other), patience=NOW, timeouts=SHORT)
    assert f"127.0.0.1:{dead.port}: no connection within the time limit (database.connect_timeout)" in str(caught.value)
    assert f"127.0.0.1:{other.port}: None of the hosts match" in str(caught.value)


async def test_a_statement_at_a_vanished_server_fails_and_the_next_goes_to_another_server(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as dead, proxy.before(db.dsn) as live:
        opened = await pool.open_pool(proxy.one_of(dead, live), size=3, patience=NOW, timeouts=SHORT)
        async with opened.acquire(), opened.acquire():
            pass
        dead.drop()
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            with pytest.raises(errors.DatabaseUnreachable, match="time limit"):
                async with session.borrowed(opened) as conn:
                    await conn.fetchval("SELECT 1")
            async with session.borrowed(opened) as first, session.borrowed(opened) as second:
                assert (await first.fetchval("SELECT 1"), await second.fetchval("SELECT 1")) == (1, 1)
        opened.terminate()


async def test_after_a_late_renewal_no_connection_to_the_silent_host_is_used_or_opened(db: pg.Database) -> None:
    long = pool.Timeouts(statement=timedelta(hours=1))
    async with proxy.before(db.dsn) as dead, proxy.before(db.dsn) as live:
        opened = await pool.open_pool(proxy.one_of(dead, live), size=2, patience=NOW, timeouts=long)
        async with opened.acquire(), opened.acquire():
            pass
        dead.drop()
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            with pytest.raises(errors.DatabaseUnreachable, match="no response within"):
                await PostgresControllers(opened).renew(uuid4(), {})
            assert await session.fetch(opened, "SELECT 1")
        assert dead.connections == 3, "two sessions, and the request to cancel the renewal"
        opened.terminate()


async def test_a_caller_that_gives_up_does_not_leave_its_connection_waiting_for_a_server_that_vanished(
    db: pg.Database,
) -> None:
    long = pool.Timeouts(statement=timedelta(hours=1))
    async with proxy.before(db.dsn) as dead, proxy.before(db.dsn) as live:
        opened = await pool.open_pool(proxy.one_of(dead, live), size=1, patience=NOW, timeouts=long)
        dead.drop()
        with anyio.fail_after(pg.PATIENCE.total_seconds()):
            with anyio.move_on_after(0.1):
                async with session.borrowed(opened) as conn:
                    await conn.fetchval("SELECT 1")
            async with session.borrowed(opened) as conn:  # the pool has only one connection
                assert await conn.fetchval("SELECT 1") == 1
        opened.terminate()


async def test_a_cancelled_statement_is_stopped_on_a_live_server(db: pg.Database) -> None:
    async with db.pool(size=1) as opened:
        with anyio.move_on_after(0.2):
            async with session.borrowed(opened) as conn:
                await conn.execute("SELECT pg_sleep(3600)")
        await db.until(SLEEPS_NO_MORE)


async def test_a_statement_that_timed_out_is_stopped_on_a_live_server(db: pg.Database) -> None:
    opened = await pool.open_pool(db.dsn, size=1, patience=NOW, timeouts=SHORT)
    with pytest.raises(errors.DatabaseUnreachable, match="time limit"):
        async with session.borrowed(opened) as conn:
            await conn.execute("SELECT pg_sleep(3600)")
    await db.until(SLEEPS_NO_MORE)
    opened.terminate()


async def test_connections_to_a_demoted_primary_are_not_used_again(db: pg.Database) -> None:
    async with db.pool(size=2) as opened:
        async with opened.acquire() as one, opened.acquire() as other:
            before = {await conn.fetchval("SELECT pg_backend_pid()") for conn in (one, other)}
            for demoted in (one, other):
                await demoted.execute("SET default_transaction_read_only = on")
        with pytest.raises(errors.DatabaseUnreachable, match="read-only"):
            async with session.borrowed(opened) as conn:
                await conn.execute("CREATE TABLE farrier.refused ()")
        async with session.borrowed(opened) as first, session.borrowed(opened) as second:
            after = {await conn.fetchval("SELECT pg_backend_pid()") for conn in (first, second)}
    assert len(after) == 2
    assert not before & after


async def test_listening_at_a_server_that_vanishes_is_given_up(db: pg.Database) -> None:
    async with proxy.before(db.dsn) as dead:
        listener = Listener(dead.dsn, wake=lambda *_: None, missed=lambda: None, timeouts=SHORT)
        dead.watch(lambda message: dead.drop() if message == 2 else None)  # the first message starts the session
        with anyio.fail_after(pg.PATIENCE.total_seconds()), pytest.raises(errors.DatabaseUnreachable):
            await listener.listen()


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://me:x@one:5433,two/db", [("one", 5433), ("two", 5432)]),
        ("postgresql://me@[fd00::1]:5433,[fd00::2]/db", [("fd00::1", 5433), ("fd00::2", 5432)]),
        ("postgresql://me@/db?host=one,two:6&port=5", [("one", 5), ("two", 6)]),
        ("postgresql://me@/db?host=/run/a,/run/b&port=5,6", [("/run/a", 5), ("/run/b", 6)]),
        ("postgresql://me@%2Frun%2Fa,two/db", [("/run/a", 5432), ("two", 5432)]),
        ("postgresql://one/db", []),
        ("postgresql://one:x,two/db", []),
        ("postgresql://one,/db", []),
    ],
)
def test_the_hosts_of_a_dsn_are_those_that_the_driver_reads(dsn: str, expected: list[tuple[str, int]]) -> None:
    assert [(host.name, host.port) for host in hosts.listed(dsn)] == expected
