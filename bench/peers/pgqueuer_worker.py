"""The worker of pgqueuer 1.x, with the handlers on a separate pool. Needs `pip install 'pgqueuer==1.6.*'`."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import asyncpg

from bench.peers import common

BATCH = 100
# pgqueuer does not report when it begins to listen.
_BEGUN_SECONDS = 0.5
LEFT = "SELECT EXISTS (SELECT FROM pgqueuer)"


def _pgqueuer(module: str = "") -> Any:
    """Import pgqueuer, which is not a dependency of farrier."""
    return importlib.import_module(f"pgqueuer{module}")


async def _main(dsn: str) -> None:
    pool: Any = await asyncpg.create_pool(dsn, min_size=8, max_size=8)
    queue = _pgqueuer().PgQueuer.from_asyncpg_connection(await asyncpg.connect(dsn))

    async def load(job: Any) -> None:
        await common.load(pool, int(job.payload))

    async def step(job: Any) -> None:
        async with pool.acquire() as conn:
            await common.step(conn, int(job.payload))

    queue.entrypoint("load")(load)
    queue.entrypoint("step")(step)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(queue.qm.run, batch_size=BATCH, dequeue_timeout=timedelta(seconds=30)))
        await asyncio.sleep(_BEGUN_SECONDS)
        common.ready()


async def install(conn: Any) -> None:
    """Create pgqueuer's tables."""
    await _pgqueuer(".queries").Queries.from_asyncpg_connection(conn).install()


async def enqueue(conn: Any, work: str, things: list[int]) -> None:
    """Enqueue jobs with pgqueuer's client."""
    payloads: list[bytes | None] = [str(thing).encode() for thing in things]
    await (
        _pgqueuer(".queries")
        .Queries.from_asyncpg_connection(conn)
        .enqueue([work] * len(things), payloads, [0] * len(things))
    )


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
