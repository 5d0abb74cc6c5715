"""Defines, for all peers, the table of things, the work on one thing, and the measurement of a run.

`bench.peers.__main__` and the workers in Python use this module. A worker is a process; it prints READY, works until
SIGTERM, and ends. The work on one job is a SELECT of its thing by ID and, for `step`, one statement that compares the
version of the thing, changes it, and inserts its history.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

SCHEMA = """
    CREATE TABLE thing (
        id bigint PRIMARY KEY, state text NOT NULL, version integer NOT NULL DEFAULT 0, props jsonb NOT NULL,
        changed_at timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 80);
    CREATE TABLE thing_history (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, thing bigint NOT NULL, from_state text NOT NULL,
        to_state text NOT NULL, version integer NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
"""
FILL = """
    INSERT INTO thing (id, state, props)
    SELECT i, 'here', jsonb_build_object('address', '10.0.' || i / 250 || '.' || i % 250, 'rack', 'r' || i % 40)
      FROM generate_series(1, $1::integer) i
"""
LOAD = "SELECT id, state, version, props FROM thing WHERE id = $1"
STEP = """
    WITH moved AS (
        UPDATE thing SET state = 'there', version = version + 1, changed_at = clock_timestamp()
         WHERE id = $1 AND version = $2 RETURNING id, version)
    INSERT INTO thing_history (thing, from_state, to_state, version) SELECT id, $3, 'there', version FROM moved
"""
STEPPED = "SELECT count(*) FROM thing_history"


class Worker(msgspec.Struct, frozen=True):
    """The command that starts a peer's workers, and its environment."""

    command: Sequence[str]
    environment: dict[str, str]


async def load(conn: Any, thing: int) -> asyncpg.Record:
    """Read the thing of a job."""
    row: asyncpg.Record = await conn.fetchrow(LOAD, thing)
    return row


def ready() -> None:
    """Report that this worker is ready."""
    sys.stdout.write("READY\n")
    sys.stdout.flush()


async def step(conn: Any, thing: int) -> None:
    """Read the thing of a job and change it. If the step is repeated, it changes the thing only once."""
    row = await load(conn, thing)
    if row["state"] == "here":
        await conn.execute(STEP, thing, row["version"], row["state"])


async def until_told() -> None:
    """Report that this worker is ready, and return at SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    ready()
    await stop.wait()


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    """Run the peer's worker while the block runs."""
    environment = {**os.environ, **worker.environment}
    process = await asyncio.create_subprocess_exec(*worker.command, stdout=asyncio.subprocess.PIPE, env=environment)
    assert process.stdout is not None, "it is a pipe"
    try:
        while (line := await process.stdout.readline()).strip() != b"READY":
            if not line:
                raise SystemExit(f"{worker.command} ended before it was ready")
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
