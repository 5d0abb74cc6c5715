"""Answers intents with two statements alone: `python -m bench.bare_worker DSN`.

This is the floor of a daemon's reaction: the same client, intents, wakes, notifications, guards and history, without
handler and loop. The process prints a line when it listens, and answers until its connection ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import anyio

from bench import floors
from bench.ground import PATIENCE
from farrier.io.connections import pool


async def answer(dsn: str) -> None:
    """Quarantine each node for which an intent is inserted, until the connection ends."""
    woken, ids = anyio.create_memory_object_stream[int](1000)
    conn = await pool.connect(dsn, patience=PATIENCE)
    await _quarantine(conn, [])  # so that the statements are planned

    def hear(*heard: Any) -> None:
        for id_ in heard[-1].partition(":")[2].split(","):
            woken.send_nowait(int(id_))

    listening = await pool.connect(dsn, patience=PATIENCE)
    listening.add_termination_listener(lambda _: woken.close())
    await listening.add_listener("farrier_wake", hear)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    async for id_ in ids:
        await _quarantine(conn, [id_])


async def _quarantine(conn: pool.Single, ids: Sequence[int]) -> None:
    await floors.transition(conn, floors.LOAD_WOKEN, floors.QUARANTINED, floors.AT_REST, ids)


if __name__ == "__main__":
    anyio.run(answer, sys.argv[1], backend_options={"use_uvloop": True})
