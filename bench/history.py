"""Measures the speed of reading and removing history with ten million changes.

The benchmark reads pages at the beginning, in the middle and at the end of two lists: all changes, and the changes of
one node. The benchmark also reads a page without matches, and removes old changes. The changes span a hundred days, in
the order in which a fleet makes them. One node makes a thousand changes a day, which is more than a node with a dead
BMC makes.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from statistics import quantiles

import msgspec

from bench import fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from farrier.io.calls.retention import PostgresRetention
from farrier.io.queries.lists import PostgresQueries
from farrier.model.views.history import HistoryFilter, HistoryKey, Order

_DAYS = 100
# The number of changes of the node that changes most often.
_RESTLESS = 100_000
# The API's default number of rows.
_PAGE = 100
_SAMPLES = 200
# A tenth of all changes: one million of ten million.
_DAYS_REMOVED = _DAYS // 10

_NODES = """
    INSERT INTO farrier.nodes (name, status, management)
    SELECT 'gpu-' || n, 'active', 'unmanaged' FROM generate_series(1, $1::integer) n
"""
_REACH = "SELECT max(id), farrier.now() - $1::interval FROM farrier.nodes"
_DAY = """
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason,
                                 source, controller, epoch)
    SELECT 'node', n.id, $2::integer, CASE WHEN $2 % 4 < 2 THEN 'status' ELSE 'management' END,
           CASE WHEN $2 % 2 = 0 THEN 'active' ELSE 'offline' END, CASE WHEN $2 % 2 = 0 THEN 'offline' ELSE 'active' END,
           $1::timestamptz + $2 * interval '1 day' + n.id * interval '1 day' / $3::integer, 86400, 'timer: heartbeat',
           'no heartbeat for 3m 1s, the limit is 3m', 'handlers/node/serving.py:55', gen_random_uuid(), n.id
      FROM farrier.nodes n
     ORDER BY n.id
"""
_RESTLESS_NODE = """
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason,
                                 source, controller, epoch)
    SELECT 'node', n.id, 1000 + v, 'management', 'verifying', 'enroll',
           $1::timestamptz + v * interval '100 days' / $2::integer, 60, 'step: verify',
           'the BMC does not answer: no connection in time', 'handlers/node/rules/management.py:173',
           gen_random_uuid(), v
      FROM (SELECT max(id) AS id FROM farrier.nodes) n, generate_series(1, $2) v
"""


class _Past(msgspec.Struct, frozen=True):
    """The generated history: its beginning, the ID of the last node, its size, and how long the generation took."""

    began: datetime
    last: int
    rows: int
    seconds: float


@asynccontextmanager
async def _filled(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    past = await _fill(ground, nodes)
    removed = 0

    async def measure() -> Readings:
        nonlocal removed
        readings = {"fill": Reading(past.rows / past.seconds)}
        queries, chance = PostgresQueries(ground.pool), random.Random(removed)
        worst = 0.0
        for name, (order, wanted, keys) in _walks(past, chance, removed).items():
            p50, p99 = await _pages(queries, order, wanted, keys)
            readings[name] = Reading(p99)
            worst = max(worst, p50)
        readings["worst_p50"] = Reading(worst)
        nothing = HistoryFilter(targets=("retired",))
        _, readings_of_nothing = await _pages(queries, Order.NEWEST, nothing, _times(past, chance, 0.3, 0.7))
        readings["nothing_wanted"] = Reading(readings_of_nothing)
        removed += _DAYS_REMOVED
        readings["removed"] = Reading(await _remove(ground, timedelta(days=_DAYS - removed)))
        return readings

    yield measure


async def _fill(ground: Ground, nodes: int) -> _Past:
    pool = ground.pool
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(fleet.WITHOUT_GUARDS)
        await conn.execute(_NODES, nodes)
        await conn.execute(fleet.WITH_GUARDS)
    ((last, began),) = await pool.fetch(_REACH, timedelta(days=_DAYS + 1))
    start = time.perf_counter()
    for day in range(1, _DAYS + 1):
        await pool.execute(_DAY, began, day, nodes)
    await pool.execute(_RESTLESS_NODE, began, _RESTLESS)
    seconds = time.perf_counter() - start
    await fleet.settle(ground)
    return _Past(began, last, nodes * _DAYS + _RESTLESS, seconds)


_Walk = tuple[Order, HistoryFilter, Sequence[HistoryKey]]


def _walks(past: _Past, chance: random.Random, removed: int) -> Mapping[str, _Walk]:
    """Return the keys at which the measured pages of each list begin. The lists are in descending order of time, so the
    first page is the newest."""
    everything, restless = HistoryFilter(), HistoryFilter(resource=("node", str(past.last)))
    gone = (removed + 2) / _DAYS
    parts = {"first": (0.98, 0.99), "middle": (0.5, 0.6), "last": (gone, gone + 0.02)}
    walks: dict[str, _Walk] = {}
    for part, (low, high) in parts.items():
        walks[f"time_{part}"] = Order.NEWEST, everything, _times(past, chance, low, high)
        walks[f"one_{part}"] = Order.NEWEST, restless, _versions(past, chance, low, high)
    return walks


def _times(past: _Past, chance: random.Random, low: float, high: float) -> Sequence[HistoryKey]:
    days = [timedelta(days=_DAYS * chance.uniform(low, high)) for _ in range(_SAMPLES)]
    return [HistoryKey(past.began + day, past.last, 0, "node", "status") for day in days]


def _versions(past: _Past, chance: random.Random, low: float, high: float) -> Sequence[HistoryKey]:
    versions = [1000 + int(_RESTLESS * chance.uniform(low, high)) for _ in range(_SAMPLES)]
    return [HistoryKey(past.began, past.last, version, "node", "management") for version in versions]


async def _pages(
    queries: PostgresQueries, order: Order, wanted: HistoryFilter, keys: Sequence[HistoryKey]
) -> tuple[float, float]:
    """Return the median and the 99th percentile of the milliseconds of a page."""
    took = []
    for key in keys:
        began = time.perf_counter()
        await queries.history(wanted, order=order, after=key, limit=_PAGE)
        took.append((time.perf_counter() - began) * 1000)
    cuts = quantiles(took, n=100)
    return cuts[49], cuts[98]


async def _remove(ground: Ground, older_than: timedelta) -> float:
    """Return the number of changes removed per second, without the pauses that a daemon makes."""
    retention = PostgresRetention(ground.pool)
    began, deleted, key = time.perf_counter(), 0, None
    while True:
        step = await retention.prune(older_than, after=key, really=True)
        deleted += step.deleted
        key = step.following
        if key is None:
            return deleted / (time.perf_counter() - began)


def _at_most(name: str, target: float) -> Goal:
    return Goal(name, "ms", Bound.AT_MOST, target)


HISTORY = Benchmark(
    name="history",
    what="100 changes of each node: the 99th percentile of pages of 100 changes, of all nodes by "
    "time and of one node; the rate at which changes are removed",
    nodes=100_000,
    goals=(
        Goal("fill", "/s", Bound.AT_LEAST, 20_000),
        *(_at_most(f"{way}_{part}", 10) for way in ("time", "one") for part in ("first", "middle", "last")),
        _at_most("worst_p50", 5),
        _at_most("nothing_wanted", 50),
        Goal("removed", "/s", Bound.AT_LEAST, 10_000),
    ),
    open=_filled,
)
