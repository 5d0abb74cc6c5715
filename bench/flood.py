"""Measures whether a server that strangers attack delays the controller beside it.

A daemon sweeps a fleet, and a client measures the reaction as the benchmark `reaction` does. Meanwhile a hostile client
with ten thousand connections attacks a server of the agents, and then in the same way a stand-in (`listener`), which
shows what such a flood costs the machine with any server. The server, the stand-in and the hostile client share one
core. In further parts of the run, the server is killed and started again and again, or occupies memory without end.
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import islice
from statistics import median, quantiles
from typing import Any, TypeAlias

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from bench import daemon, door, fleet
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.reaction import Client, client
from farrier.errors import DatabaseUnreachable

# Intents of one turn. The flood begins a few seconds before the first of them.
_INTENTS = 250
_WARM_UP_SECONDS = 5.0
# How often a part is measured, in turns, because the load of a machine changes. Each second turn begins with the other
# target, so that a load that grows or falls changes both alike.
_TURNS = 8
_KILL_EVERY_SECONDS = 2.0
_COUNT = "SELECT count(*) FROM farrier.nodes"
# The roles of a server exist in every migrated database.
_AS_AGENTS = "role=farrier_agent"

Target: TypeAlias = Callable[[bool], AbstractAsyncContextManager[daemon.Running]]
Attack: TypeAlias = Callable[[Target], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _reactions(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)
    untouched = _in_some_order(await fleet.ids(ground))
    own = Ground(f"{ground.dsn}{'&' if '?' in ground.dsn else '?'}{_AS_AGENTS}", ground.pool)

    def server(leaks: bool) -> AbstractAsyncContextManager[daemon.Running]:
        return door.serving(own, program=("bench.pinned", "bench.leak" if leaks else "farrier"))

    async def measure() -> Readings:
        async with daemon.running(ground.dsn) as process, client(ground.dsn) as asking:
            await process.until_runs(await ground.pool.fetchval(_COUNT))
            await _took(asking, untouched)
            idle = await _took(asking, untouched)
            found = {"idle_p50": Reading(median(idle)), "idle_p99": Reading(_p99(idle))}
            for name, attack in {"flood": _nothing, "kill": _kill, "leak": _nothing}.items():
                took: dict[str, list[float]] = {"server": [], "stand_in": []}
                for turn in range(_TURNS):
                    targets: list[tuple[str, Target]] = [("server", server), ("stand_in", _stand_in)]
                    for target, start in reversed(targets) if turn % 2 else targets:
                        took[target] += await _under(start, attack, asking, untouched, leaks=name == "leak")
                found |= _compared(name, took["server"], took["stand_in"])
        return found

    yield measure


def _compared(name: str, server: list[float], stand_in: list[float]) -> dict[str, Reading]:
    return {
        f"{name}_p50_of_stand_in": Reading(median(server) / median(stand_in)),
        f"{name}_p99_of_stand_in": Reading(_p99(server) / _p99(stand_in)),
        f"{name}_p50": Reading(median(server)),
        f"{name}_p99": Reading(_p99(server)),
    }


async def _under(
    start: Target, attack: Attack, asking: Client, untouched: Iterator[int], *, leaks: bool
) -> list[float]:
    """Return the reactions while the target is flooded and attacked."""
    async with start(leaks) as target:
        flooder = await anyio.open_process(
            [sys.executable, "-m", "bench.pinned", "bench.flooder", target.url.rpartition(":")[2]],
            stdin=None,
            stdout=None,
        )
        async with flooder, anyio.create_task_group() as beside:
            beside.start_soon(attack, start)
            await anyio.sleep(_WARM_UP_SECONDS)
            took = await _took(asking, untouched)
            beside.cancel_scope.cancel()
            flooder.kill()
    return took


async def _nothing(_: Target) -> None:
    """Attack with nothing but the flood."""


async def _kill(start: Target) -> None:
    """Start a target and kill it, again and again."""
    while True:
        with suppress(DatabaseUnreachable):
            async with start(False) as target:
                await anyio.sleep(_KILL_EVERY_SECONDS)
                await target.end(signal.SIGKILL)


@asynccontextmanager
async def _stand_in(leaks: bool) -> AsyncIterator[daemon.Running]:
    command = [sys.executable, "-m", "bench.pinned", "bench.listener", *(["leak"] if leaks else [])]
    async with await anyio.open_process(command, stdin=None, stderr=None) as process:
        assert process.stdout is not None, "it is a pipe by default"
        url = (await TextReceiveStream(process.stdout).receive()).strip()
        try:
            yield daemon.Running(process.pid, url, process.wait)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


async def _took(asking: Client, untouched: Iterator[int]) -> list[float]:
    return [await asking.ask(node) for node in islice(untouched, _INTENTS)]


def _in_some_order(ids: list[int]) -> Iterator[int]:
    random.shuffle(ids)
    return iter(ids)


def _p99(took: list[float]) -> float:
    return quantiles(took, n=100)[98]


def _goals() -> Iterator[Goal]:
    yield Goal("idle_p50", "ms")
    yield Goal("idle_p99", "ms")
    for name in ("flood", "kill", "leak"):
        yield Goal(f"{name}_p50_of_stand_in", "×", Bound.AT_MOST, 1.2)
        yield Goal(f"{name}_p99_of_stand_in", "×", Bound.AT_MOST, 1.2)
        yield Goal(f"{name}_p50", "ms")
        yield Goal(f"{name}_p99", "ms")


FLOOD = Benchmark(
    name="flood",
    what="reaction of the controller while ten thousand hostile connections attack a server of the agents, while this "
    "server is killed, and while it occupies memory without end; divided by the reaction while the same attacks a "
    "stand-in on the same core",
    # Each intent needs a node of its own: three runs ask 37,500 times.
    nodes=40_000,
    goals=tuple(_goals()),
    open=_reactions,
    long=True,
)
