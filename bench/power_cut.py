"""Lets the machines of a fleet enrol after a power cut, while a client measures the reaction of the loop.

Afterwards, the same machines call a stand-in for the server, which only answers (`answerer`), and a process occupies as
much of the processors as the controller and PostgreSQL took for the enrolments, and commits as often (`busy`). The
reaction meanwhile is the floor: it is what this work costs on this machine in any program.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from secrets import token_hex

import anyio

from bench import daemon, fleet, postgres, reaction
from bench.door import OverTls, over_tls
from bench.figures import Reading
from bench.ground import Ground
from farrier.model.machine import bootstrap

# The machines of a site need this time to boot, each a little longer or shorter.
_BOOTS_OVER = 50.0
_INTENTS = 800
_PAUSE = 0.05
_PATIENCE = 300.0
_REGISTER = """
SELECT farrier.register_node('late-' || $1 || '-' || substr(t, 5, 16), bootstrap_token => t) FROM unnest($2::text[]) t
"""
_ARRIVED = "SELECT count(*) FROM farrier.nodes WHERE name LIKE 'late-' || $1 || '-%' AND status = 'active'"
_UNTOUCHED = "SELECT id FROM farrier.nodes WHERE name NOT LIKE 'late-%' AND status = 'active' ORDER BY id"
_COUNT = "SELECT count(*) FROM farrier.nodes"


async def power_cut(ground: Ground, nodes: int) -> Mapping[str, Reading]:
    """Return the seconds until all machines have enrolled and until their nodes are in service, and the p99 of the
    reaction before, meanwhile, and beside the busy process."""
    async with daemon.running(ground.dsn) as loop, over_tls(ground) as server:
        return await _power_cut(ground, loop, server, nodes)


async def _power_cut(ground: Ground, loop: daemon.Running, server: OverTls, nodes: int) -> Mapping[str, Reading]:
    # The machines of an earlier run are gone, and their nodes would leave service meanwhile.
    await fleet.resound(ground)
    tokens = [bootstrap.token(token_hex(32)) for _ in range(nodes)]
    run = token_hex(4)
    await ground.pool.execute(_REGISTER, run, tokens, timeout=600)
    await loop.until_runs(await ground.pool.fetchval(_COUNT))
    untouched = iter([record[0] for record in await ground.pool.fetch(_UNTOUCHED)])
    postmaster = await postgres.postmaster(ground)

    def behind() -> float:
        return loop.cpu_seconds() + postgres.seconds(postmaster)

    began, worked = time.perf_counter(), behind()
    idle = await _asked(ground, untouched, until=_enough)
    at_rest = (behind() - worked) / (time.perf_counter() - began)
    began, worked, served = time.perf_counter(), behind(), server.process.cpu_seconds()
    enrolled, meanwhile = await _beside_machines(ground, server, tokens, untouched)
    ends = time.perf_counter() + _PATIENCE
    while (count := await ground.pool.fetchval(_ARRIVED, run)) < nodes:
        assert time.perf_counter() < ends, f"{count} of {nodes} nodes are in service"
        await anyio.sleep(_PAUSE)
    active = time.perf_counter() - began
    storm = (behind() - worked) / active - at_rest
    door = (server.process.cpu_seconds() - served) / active
    command = [sys.executable, "-m", "bench.busy", str(storm), str(nodes / active), ground.dsn]
    process = await anyio.open_process(command, stdin=None, stdout=None, stderr=None, start_new_session=True)
    async with process, over_tls(ground, ("bench.answerer",)) as stand_in:
        _, floor = await _beside_machines(ground, stand_in, tokens, untouched)
        process.terminate()
    p99 = {name: reaction.percentiles(each)["p99"] for name, each in (("idle", idle), ("floor", floor))}
    during = reaction.percentiles(meanwhile)["p99"]
    return {
        "enroll": Reading(enrolled),
        "active": Reading(active),
        "reaction": Reading(during / p99["idle"]),
        "reaction_floor": Reading(p99["floor"] / p99["idle"]),
        "reaction_idle": Reading(p99["idle"]),
        "reaction_during": Reading(during),
        "enroll_cores": Reading(storm + door),
    }


async def _beside_machines(
    ground: Ground, server: OverTls, tokens: Sequence[str], untouched: Iterator[int]
) -> tuple[float, list[float]]:
    """Return the seconds until all machines have enrolled, and the milliseconds of the reactions meanwhile."""
    took: list[float] = []

    async def enroll() -> None:
        took.append(await _enrolled(server, tokens))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enroll)
        meanwhile = await _asked(ground, untouched, until=lambda _: bool(took))
    return took[0], meanwhile


def _enough(intents: int) -> bool:
    return intents >= _INTENTS


async def _asked(ground: Ground, untouched: Iterator[int], *, until: Callable[[int], bool]) -> list[float]:
    """Return the milliseconds of reactions, with a pause before each, until `until` is true for their number."""
    took: list[float] = []
    async with reaction.client(ground.dsn) as client:
        while not until(len(took)):
            await anyio.sleep(_PAUSE)
            took.append(await client.ask(next(untouched)))
    return took


async def _enrolled(server: OverTls, tokens: Sequence[str]) -> float:
    """Let a machine enrol with each token. Returns the seconds until the last one has."""
    command = [
        sys.executable,
        "-m",
        "bench.machines",
        server.at.host,
        str(server.at.port),
        str(server.ca),
        str(_BOOTS_OVER),
    ]
    done = await anyio.run_process(command, input="\n".join(tokens).encode(), stderr=None)
    return float(done.stdout)
