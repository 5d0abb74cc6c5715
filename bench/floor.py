"""The floor: the loop's own SQL statements, driven by a few lines that decode and decide nothing.

How fast a loop in Python could be at most over this schema. The size of a batch and how many are under way at once are
the loop's.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import anyio

from bench.ground import Ground
from bench.loop import CONTROLLER
from farrier.io import statements
from farrier.io.node import NodeRows
from farrier.model.runs import Lane

_CLAIM = statements.load("schedule/claim")
_RELEASE = statements.load("schedule/release")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEHIND = timedelta(milliseconds=500)


class _Driver:
    """Claims, loads and releases periodic rows until `wanted` were done."""

    def __init__(self, ground: Ground, wanted: int) -> None:
        self._pool = ground.pool
        self._wanted = wanted
        self._owner = uuid4()
        self._from = _EPOCH
        self._done = 0

    async def work(self) -> None:
        while self._done < self._wanted:
            token = secrets.randbits(63)
            batch, lease = CONTROLLER.batch, CONTROLLER.lease
            _, *rows = await self._pool.fetch(
                _CLAIM, "node", Lane.PERIODIC.value, self._from, batch, self._owner, token, lease
            )
            if not rows:
                self._from = _EPOCH
                continue
            self._from = rows[-1]["due_at"] - _BEHIND
            ids = [row["id"] for row in rows]
            await self._pool.fetch(NodeRows.load, ids)
            nothing = [None] * len(ids)
            given = ids, [token] * len(ids), [CONTROLLER.period] * len(ids), nothing, nothing
            await self._pool.fetch(_RELEASE, "node", *given)
            self._done += len(ids)


async def runs_a_second(ground: Ground, runs: int) -> float:
    """Claims, loads and releases `runs` rows, which are due."""
    driver = _Driver(ground, runs)
    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(CONTROLLER.passes):
            group.start_soon(driver.work)
    return runs / (time.perf_counter() - began)
