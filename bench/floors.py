"""The shortest SQL with the promises of a transition: what a transition costs PostgreSQL at least.

It reads what the transition depends on. Then it holds the shards, compares versions, changes the node and what belongs
to it, and records history and outcome. The guards of the tables are on. There is no handler: each node makes the next
transition. Module `bare_worker` reacts to intents in this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from bench import fleet, postgres
from bench.ground import Ground

_BATCH = 500
AT_REST = '{"outcome": "do_nothing", "source": "bench"}'
_FENCE = """
    WITH fence AS MATERIALIZED (
        SELECT s.shard, s.epoch FROM farrier.shards s
         WHERE s.kind = 'node' AND s.shard = ANY (ARRAY(SELECT farrier.shard_of(id) FROM unnest($1::bigint[]) id))
         ORDER BY s.shard FOR SHARE),
    fit AS MATERIALIZED (
        SELECT n.id, n.status, n.management, n.status_entered_at
          FROM unnest($1::bigint[], $2::bigint[]) r (id, version)
          JOIN farrier.nodes n ON n.id = r.id AND n.version = r.version
         ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED),"""
_ENDED = """
    ended AS (
        UPDATE farrier.outcomes o SET at = now(), outcome = $3, key = o.key + 1
          FROM moved m
         WHERE o.kind = 'node' AND o.id = m.id)"""
_RECORDED = """
    INSERT INTO farrier.history (
           kind, id, version, layer, from_value, to_value, at, seconds_in_source,
           cause, reason, source, controller, epoch)
    SELECT 'node', m.id, m.version, h.layer, h.was, h.became, now(), extract(epoch FROM now() - m.since),
           'a cause', 'a reason of a usual length', 'bench/floors.py:1', gen_random_uuid(), e.epoch
      FROM moved m JOIN fence e ON e.shard = farrier.shard_of(m.id)"""

# --- a node goes offline, and returns

_LOAD = """
    SELECT n.id, n.version, n.status, n.bmc, a.last_heartbeat_at, o.key
      FROM unnest($1::bigint[]) r (id) CROSS JOIN LATERAL (SELECT * FROM farrier.nodes n WHERE n.id = r.id OFFSET 0) n
     CROSS JOIN LATERAL (SELECT * FROM farrier.node_agents a WHERE a.node_id = n.id OFFSET 0) a
     CROSS JOIN LATERAL (SELECT * FROM farrier.outcomes o WHERE o.kind = 'node' AND o.id = n.id OFFSET 0) o"""


def _moved_to(status: str) -> str:
    return f"""{_FENCE}
    moved AS (
        UPDATE farrier.nodes n
           SET version = n.version + 1, commit_id = gen_random_uuid(), status = '{status}', status_entered_at = now()
          FROM fit f WHERE n.id = f.id
        RETURNING n.id, n.version, f.status AS was, f.status_entered_at AS since),{_ENDED}
    {_RECORDED} CROSS JOIN LATERAL (SELECT 'status', m.was, '{status}') h (layer, was, became)"""


_MOVES: Mapping[str, str] = {
    _moved_to("offline"): '{"outcome": "wait", "reason": "no heartbeat", "source": "bench", "ends_by": "agent"}',
    _moved_to("active"): AT_REST,
}

# --- an intent is answered

LOAD_WOKEN = """
    SELECT n.id, n.version, n.status, n.bmc, a.enrolled_at, i.action, i.params, w.status AS workflow, w.stage, o.key,
           k.id AS wake
      FROM unnest($1::bigint[]) r (id) CROSS JOIN LATERAL (SELECT * FROM farrier.nodes n WHERE n.id = r.id OFFSET 0) n
      LEFT JOIN LATERAL (SELECT * FROM farrier.node_agents a WHERE a.node_id = n.id OFFSET 0) a ON true
      LEFT JOIN LATERAL (
           SELECT * FROM farrier.intents i WHERE i.node_id = n.id AND i.status = 'pending' OFFSET 0) i ON true
      LEFT JOIN LATERAL (
           SELECT * FROM farrier.node_onboardings w WHERE w.node_id = n.id AND w.ended_at IS NULL OFFSET 0) w ON true
      LEFT JOIN LATERAL (SELECT * FROM farrier.outcomes o WHERE o.kind = 'node' AND o.id = n.id OFFSET 0) o ON true
      LEFT JOIN LATERAL (
           SELECT * FROM farrier.wakes k WHERE k.kind = 'node' AND k.resource = n.id OFFSET 0) k ON true"""
_SEEN = """
    seen AS (DELETE FROM farrier.wakes k USING fit f WHERE k.kind = 'node' AND k.resource = f.id),"""
QUARANTINED = f"""{_FENCE}
    answered AS (
        UPDATE farrier.intents i SET status = 'accepted', reason = 'the node is in quarantine', answered_at = now()
          FROM fit f WHERE i.node_id = f.id AND i.status = 'pending'),{_SEEN}
    held AS (
        INSERT INTO farrier.node_conditions (node, source, id, target, message, requested, effect)
        SELECT f.id, 'operator', 'benchmark', '', 'benchmark', 'quarantine', 'quarantine' FROM fit f),
    moved AS (
        UPDATE farrier.nodes n
           SET version = n.version + 1, commit_id = gen_random_uuid(), status = 'quarantined', status_entered_at = now()
          FROM fit f WHERE n.id = f.id
        RETURNING n.id, n.version, f.status AS was, f.status_entered_at AS since),
    ended AS (
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome, key) SELECT 'node', m.id, now(), $3, 1 FROM moved m
            ON CONFLICT (kind, id) DO UPDATE SET at = now(), outcome = $3, key = o.key + 1)
    {_RECORDED} CROSS JOIN LATERAL (SELECT 'status', m.was, 'quarantined') h (layer, was, became)
    RETURNING pg_notify('farrier_intent_answered', '')"""

# --- the first four transitions of a new node

_ANSWERED = f"""{_FENCE}
    answered AS (
        UPDATE farrier.intents i SET status = 'accepted', reason = 'BMC details set', answered_at = now()
          FROM fit f WHERE i.node_id = f.id AND i.status = 'pending'
        RETURNING i.node_id, i.params),{_SEEN}
    moved AS (
        UPDATE farrier.nodes n
           SET version = n.version + 1, commit_id = gen_random_uuid(), management = 'enroll',
               management_entered_at = now(), bmc_address = a.params ->> 'address',
               bmc = '{{"failure": "incomplete", "last_error": "no BMC credential is set"}}'
          FROM fit f JOIN answered a ON a.node_id = f.id WHERE n.id = f.id
        RETURNING n.id, n.version, f.management AS was, f.status_entered_at AS since),
    ended AS (
        INSERT INTO farrier.outcomes (kind, id, at, outcome, key) SELECT 'node', m.id, now(), $3, 1 FROM moved m)
    {_RECORDED} CROSS JOIN LATERAL (SELECT 'management', m.was, 'enroll') h (layer, was, became)"""
_ENROLLED = f"""{_FENCE}
    begun AS (
        INSERT INTO farrier.node_onboardings (node_id, mode, status) SELECT f.id, 'manual', 'pending' FROM fit f
        RETURNING node_id, id),
    moved AS (
        UPDATE farrier.nodes n
           SET version = n.version + 1, commit_id = gen_random_uuid(), status = 'enrolling', status_entered_at = now(),
               live_workflow_kind = 'onboarding', live_workflow_id = b.id
          FROM fit f JOIN begun b ON b.node_id = f.id WHERE n.id = f.id
        RETURNING n.id, n.version, f.status AS was, f.status_entered_at AS since),{_ENDED}
    {_RECORDED} CROSS JOIN LATERAL (
           VALUES ('status', m.was, 'enrolling'), ('onboarding', NULL, 'pending')) h (layer, was, became)"""
_BEGUN = f"""{_FENCE}
    begun AS (
        UPDATE farrier.node_onboardings w
           SET status = 'running', status_entered_at = now(), stage = 'wait_for_agent_enrollment',
               stage_entered_at = now()
          FROM fit f WHERE w.node_id = f.id AND w.ended_at IS NULL),
    moved AS (
        UPDATE farrier.nodes n SET version = n.version + 1, commit_id = gen_random_uuid() FROM fit f WHERE n.id = f.id
        RETURNING n.id, n.version, f.status_entered_at AS since),{_ENDED}
    {_RECORDED} CROSS JOIN LATERAL (
           VALUES ('onboarding', 'pending', 'running'),
                  ('onboarding_stage', NULL, 'wait_for_agent_enrollment')) h (layer, was, became)"""
_COMPLETED = f"""{_FENCE}
    completed AS (
        UPDATE farrier.node_onboardings w SET status = 'completed', status_entered_at = now()
          FROM fit f WHERE w.node_id = f.id AND w.ended_at IS NULL),
    moved AS (
        UPDATE farrier.nodes n
           SET version = n.version + 1, commit_id = gen_random_uuid(), status = 'active', status_entered_at = now(),
               live_workflow_kind = NULL, live_workflow_id = NULL, ever_onboarded = true, ever_active = true
          FROM fit f WHERE n.id = f.id
        RETURNING n.id, n.version, f.status AS was, f.status_entered_at AS since),{_ENDED}
    {_RECORDED} CROSS JOIN LATERAL (
           VALUES ('status', m.was, 'active'), ('onboarding', 'running', 'completed')) h (layer, was, became)"""
_NEXT = '{"outcome": "transition", "source": "bench"}'
_LIVES: Mapping[str, str] = {
    _ANSWERED: _NEXT,
    _ENROLLED: _NEXT,
    _BEGUN: _NEXT,
    _COMPLETED: '{"outcome": "wait", "reason": "no BMC credential is set", "source": "bench", "ends_by": "person"}',
}
_NEW = "SELECT id FROM farrier.nodes WHERE status = 'bootstrap_issued' ORDER BY id"
_IN_SERVICE = "SELECT count(*) FROM farrier.nodes WHERE id = ANY ($1::bigint[]) AND status = 'active'"


async def of_moves(ground: Ground, postmaster: int) -> float:
    """Return the microseconds of PostgreSQL's processor time for each transition of nodes that go offline and
    return."""
    return await _floor_us(ground, postmaster, _LOAD, _MOVES, sorted(await fleet.ids(ground)))


async def of_lives(ground: Ground, postmaster: int, nodes: int) -> float:
    """Return the same for each of the first four transitions of this many new nodes."""
    await fleet.newborn(ground, nodes)
    present = [record[0] for record in await ground.pool.fetch(_NEW)]
    floor = await _floor_us(ground, postmaster, LOAD_WOKEN, _LIVES, present)
    assert await ground.pool.fetchval(_IN_SERVICE, present) == nodes, "each new node is in service"
    return floor


async def _floor_us(
    ground: Ground, postmaster: int, load: str, commits: Mapping[str, str], present: Sequence[int]
) -> float:
    spent = 0.0
    async with ground.pool.acquire() as conn:
        await conn.execute("SET enable_seqscan = off")
        for commit, outcome in commits.items():
            await fleet.settle(ground)
            began = postgres.seconds(postmaster)
            for first in range(0, len(present), _BATCH):
                await transition(conn, load, commit, outcome, present[first : first + _BATCH])
            spent += postgres.seconds(postmaster) - began
        await conn.execute("RESET enable_seqscan")
    return spent / len(commits) / len(present) * 1e6


async def transition(conn: Any, load: str, commit: str, outcome: str, ids: Sequence[int]) -> None:
    """Read these nodes, and commit the transition of each."""
    read: list[asyncpg.Record] = await conn.fetch(load, ids)
    await conn.fetch(commit, [row["id"] for row in read], [row["version"] for row in read], outcome)
