"""The schema of the next release is applied while a daemon of this release works: it goes on, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import pytest

from farrier.errors import ExitCode
from farrier.io.connections.lock_timeout import LockPatience
from farrier.io.connections.pool import Connection
from farrier.io.schema import catalog, migrate
from tests.support import pg, process, releases
from tests.support import site as sites
from tests.support.catalogs import catalogs
from tests.support.process import replica, until

NEXT = releases.following()
PATIENCE = LockPatience(wait=timedelta(seconds=2), pause=timedelta(milliseconds=100), tries=100)
MIGRATORS = 4

NODES = 20
# Every node is quarantined, then released, and so on: one intent for each node per round.
ASK = """
    INSERT INTO farrier.intents (node, action, params)
    SELECT n.name, $1::text, '{"reason": "a test"}' FROM farrier.nodes n WHERE n.name LIKE 'rack-%'
"""
TURNS = ("quarantine", "release")
PENDING = "SELECT count(*) FROM farrier.intents WHERE status = 'pending'"
UNACCEPTED = "SELECT DISTINCT status, reason FROM farrier.intents WHERE status <> 'accepted'"
# Intents that did not move their node exactly once.
UNMOVED = """
    SELECT i.id, i.action, count(h.id) FROM farrier.intents i
      LEFT JOIN farrier.history h ON h.cause = 'intent ' || i.id AND h.layer = 'status'
     WHERE i.action IN ('quarantine', 'release') GROUP BY i.id HAVING count(h.id) <> 1
"""
FAILED = "SELECT kind, id, outcome::text FROM farrier.outcomes WHERE outcome ? 'error'"
# Transitions of a layer that do not begin with the value that the previous one ended with, or that repeat a version.
GAPS = """
    SELECT * FROM (
        SELECT h.kind, h.id, h.layer, h.version, h.from_value, h.to_value,
               lag(h.to_value) OVER each AS was, lag(h.version) OVER each AS version_before
          FROM farrier.history h WINDOW each AS (PARTITION BY h.kind, h.id, h.layer ORDER BY h.version)) h
     WHERE h.version_before IS NOT NULL AND (h.from_value <> h.was OR h.version = h.version_before)
"""

# The events that a daemon logs when a statement fails and will be repeated.
DONE_AGAIN = {
    f"{statement}.failed" for statement in ("renew", "poll", "load", "mark", "commit", "settle", "give_back", "pulse")
}


@pytest.fixture
async def db(pg_server: pg.Server) -> AsyncIterator[pg.Database]:
    """A database as an operator has it: of this release, with nodes in several states."""
    async with pg_server.copy(pg.EMPTY) as database:
        async with database.connect() as conn:
            await migrate.migrate(conn, after=catalog.sync)
        async with sites.opened(database) as site:
            for number in range(NODES):
                token = f"token-{number}"
                machine = await site.register(f"rack-{number}", bootstrap_token=token)
                await (await machine.enroll(token)).beat()
            await site.removing()
            await site.draining()
            await site.active()
            await site.register()
        yield database


class Client:
    """A client that inserts intents round after round, each when the intents of the last one are answered."""

    def __init__(self, db: pg.Database) -> None:
        self._db = db
        self._stop = False
        self._ended = anyio.Event()
        self.turns = 0

    async def run(self) -> None:
        async with self._db.connect() as conn:
            while not self._stop:
                await conn.execute(ASK, TURNS[self.turns % len(TURNS)])
                await until(lambda: none(conn, PENDING))
                self.turns += 1
        self._ended.set()

    async def stop(self) -> None:
        """Return once the intents of the round that has begun are answered; no other round begins."""
        self._stop = True
        with anyio.fail_after(process.PATIENCE):
            await self._ended.wait()

    async def takes(self, turns: int) -> None:
        """Return once the client has completed so many more rounds."""
        wanted = self.turns + turns
        with anyio.fail_after(process.PATIENCE):
            while self.turns < wanted:
                await anyio.lowlevel.checkpoint()


async def none(conn: Connection, count: str) -> bool:
    return not await conn.fetchval(count)


async def apply_at_once(db: pg.Database) -> None:
    """Run several migrators at once; the first commits only when the daemon and the client wait for its locks."""
    applied: list[tuple[int, ...]] = []

    async def held(conn: Connection) -> None:
        await catalog.sync(conn)
        if not applied:
            await db.until_blocked(2)

    async def one() -> None:
        async with db.connect() as conn:
            done = await migrate.migrate(conn, schema=NEXT, after=held, patience=PATIENCE)
            applied.append(done.versions)

    async with anyio.create_task_group() as group:
        for _ in range(MIGRATORS):
            group.start_soon(one)
    assert sorted(applied) == [()] * (MIGRATORS - 1) + [(2,)]


async def catalogs_of_new(server: pg.Server) -> set[str]:
    async with server.copy(pg.EMPTY) as database, database.connect() as conn:
        await migrate.migrate(conn, schema=NEXT, after=catalog.sync)
        return await catalogs(conn)


@pytest.mark.full
async def test_a_daemon_goes_on_while_the_next_release_is_applied_and_loses_nothing(
    pg_server: pg.Server, db: pg.Database
) -> None:
    client = Client(db)
    async with replica(db.dsn) as daemon, anyio.create_task_group() as group:
        await daemon.until("daemon.ready")
        group.start_soon(client.run)
        await client.takes(2)
        await apply_at_once(db)
        async with db.connect() as conn:
            await conn.execute("SELECT farrier.set_bay('rack-1', 'r2')")
        await client.takes(2)
        await client.stop()
        async with db.connect() as conn:
            assert await conn.fetch(UNACCEPTED) == []
            assert await conn.fetch(FAILED) == []
            assert await conn.fetch(GAPS) == []
            assert await conn.fetch(UNMOVED) == []
            assert await catalogs(conn) == await catalogs_of_new(pg_server)
            assert await conn.fetchval("SELECT bay FROM farrier.nodes WHERE name = 'rack-1'") == "r2"
        assert (await daemon.get("/readyz")).status_code == 200
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == ExitCode.OK
    assert {event["event"] for event in daemon.events if event["level"] not in ("debug", "info")} <= DONE_AGAIN


async def test_a_daemon_of_the_release_before_does_not_start_on_an_upgraded_database(db: pg.Database) -> None:
    async with db.connect() as conn:
        await migrate.migrate(conn, schema=NEXT, after=catalog.sync)
    async with replica(db.dsn) as daemon:
        assert await daemon.ended() == ExitCode.SCHEMA_TOO_NEW
    assert "upgrade farrier" in (await daemon.until("process.failed"))["error"]
