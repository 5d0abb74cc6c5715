"""`python -m bench.peers`: measures raw SQL, pgqueuer and graphile-worker alternately on an embedded PostgreSQL, and
prints medians.

A peer that is not installed is skipped. `load` is the number of jobs per second that read a thing. `step` is the number
of jobs per second that change a thing, with history. `reaction` is the milliseconds from the INSERT of a job until the
client sees that the job's change is committed, one job at a time.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import asyncpg
import msgspec
import typer

from bench.ground import server
from bench.peers import common, pgqueuer_worker, sql_queue

_JOBS = 10_000
_AT_ONCE = 1_000
_REACTIONS = 300
_LOOK_SECONDS = 0.02
_SETTLE_SECONDS = 1.0
_GRAPHILE = Path(__file__).with_name("graphile_worker.mjs")
_GRAPHILE_JOBS = """
    SELECT count(*) FROM graphile_worker.add_jobs((
        SELECT array_agg(ROW($1::text, json_build_object('id', i), NULL, now(), 25::smallint, NULL, 0::smallint,
                             NULL::text[])::graphile_worker.job_spec)
          FROM unnest($2::bigint[]) i))
"""
_GRAPHILE_LEFT = "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)"
# A trigger of the database announces the change, so that the announcement is the same for every peer.
_ANNOUNCE = """
    CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_notify('stepped', ''); RETURN NULL; END $$;
    CREATE TRIGGER announce AFTER INSERT ON thing_history FOR EACH STATEMENT EXECUTE FUNCTION announce();
"""

Enqueue = Callable[[Any, str, list[int]], Awaitable[None]]


class Peer(msgspec.Struct, frozen=True):
    """A queue. It defines how to create its tables, enqueue jobs and count the remaining jobs, and its worker."""

    name: str
    install: Callable[[Any, str], Awaitable[None]]
    enqueue: Enqueue
    left: str
    worker: Callable[[str], common.Worker]


async def _sql_enqueue(conn: Any, work: str, things: list[int]) -> None:
    if len(things) == 1:
        await conn.execute(sql_queue.ENQUEUE_ONE, work, things[0])
    else:
        await conn.execute(sql_queue.ENQUEUE, work, things)
        await conn.execute("NOTIFY task")


async def _sql_install(conn: Any, _dsn: str) -> None:
    await conn.execute(sql_queue.INSTALL)


async def _pgqueuer_install(conn: Any, _dsn: str) -> None:
    await pgqueuer_worker.install(conn)


async def _graphile_install(_conn: Any, dsn: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "node", str(_GRAPHILE), "migrate", dsn, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0, "graphile-worker's migrations failed"


async def _graphile_enqueue(conn: Any, work: str, things: list[int]) -> None:
    await conn.fetchval(_GRAPHILE_JOBS, work, things)


def _python(module: str) -> Callable[[str], common.Worker]:
    return lambda dsn: common.Worker([sys.executable, "-m", f"bench.peers.{module}", dsn], {})


def peers() -> Sequence[Peer]:
    """Return the queues that are installed."""
    found = [Peer("raw SQL", _sql_install, _sql_enqueue, sql_queue.LEFT, _python("sql_queue"))]
    if importlib.util.find_spec("pgqueuer") is not None:
        found.append(
            Peer(
                "pgqueuer",
                _pgqueuer_install,
                pgqueuer_worker.enqueue,
                pgqueuer_worker.LEFT,
                _python("pgqueuer_worker"),
            )
        )
    if "PEERS_NODE_MODULES" in os.environ and shutil.which("node"):
        environment = {"NODE_ENV": "production", "NO_LOG_SUCCESS": "1"}
        found.append(
            Peer(
                "graphile-worker",
                _graphile_install,
                _graphile_enqueue,
                _GRAPHILE_LEFT,
                lambda dsn: common.Worker(["node", str(_GRAPHILE), "work", dsn], environment),
            )
        )
    return found


async def _measure(peer: Peer, dsn: str) -> dict[str, float]:
    """Measure a peer in a separate database, which is dropped afterwards."""
    name = "peers_" + "".join(filter(str.isalnum, peer.name)).lower()
    admin = await asyncpg.connect(dsn)
    await admin.execute(f'CREATE DATABASE "{name}"')
    try:
        own = dsn.replace("/farrier?", f"/{name}?")
        assert own != dsn, "the embedded server's database is called farrier"
        return await _measure_in(peer, own)
    finally:
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.close()


async def _measure_in(peer: Peer, dsn: str) -> dict[str, float]:
    conn, listening = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    await conn.execute(common.SCHEMA)
    await conn.execute(common.FILL, 2 * _JOBS)
    await peer.install(conn, dsn)
    await conn.execute("VACUUM ANALYZE thing")
    await conn.execute("CHECKPOINT")
    async with common.working(peer.worker(dsn)):
        await asyncio.sleep(_SETTLE_SECONDS)
        rates = {work: await _rate(peer, conn, work) for work in ("load", "step")}
        stepped = await conn.fetchval(common.STEPPED)
        assert stepped == _JOBS, f"{stepped} of {_JOBS} things were changed"
        await conn.execute(_ANNOUNCE)
        took = await _reactions(peer, conn, listening)
    await conn.close()
    await listening.close()
    cuts = quantiles(took, n=100)
    return {**rates, "reaction p50": cuts[49], "reaction p99": cuts[98]}


async def _rate(peer: Peer, conn: Any, work: str) -> float:
    """Return the jobs per second. The time begins before the first job is enqueued, and ends when the queue is
    empty."""
    began = time.perf_counter()
    for first in range(1, _JOBS + 1, _AT_ONCE):
        await peer.enqueue(conn, work, list(range(first, first + _AT_ONCE)))
    while await conn.fetchval(peer.left):  # noqa: ASYNC110 - the queue is asked
        await asyncio.sleep(_LOOK_SECONDS)
    return _JOBS / (time.perf_counter() - began)


async def _reactions(peer: Peer, conn: Any, listening: Any) -> list[float]:
    heard = asyncio.Event()
    await listening.add_listener("stepped", lambda *_: heard.set())
    took = []
    for thing in range(_JOBS + 1, _JOBS + 1 + _REACTIONS):
        heard.clear()
        began = time.perf_counter()
        await peer.enqueue(conn, "step", [thing])
        await asyncio.wait_for(heard.wait(), 30)
        took.append((time.perf_counter() - began) * 1000)
    return took


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds. Each round measures each peer once.")] = 3,
) -> None:
    """Measure the peers that are installed."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with server(None) as dsn:
        for number in range(rounds):
            order = peers()
            for peer in [*order[number % len(order) :], *order[: number % len(order)]]:
                for figure, value in asyncio.run(_measure(peer, dsn)).items():
                    found[peer.name, figure].append(value)
                    typer.echo(f"{peer.name}: {figure} {value:,.4g}", err=True)
    for (name, figure), values in sorted(found.items()):
        typer.echo(f"{name:16} {figure:14} {median(values):>10,.2f}   {min(values):,.2f} to {max(values):,.2f}")


if __name__ == "__main__":
    typer.run(main)
