"""Measures how many transitions with their history farrier commits per second, and how long a thousand new nodes take
for their first four transitions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from bench import fleet, postgres, yardstick
from bench.figures import Benchmark, Bound, Goal, Measure, Reading, Readings
from bench.ground import Ground
from bench.loop import Work, running

# The transitions are: an intent is accepted, the agent's enrollment is recorded, the onboarding begins, the onboarding
# ends and the node is in service.
_TRANSITIONS_OF_A_LIFE = 4


# What a transition costs PostgreSQL at least: the shortest SQL that reads a node, its heartbeat and its outcome, and
# that then holds the shards, compares versions, changes the status, and records history and outcome. The guards of the
# table are on.
_FLOOR_BATCH = 500
_FLOOR_LOAD = """
    SELECT n.id, n.version, n.status, n.bmc, a.last_heartbeat_at, o.key
      FROM unnest($1::bigint[]) r (id) CROSS JOIN LATERAL (SELECT * FROM farrier.nodes n WHERE n.id = r.id OFFSET 0) n
     CROSS JOIN LATERAL (SELECT * FROM farrier.node_agents a WHERE a.node_id = n.id OFFSET 0) a
     CROSS JOIN LATERAL (SELECT * FROM farrier.outcomes o WHERE o.kind = 'node' AND o.id = n.id OFFSET 0) o
"""
_FLOOR_COMMIT = """
    WITH fence AS MATERIALIZED (
        SELECT s.shard, s.epoch FROM farrier.shards s WHERE s.kind = 'node' ORDER BY s.shard FOR SHARE),
    fit AS MATERIALIZED (
        SELECT n.id, n.status, n.status_entered_at
          FROM unnest($1::bigint[], $2::bigint[]) r (id, version)
          JOIN farrier.nodes n ON n.id = r.id AND n.version = r.version
         ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED),
    moved AS (
        UPDATE farrier.nodes n
           SET version = n.version + 1, commit_id = gen_random_uuid(), status = $3, status_entered_at = now()
          FROM fit f WHERE n.id = f.id
        RETURNING n.id, n.version, f.status AS was, f.status_entered_at AS since),
    ended AS (
        UPDATE farrier.outcomes o SET at = now(), outcome = $4, key = o.key + 1
          FROM moved m
         WHERE o.kind = 'node' AND o.id = m.id)
    INSERT INTO farrier.history (
           kind, id, version, layer, from_value, to_value, at, seconds_in_source,
           cause, reason, source, controller, epoch)
    SELECT 'node', m.id, m.version, 'status', m.was, $3, now(), extract(epoch FROM now() - m.since),
           'timer', $5, $6, gen_random_uuid(), e.epoch
      FROM moved m JOIN fence e ON e.shard = farrier.shard_of(m.id)
"""
_FLOOR_MOVES = (
    ("offline", '{"outcome": "wait", "reason": "no heartbeat", "source": "bench/moves.py:1", "ends_by": "agent"}'),
    ("active", '{"outcome": "do_nothing", "source": "bench/moves.py:1"}'),
)


async def _floor_us(ground: Ground, postmaster: int) -> float:
    """Return the microseconds of PostgreSQL's processor time that a transition takes at least."""
    present = sorted(await fleet.ids(ground))
    spent = 0.0
    async with ground.pool.acquire() as conn:
        await conn.execute("SET enable_seqscan = off")
        for status, outcome in _FLOOR_MOVES:
            await fleet.settle(ground)
            began = postgres.seconds(postmaster)
            for first in range(0, len(present), _FLOOR_BATCH):
                read = await conn.fetch(_FLOOR_LOAD, present[first : first + _FLOOR_BATCH])
                ids, versions = [row["id"] for row in read], [row["version"] for row in read]
                await conn.fetch(
                    _FLOOR_COMMIT, ids, versions, status, outcome, "a reason of a usual length", "bench/moves.py:1"
                )
            spent += postgres.seconds(postmaster) - began
        await conn.execute("RESET enable_seqscan")
    return spent / len(_FLOOR_MOVES) / len(present) * 1e6


class _Spent(msgspec.Struct):
    """The time that transitions took: on the clock, and of the processors of this process, which runs the loop, and of
    PostgreSQL."""

    clock: float = 0.0
    daemon: float = 0.0
    server: float = 0.0

    async def on(self, work: Work, postmaster: int, *, transitions: int) -> None:
        """Add the time until this many transitions have ended since the start of the loop."""
        clock, daemon, server = time.perf_counter(), time.process_time(), postgres.seconds(postmaster)
        await work.tally.until(transitions=transitions)
        self.clock += time.perf_counter() - clock
        self.daemon += time.process_time() - daemon
        self.server += postgres.seconds(postmaster) - server

    def each(self, transitions: int, floor: float | None = None) -> Readings:
        """Return the microseconds of processor time for each transition. `floor` is the least that PostgreSQL takes."""
        server = self.server / transitions * 1e6
        return {
            "cpu_us": Reading(self.daemon / transitions * 1e6),
            "pg_cpu_us": Reading(server, None if floor is None else floor / server),
        }


@asynccontextmanager
async def _there_and_back(ground: Ground, nodes: int) -> AsyncIterator[Measure]:
    await fleet.fill(ground, nodes)

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        postmaster, spent = await postgres.postmaster(ground), _Spent()
        async with running(ground) as work:
            await work.until_at_rest(await fleet.ids(ground))
            for number, befall in enumerate((fleet.silence, fleet.resound)):
                await befall(ground)
                await fleet.settle(ground)
                # As after a restart of the server, the controller loads all nodes, without wakes.
                work.loop.woken_all()
                await spent.on(work, postmaster, transitions=(number + 1) * nodes)
        floor = await _floor_us(ground, postmaster)
        rate = 2 * nodes / spent.clock
        machine = yardstick.between(before, await yardstick.beside(ground.dsn))
        return {
            "of_yardstick": Reading(rate / machine.transitions_per_second),
            "transitions": Reading(rate),
            **spent.each(2 * nodes, floor),
            "pg_floor_us": Reading(floor),
        }

    yield measure


@asynccontextmanager
async def _lives(ground: Ground, nodes: int) -> AsyncIterator[Measure]:

    async def measure() -> Readings:
        before = await yardstick.beside(ground.dsn)
        postmaster, spent = await postgres.postmaster(ground), _Spent()
        transitions = nodes * _TRANSITIONS_OF_A_LIFE
        present = await fleet.ids(ground)
        async with running(ground) as work:
            await work.until_at_rest(present)
            begun = work.tally.transitions
            await fleet.newborn(ground, nodes)
            await spent.on(work, postmaster, transitions=begun + transitions)
        machine = yardstick.between(before, await yardstick.beside(ground.dsn))
        share = transitions / spent.clock / machine.transitions_per_second
        return {"of_yardstick": Reading(share), "life": Reading(spent.clock), **spent.each(transitions)}

    yield measure


_CPU = (Goal("cpu_us", "µs"), Goal("pg_cpu_us", "µs"))

TRANSITIONS = Benchmark(
    name="transitions",
    what="heartbeats stop and resume, so nodes go offline and return: transitions a second with "
    "their history, divided by the yardstick's transitions a second",
    nodes=20_000,
    goals=(
        Goal("of_yardstick", "×", Bound.AT_LEAST, 0.055),
        Goal("transitions", "/s"),
        *_CPU,
        Goal("pg_floor_us", "µs"),
    ),
    open=_there_and_back,
)
LIFE = Benchmark(
    name="life",
    what="each new node makes 4 transitions, each in a separate commit: transitions a second, "
    "divided by the yardstick's transitions a second",
    nodes=1_000,
    goals=(Goal("of_yardstick", "×", Bound.AT_LEAST, 0.04), Goal("life", "s"), *_CPU),
    open=_lives,
)
