"""Measures the yardstick, which is the speed of plain SQL on this server, without any table or statement of farrier.

Machines differ: with a slow disk or busy neighbours, any program misses an absolute target. The runner measures the
yardstick before the first benchmark and after the last, so that a reader can separate the machine
from the program. If the target of a benchmark is a multiple of the yardstick, the benchmark measures the yardstick
before and after each of its own measurements. The tables of the yardstick are always dropped afterwards.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from statistics import median
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from bench.ground import PATIENCE, refuse_if_there
from farrier.io.connections import pool

_THINGS = 20_000
_BATCH = 500
# This is long enough for some hundred commits, so that one slow write has little effect.
_MOVING = timedelta(seconds=1)
_REQUESTS = 500
# These requests are sent before the measured requests, so that each connection has planned its statement.
_FIRST_REQUESTS = 50
# The time limit of all requests. If the disk is so slow that the limit is reached, fewer requests are enough.
_ASKING = timedelta(seconds=2)
_ANSWER_SECONDS = 10

_CREATE = """
    CREATE SCHEMA yardstick;
    CREATE TABLE yardstick.things (
        id bigint PRIMARY KEY, state text NOT NULL, version bigint NOT NULL, changed_at timestamptz NOT NULL);
    CREATE TABLE yardstick.history (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        thing bigint NOT NULL, state text NOT NULL, version bigint NOT NULL, changed_at timestamptz NOT NULL);
    CREATE TABLE yardstick.requests (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, thing bigint NOT NULL, state text NOT NULL);
"""
_FILL = "INSERT INTO yardstick.things SELECT id, 'here', 0, now() FROM generate_series(1, $1::bigint) id"
_DROP = "DROP SCHEMA yardstick CASCADE"
_MOVE = """
    WITH moved AS (
        UPDATE yardstick.things SET state = $2, version = version + 1, changed_at = now()
         WHERE id = ANY ($1::bigint[])
     RETURNING id, state, version, changed_at)
    INSERT INTO yardstick.history (thing, state, version, changed_at) SELECT * FROM moved
"""
# Each of these statements is one round trip to the server and one commit.
_ASK = """
    WITH asked AS (INSERT INTO yardstick.requests (thing, state) VALUES ($1, $2) RETURNING id)
    SELECT pg_notify('yardstick_asked', id::text) FROM asked
"""
_ANSWER = """
    WITH taken AS (
        DELETE FROM yardstick.requests
         WHERE id = (SELECT id FROM yardstick.requests ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
     RETURNING id, thing, state),
    moved AS (
        UPDATE yardstick.things t SET state = taken.state, version = t.version + 1, changed_at = now()
          FROM taken WHERE t.id = taken.thing
     RETURNING t.id, t.state, t.version, t.changed_at),
    kept AS (INSERT INTO yardstick.history (thing, state, version, changed_at) SELECT * FROM moved)
    SELECT pg_notify('yardstick_answered', id::text) FROM taken
"""
_KEPT = "SELECT count(*) FROM yardstick.history"


class Speed(msgspec.Struct, frozen=True):
    """The speed of plain SQL on one machine at one time."""

    transitions_per_second: float  # rows changed, each with a row of history, 500 per commit
    reaction_p50_ms: float  # from before a client's INSERT until it is notified that a worker has committed the answer


# The speed of plain SQL, without any code of farrier, on the two-core machine on which the targets were set.
WHERE_THE_TARGETS_WERE_SET = Speed(transitions_per_second=80_000, reaction_p50_ms=0.75)


class Yardstick(msgspec.Struct, frozen=True):
    """The speed of this machine before the first benchmark and after the last, and the speed of the reference
    machine."""

    before: Speed
    after: Speed
    where_the_targets_were_set: Speed = WHERE_THE_TARGETS_WERE_SET


async def take(dsn: str) -> Speed:
    """Measure the speed for some two seconds. Raises ConfigError if the database already has a schema `yardstick` or
    `farrier`."""
    async with _connected(dsn) as conn:
        await refuse_if_there(conn, "farrier")  # a controller may run there, and change the figures
    return await beside(dsn)


async def beside(dsn: str) -> Speed:
    """Measure the speed while an idle schema `farrier` exists."""
    async with tables(dsn):
        return Speed(await transitions_per_second(dsn), await reaction_p50_ms(dsn))


def between(before: Speed, after: Speed) -> Speed:
    """Return the speed of the machine during another measurement, from the speeds before and after it."""
    return Speed(
        (before.transitions_per_second + after.transitions_per_second) / 2,
        (before.reaction_p50_ms + after.reaction_p50_ms) / 2,
    )


@asynccontextmanager
async def tables(dsn: str) -> AsyncIterator[None]:
    """Create the tables of things, their history and requests, and drop them after the block. If there is a schema
    `yardstick`, raises ConfigError and changes nothing."""
    async with _connected(dsn) as conn:
        await refuse_if_there(conn, "yardstick")
        await conn.execute(_CREATE)
        try:
            await conn.execute(_FILL, _THINGS)
            await conn.execute("VACUUM ANALYZE yardstick.things")
            # If an earlier benchmark left dirty buffers, they must not be written during the measurement.
            await conn.execute("CHECKPOINT")
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await conn.execute(_DROP)


async def transitions_per_second(dsn: str) -> float:
    """Return the rows changed per second, in batches on one connection. A first round over all things does not
    count."""
    moves = _moves()
    async with _connected(dsn) as conn:
        for batch, state in itertools.islice(moves, _THINGS // _BATCH):
            await conn.execute(_MOVE, batch, state)
        before = await conn.fetchval(_KEPT)
        moved, took, began = 0, 0.0, time.perf_counter()
        while took < _MOVING.total_seconds():
            await conn.execute(_MOVE, *next(moves))
            moved, took = moved + _BATCH, time.perf_counter() - began
        kept = await conn.fetchval(_KEPT) - before
    assert kept == moved, f"{moved} things were moved, but {kept} rows of history kept"
    return moved / took


async def reaction_p50_ms(dsn: str) -> float:
    """Return the median time of requests that follow one after another. Client and worker have one connection each, and
    run in this process."""
    async with _connected(dsn) as asking, _connected(dsn) as working, anyio.create_task_group() as group:
        await group.start(_work, working)
        took = await _ask(asking)
        group.cancel_scope.cancel()
    return median(took)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[pool.Single]:
    conn = await pool.connect(dsn, patience=PATIENCE)
    try:
        yield conn
    finally:
        await conn.close()


def _moves() -> Iterator[tuple[range, str]]:
    """Yield batches of all things with their next state, which alternates, without an end."""
    batches = [range(first, first + _BATCH) for first in range(1, _THINGS + 1, _BATCH)]
    return ((batch, state) for state in itertools.cycle(("there", "here")) for batch in batches)


class _Bell:
    """Records whether the server has notified since the last `heard`."""

    def __init__(self) -> None:
        self._rung = anyio.Event()

    def ring(self, *_: Any) -> None:
        """Receive a notification of the listening connection."""
        self._rung.set()

    async def heard(self) -> None:
        await self._rung.wait()
        self._rung = anyio.Event()


async def _work(conn: pool.Single, *, task_status: TaskStatus[None]) -> None:
    """Run the worker, which answers each intent when it is notified."""
    bell = _Bell()
    await conn.add_listener("yardstick_asked", bell.ring)
    task_status.started()
    while True:
        await bell.heard()
        await conn.fetchval(_ANSWER)  # execute() would plan the statement each time


async def _ask(conn: pool.Single) -> list[float]:
    """Run the client. Returns how many milliseconds each request took."""
    bell, things = _Bell(), itertools.count(1)
    await conn.add_listener("yardstick_answered", bell.ring)

    async def one() -> float:
        began = time.perf_counter()
        await conn.fetchval(_ASK, next(things), "elsewhere")
        with anyio.fail_after(_ANSWER_SECONDS):
            await bell.heard()
        return (time.perf_counter() - began) * 1000

    for _ in range(_FIRST_REQUESTS):
        await one()
    took: list[float] = []
    end = time.perf_counter() + _ASKING.total_seconds()
    while len(took) < _REQUESTS and time.perf_counter() < end:
        took.append(await one())
    return took
