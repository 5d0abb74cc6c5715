"""Measures the time from an intent to its committed transition, while the fleet is swept at its usual rate.

The daemon is a separate process; this process is the client. The client inserts an intent on one connection. On another
connection it waits for the notification of the commit that answers the intent and changes the node. The time begins
before the client sends the INSERT, and ends when the notification arrives. The time includes two round trips to the
server and the work between them. The floor is the same client beside a worker of two statements (`bare_worker`).
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import Any

import anyio

from bench import daemon, fleet, yardstick
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import PATIENCE, Ground
from farrier.io.connections import pool
from farrier.model.node.layers import NodeStatus

# The client sends these intents one after another without a pause for some seconds. With pauses, the figures (and the
# yardstick) would include the time that an idle CPU needs to wake up.
_INTENTS = 2000
_ANSWER_SECONDS = 10

# Like a service, the client declares the version of the API. Otherwise, each INSERT would return a notice.
_ASK = (
    "INSERT INTO farrier.intents (node, action, params, api_version) "
    "VALUES ($1, 'quarantine', '{\"reason\": \"benchmark\"}', 1)"
)
_MOVED = "SELECT count(*) FROM farrier.nodes WHERE id = ANY ($1::bigint[]) AND status = $2"
_COUNT = "SELECT count(*) FROM farrier.nodes"


class Client:
    """Submits an intent, and waits for its answer."""

    def __init__(self, asking: pool.Single) -> None:
        self._asking = asking
        self._heard, self._heard_at = anyio.Event(), 0.0

    def hear(self, *_: Any) -> None:
        """Receive a notification of the listening connection."""
        self._heard_at = time.perf_counter()
        self._heard.set()

    async def ask(self, node: int) -> float:
        """Return the milliseconds from an intent to its answer. Calls must not overlap, because the notification does
        not name the intent."""
        self._heard = anyio.Event()
        began = time.perf_counter()
        await self._asking.execute(_ASK, str(node))
        with anyio.fail_after(_ANSWER_SECONDS):
            await self._heard.wait()
        return (self._heard_at - began) * 1000


@asynccontextmanager
async def _listening(dsn: str, channel: str, callback: Callable[..., None]) -> AsyncIterator[None]:
    conn = await pool.connect(dsn, patience=PATIENCE)
    try:
        await conn.add_listener(channel, callback)
        yield
    finally:
        await conn.close()


@asynccontextmanager
async def client(dsn: str) -> AsyncIterator[Client]:
    asking = await pool.connect(dsn, patience=PATIENCE)
    try:
        opened = Client(asking)
        async with _listening(dsn, "farrier_intent_answered", opened.hear):
            yield opened
    finally:
        await asking.close()


async def _through_daemon(ground: Ground, nodes: list[int]) -> list[float]:
    async with daemon.running(ground.dsn) as process, client(ground.dsn) as opened:
        await process.until_runs(await ground.pool.fetchval(_COUNT))
        return await _asked(ground, opened, nodes)


async def through_bare_worker(ground: Ground, nodes: list[int]) -> list[float]:
    """Return the milliseconds of each reaction of the floor."""
    command = [sys.executable, "-m", "bench.bare_worker", ground.dsn]
    async with await anyio.open_process(command, stderr=None, start_new_session=True) as process:
        assert process.stdout is not None, "it is a pipe by default"
        try:
            with anyio.fail_after(PATIENCE.total_seconds()):
                await process.stdout.receive()
            async with client(ground.dsn) as opened:
                return await _asked(ground, opened, nodes)
        finally:
            process.terminate()


async def _asked(ground: Ground, opened: Client, nodes: list[int]) -> list[float]:
    took = [await opened.ask(node) for node in nodes]
    moved = await ground.pool.fetchval(_MOVED, nodes, NodeStatus.QUARANTINED.value)
    assert moved == len(nodes), f"{moved} of {len(nodes)} nodes are quarantined: an answer came without its transition"
    return took


@asynccontextmanager
async def _reactions(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    untouched = _in_some_order(await fleet.ids(ground))

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        took = percentiles(await _through_daemon(ground, list(itertools.islice(untouched, _INTENTS))))
        machine = yardstick.between(before, await yardstick.beside(ground.dsn)).reaction_p50_ms
        floor = percentiles(await through_bare_worker(ground, list(itertools.islice(untouched, _INTENTS))))
        return {
            "of_yardstick": Reading(took["p50"] / machine),
            "p99_of_yardstick": Reading(took["p99"] / machine),
            "p50": Reading(took["p50"], floor["p50"] / took["p50"]),
            "p99": Reading(took["p99"], floor["p99"] / took["p99"]),
        }

    yield measure


def _in_some_order(ids: list[int]) -> Iterator[int]:
    random.shuffle(ids)
    return iter(ids)


def percentiles(took: list[float]) -> dict[str, float]:
    cuts = quantiles(took, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


REACTION = Benchmark(
    name="reaction",
    what="time from a client's INSERT of an intent until its transition is committed, while a "
    "daemon sweeps the fleet every 30 s; divided by the yardstick's p50",
    nodes=100_000,
    goals=(
        Goal("of_yardstick", "×", Bound.AT_MOST, 5),
        Goal("p99_of_yardstick", "×", Bound.AT_MOST, 9.5),
        Goal("p50", "ms"),
        Goal("p99", "ms"),
    ),
    open=_reactions,
)
