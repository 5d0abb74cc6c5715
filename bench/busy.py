"""A process that only occupies a processor and commits: `python -m bench.busy CORES COMMITS DSN`. It runs until it is
terminated.

It works in short pieces, a hundred a second, which together take CORES, and commits a row COMMITS times a second.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta

import anyio
import uvloop

from farrier.io.connections import pool

_PIECES = 100
_CREATE = "CREATE TABLE IF NOT EXISTS farrier.bench_busy (at timestamptz)"
_COMMIT = "INSERT INTO farrier.bench_busy VALUES (farrier.now())"
_PATIENCE = timedelta(seconds=20)


async def _every(seconds: float, due: float) -> float:
    await anyio.sleep(max(0.0, due - time.perf_counter()))
    return due + seconds


async def _occupy(cores: float) -> None:
    due = time.perf_counter()
    while True:
        ends = time.thread_time() + cores / _PIECES
        while time.thread_time() < ends:
            pass
        due = await _every(1 / _PIECES, due)


async def _commit(each_second: float, dsn: str) -> None:
    conn = await pool.connect(dsn, patience=_PATIENCE)
    await conn.execute(_CREATE)
    due = time.perf_counter()
    while True:
        await conn.execute(_COMMIT)
        due = await _every(1 / each_second, due)


async def _main(cores: float, commits: float, dsn: str) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_occupy, cores)
        tasks.start_soon(_commit, commits, dsn)


if __name__ == "__main__":
    _, given_cores, given_commits, given_dsn = sys.argv
    uvloop.run(_main(float(given_cores), float(given_commits), given_dsn))
