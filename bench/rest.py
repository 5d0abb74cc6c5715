"""Measures the cost of an idle fleet: CPU time, WAL and row updates of a daemon and its PostgreSQL.

The measurement lasts for the interval in which the daemon loads every snapshot again, so it includes each of these
loads once. PostgreSQL must run on this machine, because the benchmark reads the CPU time of its processes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import msgspec

from bench import bmc_polls, daemon, fleet, postgres
from bench.bmc_fleet import bmc_fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import CONTROLLER

_MINUTE = timedelta(minutes=1)
_TEN_MINUTES = timedelta(minutes=10)
# Within this time after the last node was loaded, the outcome of its run is committed, and PostgreSQL has counted the
# commit.
_WARM_UP_SECONDS = 10
_BMC_WARM_UP_SECONDS = 35
# This is enough time for the first runs of a million nodes, because even a slow machine makes 2,600 runs a second.
_START_PATIENCE_SECONDS = 1800
# The interval at which a controller reports its lag.
_LOOK_SECONDS = 2.0
# The number of nodes for which the targets are set. A machine with two processors cannot poll as many BMCs.
_FLEET = 100_000

_LOG = "SELECT pg_current_wal_insert_lsn() - '0/0'"
# The numbers of changed rows: in the tables in which a controller records itself, and in all other tables.
_CHANGES = """
    SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del) FILTER (WHERE relname = ANY ($1)), 0),
           coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del) FILTER (WHERE relname <> ALL ($1)), 0)
      FROM pg_stat_user_tables WHERE schemaname = 'farrier'
"""
# The tables that a controller writes, however many nodes it has.
_ITS_OWN = ["controllers", "pulse", "marks"]
_START_IS_OVER = 1.0  # by the lag, in seconds
_LAG = "SELECT max(l) FROM farrier.controllers c, unnest(c.lags) l"


class _Seen(msgspec.Struct, frozen=True):
    """The totals of a daemon and its PostgreSQL since they were started."""

    at: float
    daemon: float
    postgres: float
    log: float
    own_changes: float
    changes: float


async def _look(ground: Ground, process: daemon.Running, postmaster: int) -> _Seen:
    log = float(await ground.pool.fetchval(_LOG))
    [(own, others)] = await ground.pool.fetch(_CHANGES, _ITS_OWN)
    at, busy = time.perf_counter(), postgres.seconds(postmaster)
    return _Seen(at, process.cpu_seconds(), busy, log, float(own), float(others))


def _between(before: _Seen, after: _Seen, *, times: float = 1) -> dict[str, Reading]:
    """Return the figures from two measurements of the totals. `times` scales the changes of nodes to a fleet that is
    `times` as large."""
    took = after.at - before.at
    changes = after.own_changes - before.own_changes + (after.changes - before.changes) * times
    busy = after.daemon - before.daemon, after.postgres - before.postgres
    return {
        "cpu": Reading(sum(busy) / took),
        "cpu_daemon": Reading(busy[0] / took),
        "wal": Reading((after.log - before.log) / took / 1000),
        "updates": Reading(changes / took),
    }


@asynccontextmanager
async def _at_rest(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    postmaster = await postgres.postmaster(ground)

    async def measure() -> Readings:
        async with daemon.running(ground.dsn) as process:
            await process.until_runs(nodes)
            await anyio.sleep(_WARM_UP_SECONDS)
            before = await _look(ground, process, postmaster)
            await anyio.sleep(CONTROLLER.resync.total_seconds())
            return _between(before, await _look(ground, process, postmaster))

    yield measure


@asynccontextmanager
async def _with_bmcs(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    postmaster = await postgres.postmaster(ground)
    async with bmc_fleet(nodes) as bmcs:

        async def measure() -> Readings:
            await bmc_polls.connect(ground, bmcs)
            async with daemon.running(ground.dsn, bmcs.environment) as process:
                await anyio.sleep(_BMC_WARM_UP_SECONDS)
                before = await _look(ground, process, postmaster)
                await anyio.sleep(_MINUTE.total_seconds())
                seen = _between(before, await _look(ground, process, postmaster), times=_FLEET / nodes)
            return {"updates": seen["updates"]}

        yield measure


@asynccontextmanager
async def _a_million(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    postmaster = await postgres.postmaster(ground)
    longest_period = CONTROLLER.period.total_seconds() * (1 + CONTROLLER.jitter)

    async def measure() -> Readings:
        async with daemon.running(ground.dsn) as process:
            began = time.perf_counter()
            await process.until_runs(nodes)
            # Some of these runs are second runs of a node. The start has ended when no node waits for its first run.
            with anyio.fail_after(_START_PATIENCE_SECONDS):
                while await ground.pool.fetchval(_LAG) > _START_IS_OVER:  # noqa: ASYNC110 - another process
                    await anyio.sleep(_LOOK_SECONDS)
            loaded = time.perf_counter() - began
            await anyio.sleep(_WARM_UP_SECONDS)
            before, lags = await _look(ground, process, postmaster), []
            while time.perf_counter() - before.at < _TEN_MINUTES.total_seconds():
                lags.append(await ground.pool.fetchval(_LAG))
                await anyio.sleep(_LOOK_SECONDS)
            seen = _between(before, await _look(ground, process, postmaster))
            return {
                "late": Reading(longest_period + max(lags)),
                "cpu": seen["cpu"],
                "rss": Reading(process.memory("VmHWM")),
                "loaded": Reading(loaded),
            }

    yield measure


REST = Benchmark(
    name="rest",
    what="a daemon and its PostgreSQL while nothing happens, for the interval in which the daemon "
    "loads every snapshot again: cores, WAL, rows inserted, updated or deleted",
    nodes=_FLEET,
    goals=(
        Goal("cpu", "cores", Bound.AT_MOST, 0.08),
        Goal("wal", "KB/s", Bound.AT_MOST, 5),
        Goal("updates", "/s", Bound.AT_MOST, 10),
        Goal("cpu_daemon", "cores"),
    ),
    open=_at_rest,
)
REST_BMC = Benchmark(
    name="rest_bmc",
    what="the same with BMCs that are read once a minute and report no change: row updates a "
    "second; the updates of nodes are scaled to 100,000 nodes",
    nodes=2_000,
    goals=(Goal("updates", "/s", Bound.AT_MOST, 200),),
    open=_with_bmcs,
)
MILLION = Benchmark(
    name="million",
    what="one daemon for ten minutes: the longest time between two runs of a node, according to "
    "the reported lag; cores of daemon and PostgreSQL; the daemon's maximum memory; seconds "
    "until each node had its first run",
    nodes=1_000_000,
    goals=(
        Goal("late", "s", Bound.AT_MOST, 35),
        Goal("cpu", "cores", Bound.AT_MOST, 0.6),
        Goal("rss", "MB", Bound.AT_MOST, 2_500),
        Goal("loaded", "s"),
    ),
    open=_a_million,
    long=True,
)
