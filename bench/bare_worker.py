"""Answers intents with two statements alone: `python -m bench.bare_worker DSN`.

This is the floor of a daemon's reaction: the same client, intents, wakes, notifications, guards and history, without
handler and loop. The process prints a line when it listens, and answers until it is terminated.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import anyio

from bench import floors
from bench.ground import PATIENCE
from farrier.io.connections import pool


async def answer(dsn: str) -> NoReturn:
    """Quarantine each node for which an intent is inserted."""
    woken, ids = anyio.create_memory_object_stream[int](1000)
    conn = await pool.connect(dsn, patience=PATIENCE)
    await floors.transition(conn, floors.LOAD_ASKED, floors.QUARANTINED, floors.AT_REST, [])  # so that it is planned

    def hear(*heard: Any) -> None:
        for id_ in heard[-1].partition(":")[2].split(","):
            woken.send_nowait(int(id_))

    listening = await pool.connect(dsn, patience=PATIENCE)
    await listening.add_listener("farrier_wake", hear)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    while True:
        await floors.transition(conn, floors.LOAD_ASKED, floors.QUARANTINED, floors.AT_REST, [await ids.receive()])


if __name__ == "__main__":
    anyio.run(answer, sys.argv[1], backend_options={"use_uvloop": True})
