"""Measures the time from the start of a controller until it has run the enqueued resources, and until it has run all
resources."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from typing_extensions import override

from bench import fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import running
from farrier.io.calls.controllers import PostgresControllers
from farrier.io.kinds.node import NodeRows
from farrier.io.kinds.state import PostgresStateIO
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.runs import Loaded
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import Write

# This is enough for several nodes in each shard.
_WOKEN = 1_000

_WAKE = """
    INSERT INTO farrier.wakes (kind, resource)
    SELECT 'node', id FROM (SELECT id FROM farrier.nodes ORDER BY id DESC LIMIT $1) n
"""


class _Controllers(PostgresControllers):
    """Records when the controller took each shard."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground.pool)
        self.at: dict[int, float] = {}

    @override
    async def take(self, controller: UUID, kind: str, shards: Sequence[int]) -> Mapping[int, int]:
        taken = await super().take(controller, kind, shards)
        self.at |= dict.fromkeys(taken, time.perf_counter())
        return taken


class _IO(PostgresStateIO[Node, Node, Write]):
    """Records when each enqueued node was loaded, right before its run."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground.pool, NodeRows())
        self.at: dict[int, float] = {}

    @override
    async def load(self, ids: Sequence[int]) -> Loaded[Node]:
        loaded = await super().load(ids)
        self.at |= {id_: time.perf_counter() for id_ in loaded.wakes if id_ not in self.at}
        return loaded


@asynccontextmanager
async def _starts(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        await ground.pool.execute(_WAKE, _WOKEN)
        io, controllers = _IO(ground), _Controllers(ground)
        began = time.perf_counter()
        async with running(ground, io=io, controllers=controllers) as work:
            await work.tally.until(runs=nodes)
            took = time.perf_counter() - began
            await work.until_at_rest(await fleet.ids(ground))
        waited = [at - controllers.at[id_ % SHARDS] for id_, at in io.at.items()]
        assert len(waited) == min(_WOKEN, nodes), "every woken node was loaded with its wake"
        return {"woken": Reading(max(waited)), "all": Reading(nodes / took), "seconds": Reading(took)}

    yield measure


START = Benchmark(
    name="start",
    what="a controller starts in a fleet in which a thousand nodes have a wake: the longest time "
    "from the takeover of a shard until the nodes of this shard with a wake have run; nodes "
    "a second until each node has run once",
    nodes=100_000,
    # This is the rate of a million nodes in a minute.
    goals=(
        Goal("woken", "s", Bound.AT_MOST, 1),
        Goal("all", "/s", Bound.AT_LEAST, 1_000_000 / 60),
        Goal("seconds", "s"),
    ),
    open=_starts,
)
