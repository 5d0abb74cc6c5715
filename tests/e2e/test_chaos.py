"""Real processes on a real database: the tests kill, pause, add and stop them while clients insert intents."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg
import pytest
from anyio.abc import TaskGroup, TaskStatus

from farrier.config import DatabaseConfig
from farrier.io.kinds import packages
from farrier.io.kinds.packages import Installable
from tests.support import again, lamps, pg, pgbouncer, standby
from tests.support.process import Farrier, farrier

LAMPS = 150
ROUNDS = 6
PATIENCE = 120.0

OVERLAPPING = """
    SELECT a.lamp, a.pid, b.pid FROM public.presses a JOIN public.presses b ON a.lamp = b.lamp AND a.id <> b.id
     WHERE a.ended_at IS NOT NULL AND b.begun_at > a.begun_at AND b.begun_at < a.ended_at
"""
NONE_UNANSWERED = "SELECT NOT EXISTS (SELECT FROM farrier.resource_intents WHERE kind = 'lamp' AND status = 'pending')"
FEW_UNANSWERED = "SELECT count(*) < 50 FROM farrier.resource_intents WHERE kind = 'lamp' AND status = 'pending'"
# Whether a process was declared dead.
FEWER = "SELECT count(*) < 3 FROM farrier.controllers WHERE NOT expired"
REJECTED = "SELECT count(*) FROM farrier.resource_intents WHERE kind = 'lamp' AND status = 'rejected'"
# Transitions that do not begin with the value that the previous one ended with, or whose epoch is lower.
BROKEN_HISTORY = """
    SELECT * FROM (
        SELECT id, version, from_value, epoch, lag(to_value) OVER w AS before, lag(epoch) OVER w AS epoch_before
          FROM farrier.history WHERE kind = 'lamp' WINDOW w AS (PARTITION BY id ORDER BY version)) h
     WHERE h.before IS NOT NULL AND (h.from_value IS DISTINCT FROM h.before OR h.epoch < h.epoch_before)
"""
MOVES = "SELECT count(*) FROM farrier.history WHERE kind = 'lamp' AND from_value IS NOT NULL"
TOGGLES = (
    "SELECT count(*) FROM farrier.resource_intents WHERE kind = 'lamp' AND action = 'toggle' AND status = 'accepted'"
)


class Replicas:
    """The processes that run; tests start, kill, stop and pause them."""

    def __init__(self, chaos: Chaos, tasks: TaskGroup, environment: dict[str, str]) -> None:
        self.chaos = chaos
        self._tasks = tasks
        self._environment = environment
        self.running: list[Farrier] = []

    async def start(self) -> None:
        self.running.append(await self._tasks.start(self._live))

    async def _live(self, *, task_status: TaskStatus[Farrier]) -> None:
        async with farrier("run", "--metrics-port", "0", environment=self._environment) as daemon:
            await daemon.until("daemon.ready")
            task_status.started(daemon)
            await daemon.is_over()

    async def kill(self) -> None:
        daemon = self.running.pop(random.randrange(len(self.running)))
        daemon.send(signal.SIGKILL)
        await daemon.ended()

    async def stop(self) -> None:
        daemon = self.running.pop(random.randrange(len(self.running)))
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0, daemon.logged[-3000:]

    async def pause(self) -> None:
        """Stop one process by SIGSTOP until its peers have declared it dead; then let it continue."""
        daemon = random.choice(self.running)
        daemon.send(signal.SIGSTOP)
        await self.chaos.until(FEWER)
        daemon.send(signal.SIGCONT)


async def install(conn: asyncpg.Connection) -> None:
    await packages.install(conn, Installable(spec=lamps.SPEC, sql=lamps.SQL, columns=lamps.LAMP.needed_columns()))


async def found(conn: asyncpg.Connection, query: str) -> list[tuple[Any, ...]]:
    return [tuple(record) for record in await conn.fetch(query)]


class Chaos:
    """A fleet of lamps, three processes, clients that insert intents all the time, and the checks made at the end."""

    def __init__(self, farrier_db: pg.Database, traces: pg.Database, dsn: str, **settings: str) -> None:
        """The processes reach the database by `dsn`."""
        self.db = farrier_db
        self._traces = traces
        self._environment = {
            "FARRIER_DATABASE_DSN": dsn,
            "FARRIER_CONTROLLER_KINDS": lamps.NAME,
            lamps.DSN: traces.dsn,
            **settings,
        }

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[Replicas]:
        """Clients insert intents until the end of the block; then every intent is answered, and the processes stop."""
        async with self._traces.connect() as conn:
            await conn.execute(lamps.TRACES)
        async with self.db.connect() as conn:
            await install(conn)
            for number in range(1, LAMPS + 1):
                await conn.execute("SELECT farrier.resource_intent('lamp', $1, 'create', '{}')", f"lamp-{number}")
        async with anyio.create_task_group() as tasks:
            replicas = Replicas(self, tasks, self._environment)
            for _ in range(3):
                await replicas.start()
            enough = anyio.Event()
            async with anyio.create_task_group() as clients:
                clients.start_soon(self._ask, enough)
                yield replicas
                enough.set()
            await self.until(NONE_UNANSWERED)
            for daemon in replicas.running:
                daemon.send(signal.SIGTERM)
            for daemon in replicas.running:
                assert await daemon.ended() == 0

    async def until(self, query: str, *arguments: object) -> None:
        """Wait until the query returns true on the database that is the primary at that moment."""
        with anyio.fail_after(PATIENCE):
            async with self.db.connect() as conn:
                while not await conn.fetchval(query, *arguments):
                    await again.later()

    async def some_moves(self) -> None:
        """Wait until a few hundred more transitions of lamps are recorded."""
        async with self.db.connect() as conn:
            moves = await conn.fetchval(MOVES)
        await self.until(f"SELECT ({MOVES}) > $1", moves + 300)

    async def _ask(self, enough: anyio.Event) -> None:
        """Toggle one lamp after another, some at a time; when the primary vanishes, go on with its successor."""
        while not enough.is_set():
            db = self.db
            async with db.connect() as conn:
                while not enough.is_set() and self.db is db:
                    name = f"lamp-{random.randint(1, LAMPS)}"
                    # Without a limit, a query to a primary whose standby was promoted would wait for ever.
                    with anyio.move_on_after(1):
                        if await conn.fetchval(FEW_UNANSWERED):
                            await conn.execute("SELECT farrier.resource_intent('lamp', $1, 'toggle', '{}')", name)

    async def require_order(self) -> None:
        async with self._traces.connect() as traces:
            assert await found(traces, OVERLAPPING) == []
        async with self.db.connect() as conn:
            assert await found(conn, BROKEN_HISTORY) == []
            assert await conn.fetchval(REJECTED) == 0
            assert await conn.fetchval(MOVES) == await conn.fetchval(TOGGLES)
            assert await conn.fetchval("SELECT count(*) FROM farrier.wakes WHERE kind = 'lamp'") == 0
            assert await conn.fetchval("SELECT count(*) FROM farrier.effects WHERE kind = 'lamp'") == 0


async def misfortunes(replicas: Replicas, rounds: int) -> None:
    for number in range(rounds):
        await replicas.chaos.some_moves()
        await (replicas.kill, replicas.pause, replicas.stop)[number % 3]()
        while len(replicas.running) < 3:
            await replicas.start()


@pytest.mark.full
@pytest.mark.timeout(400)
async def test_no_intent_is_lost_or_done_twice_while_processes_are_killed_and_paused(
    db: pg.Database, empty_db: pg.Database
) -> None:
    random.seed(20261123)
    chaos = Chaos(db, empty_db, db.dsn)
    # A transaction with an xid stays open for the whole run, so no poll raises its floor.
    async with db.connect() as old, chaos.going_on() as replicas:
        await old.execute("BEGIN")
        await old.execute("SELECT pg_current_xact_id()")
        await misfortunes(replicas, ROUNDS)
    await chaos.require_order()


@pytest.mark.full
@pytest.mark.timeout(400)
async def test_no_intent_is_lost_behind_a_transaction_pooler(db: pg.Database, empty_db: pg.Database) -> None:
    random.seed(20261124)
    # A process that is stopped within a statement keeps its session on the server, so there are more sessions than one
    # process can use.
    with pgbouncer.before(db.dsn, sessions=2 * DatabaseConfig().pool_max) as pooled:
        chaos = Chaos(db, empty_db, pooled, FARRIER_DATABASE_PGBOUNCER="true")
        async with chaos.going_on() as replicas:
            await misfortunes(replicas, 3)
        await chaos.require_order()


@pytest.mark.full
@pytest.mark.timeout(400)
async def test_no_intent_is_lost_when_a_synchronous_standby_is_promoted(empty_db: pg.Database) -> None:
    random.seed(20261125)
    async with standby.replicated(synchronous=True) as pair:
        chaos = Chaos(pair.db, empty_db, pair.dsn)
        async with chaos.going_on() as replicas:
            await chaos.some_moves()
            await pair.fail_over()
            chaos.db = pair.standby
            await misfortunes(replicas, 1)
        await chaos.require_order()
