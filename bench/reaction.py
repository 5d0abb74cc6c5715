"""How soon a request is answered by a committed transition, while the fleet is swept at its usual pace.

The daemon is a process of its own; this process is the client. It inserts an intent on a connection of its own and
waits on another for the notification that the commit sends which answers the intent and moves the node. The time is
from before the INSERT is sent until the notification is here: two trips to the server and whatever lies between.
"""

from __future__ import annotations

import itertools
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from statistics import quantiles
from typing import Any
from uuid import uuid4

import anyio
import msgspec

from bench import daemon, fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import PATIENCE, Ground
from bench.loop import CONTROLLER
from farrier.io import pool, statements
from farrier.io.node import NodeRows
from farrier.model.runs import Lane
from farrier.model.status import NodeStatus

# One after the other without a pause, as job queues are measured: for some seconds, in which the sweep comes round a
# hundred times. Pauses would add what this machine takes to wake up, for the floor as well.
_INTENTS = 2000
# Before them, so that each of the daemon's connections has planned each statement once.
_FIRST_INTENTS = 200
_FLOOR_INTENTS = 500
_ANSWER_SECONDS = 10

_ASK = "INSERT INTO farrier.intents (node, action, params) VALUES ($1, 'quarantine', '{\"reason\": \"benchmark\"}')"
_MOVED = "SELECT count(*) FROM farrier.nodes WHERE id = ANY ($1::bigint[]) AND status = $2"
_PENDING = "SELECT id FROM farrier.intents WHERE node_id = $1 AND status = 'pending'"
_CLAIM = statements.load("schedule/claim")
_COMMIT = statements.load("schedule/commit")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Client:
    """Asks, and waits for the answer."""

    def __init__(self, asking: pool.Single) -> None:
        self._asking = asking
        self._heard = anyio.Event()

    def hear(self, *_: Any) -> None:
        """The callback of the listening connection."""
        self._heard.set()

    async def ask(self, node: int) -> float:
        """Milliseconds from question to answer. One at a time: the notification does not say whose it is."""
        self._heard = anyio.Event()
        began = time.perf_counter()
        await self._asking.execute(_ASK, str(node))
        with anyio.fail_after(_ANSWER_SECONDS):
            await self._heard.wait()
        return (time.perf_counter() - began) * 1000


@asynccontextmanager
async def _listening(dsn: str, channel: str, callback: Callable[..., None]) -> AsyncIterator[None]:
    conn = await pool.connect(dsn, patience=PATIENCE)
    try:
        await conn.add_listener(channel, callback)
        yield
    finally:
        await conn.close()


@asynccontextmanager
async def _client(dsn: str) -> AsyncIterator[_Client]:
    asking = await pool.connect(dsn, patience=PATIENCE)
    try:
        client = _Client(asking)
        async with _listening(dsn, "farrier_intent_answered", client.hear):
            yield client
    finally:
        await asking.close()


async def _through_daemon(ground: Ground, nodes: list[int]) -> list[float]:
    async with daemon.running(ground.dsn), _client(ground.dsn) as client:
        took = [await client.ask(node) for node in nodes][_FIRST_INTENTS:]
    moved = await ground.pool.fetchval(_MOVED, nodes, NodeStatus.QUARANTINED.value)
    assert moved == len(nodes), f"{moved} of {len(nodes)} nodes are quarantined: an answer came without its transition"
    return took


async def _through_sql(ground: Ground, nodes: list[int]) -> list[float]:
    """The floor: whoever hears of a wake claims, loads, answers and releases, and decides nothing."""
    woken = anyio.Event()
    async with (
        ground.pool.acquire() as conn,
        _listening(ground.dsn, "farrier_wake", lambda *_: woken.set()),
        _client(ground.dsn) as client,
        anyio.create_task_group() as group,
    ):

        async def answer() -> None:
            nonlocal woken
            while True:
                await woken.wait()
                woken = anyio.Event()
                await _answer(conn)

        group.start_soon(answer)
        took = [await client.ask(node) for node in nodes]
        group.cancel_scope.cancel()
    return took


async def _answer(conn: pool.Connection) -> None:
    token = secrets.randbits(63)
    lane, batch = Lane.WOKEN.value, CONTROLLER.batch
    for row in await conn.fetch(_CLAIM, "node", lane, _EPOCH, batch, uuid4(), token, CONTROLLER.lease):
        if row["id"] is not None:
            await conn.fetch(NodeRows.load, [row["id"]])
            asked = [record["id"] for record in await conn.fetch(_PENDING, row["id"])]
            answers = [{"run": row["id"], "intent": intent, "status": "accepted"} for intent in asked]
            changes = msgspec.json.encode({"runs": [], "answers": answers}).decode()
            place = [row["id"]], [token], [Lane.PERIODIC.value], [CONTROLLER.period], [None], [None]
            nothing: list[Any] = [*[[]] * 12, None, None]
            await conn.fetch(_COMMIT, "node", uuid4(), False, NodeRows.writer, changes, *place, *nothing)


@asynccontextmanager
async def _reactions(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    untouched = _in_some_order(await fleet.ids(ground))

    async def measure() -> Readings:
        floor = _percentiles(await _through_sql(ground, list(itertools.islice(untouched, _FLOOR_INTENTS))))
        await fleet.spread(ground)
        took = _percentiles(await _through_daemon(ground, list(itertools.islice(untouched, _FIRST_INTENTS + _INTENTS))))
        return {name: Reading(took[name], floor[name] / took[name]) for name in took}

    yield measure


def _in_some_order(ids: list[int]) -> Iterator[int]:
    random.shuffle(ids)
    return iter(ids)


def _percentiles(took: list[float]) -> dict[str, float]:
    cuts = quantiles(took, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


REACTION = Benchmark(
    name="reaction",
    what="INSERT of an intent by one client → transition committed, while a daemon sweeps the fleet every 30 s",
    nodes=100_000,
    goals=(Goal("p50", "ms", Bound.AT_MOST, 2.5), Goal("p99", "ms", Bound.AT_MOST, 10.0)),
    open=_reactions,
)
