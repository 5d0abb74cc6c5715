"""A queue in raw SQL: one table, `FOR UPDATE SKIP LOCKED`, one transaction for each job. If this module runs as a
program, it is the worker."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

import anyio
import asyncpg

from bench.peers import common

INSTALL = """
    CREATE TABLE task (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, work text NOT NULL, thing bigint NOT NULL)
    WITH (vacuum_truncate = false);
"""
ENQUEUE = "INSERT INTO task (work, thing) SELECT $1, unnest($2::bigint[])"
ENQUEUE_ONE = "WITH made AS (INSERT INTO task (work, thing) VALUES ($1, $2)) SELECT pg_notify('task', '')"
LEFT = "SELECT EXISTS (SELECT FROM task)"
_TAKE = """
    DELETE FROM task WHERE id = (SELECT id FROM task ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING work, thing
"""
_CONNECTIONS = 8
_POLL_SECONDS = 0.5


async def _one(conn: Any) -> bool:
    async with conn.transaction():
        task = await conn.fetchrow(_TAKE)
        if task is None:
            return False
        await (common.step if task["work"] == "step" else common.load)(conn, task["thing"])
        return True


async def _work(dsn: str, bell: asyncio.Semaphore) -> None:
    conn = await asyncpg.connect(dsn)
    while True:
        if not await _one(conn):
            with suppress(TimeoutError):
                await asyncio.wait_for(bell.acquire(), _POLL_SECONDS)


async def _main(dsn: str) -> None:
    bell, listening = asyncio.Semaphore(0), await asyncpg.connect(dsn)
    await listening.add_listener("task", lambda *_: bell.release())
    async with anyio.create_task_group() as group:
        for _ in range(_CONNECTIONS):
            group.start_soon(_work, dsn, bell)
        await common.until_told()
        group.cancel_scope.cancel()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
