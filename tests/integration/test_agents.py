"""Simulated agents against the functions that real ones call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import pytest

from farrier.errors import RefusedByModel
from farrier.io.agents import PostgresAgents
from farrier.io.pool import Connection
from farrier.model.agent import Enrolled, Heartbeat
from farrier.model.health import Alert, Health
from farrier.model.node import TaskType
from farrier.sim.agents import Pace, SimulatedAgents
from tests.support import again, pg
from tests.support.tokens import named

MINUTE = timedelta(minutes=1)
AT_ONCE = Pace(
    heartbeat_every=timedelta(milliseconds=10),
    look_for_tasks_every=timedelta(milliseconds=1),
    task_takes=timedelta(milliseconds=1),
    task_lease=MINUTE,
)


@pytest.fixture
async def api(db: pg.Database) -> AsyncIterator[PostgresAgents]:
    async with db.pool() as connections:
        yield PostgresAgents(connections)


@pytest.fixture
async def conn(db: pg.Database) -> AsyncIterator[Connection]:
    async with db.connect() as connection:
        yield connection


async def register(conn: Connection, name: str) -> int:
    """Register a node that waits for its agent, with the token that is derived from its name."""
    node: int = await conn.fetchval("SELECT farrier.register_node($1, bootstrap_token => $2)", name, named(name))
    return node


async def give_task(conn: Connection, node: int) -> int:
    """Insert a queued drain task, as the controller does."""
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")  # the guards would refuse it
        workflow = await conn.fetchval(
            "INSERT INTO farrier.node_decommissions (node_id, mode) VALUES ($1, 'soft_reset') RETURNING id", node
        )
        task: int = await conn.fetchval(
            "INSERT INTO farrier.node_tasks (node_id, workflow_id, type) VALUES ($1, $2, 'node.drain') RETURNING id",
            node,
            workflow,
        )
        return task


async def until(conn: Connection, query: str, *arguments: Any) -> None:
    """Return once the query returns true; the test's own timeout is the limit."""
    while not await conn.fetchval(query, *arguments):
        await again.later()


async def test_a_token_enrolls_a_simulated_agent_once(api: PostgresAgents, conn: Connection) -> None:
    node = await register(conn, "gpu-1")
    agents = SimulatedAgents(api)
    assert await agents.enroll(named("gpu-1")) == node
    assert await conn.fetchval("SELECT last_heartbeat_at IS NOT NULL FROM farrier.node_agents")
    with pytest.raises(RefusedByModel, match="was used"):
        await agents.enroll(named("gpu-1"))


async def test_a_batch_of_heartbeats_reaches_each_node_whose_agent_sent_one(
    api: PostgresAgents, conn: Connection
) -> None:
    """A deleted node, or one that has another agent, does not fail the heartbeats of the other nodes."""
    nodes = [await register(conn, f"gpu-{number}") for number in range(3)]
    sound, deleted, replaced = [await api.enroll(named(f"gpu-{number}"), {}) for number in range(3)]
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")
        await conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE id = $1", deleted.node)
    stranger = Enrolled(replaced.node, "not the key")
    warning = Health(ok=False, alerts=(Alert("ecc", "bad memory", True),))
    assert await api.beat([Heartbeat(stranger), Heartbeat(deleted), Heartbeat(sound, warning)]) == {nodes[0]}
    health = await conn.fetchval("SELECT health ->> 'ok' FROM farrier.node_agents WHERE node_id = $1", nodes[0])
    assert health == "false"


async def test_an_agent_does_the_task_of_its_node_and_of_no_other(api: PostgresAgents, conn: Connection) -> None:
    mine, other = await register(conn, "gpu-1"), await register(conn, "gpu-2")
    task, others_task = await give_task(conn, mine), await give_task(conn, other)
    agents = SimulatedAgents(api, AT_ONCE)
    await agents.enroll(named("gpu-1"))
    async with anyio.create_task_group() as living:
        living.start_soon(agents.run)
        await until(conn, "SELECT status = 'succeeded' FROM farrier.node_tasks WHERE id = $1", task)
        living.cancel_scope.cancel()
    assert await conn.fetchval("SELECT claimed_by FROM farrier.node_tasks WHERE id = $1", task) == "agent of gpu-1"
    assert await conn.fetchval("SELECT status FROM farrier.node_tasks WHERE id = $1", others_task) == "queued"


async def test_a_silent_agent_neither_beats_nor_works_until_it_is_revived(
    api: PostgresAgents, conn: Connection
) -> None:
    silent, loud = await register(conn, "gpu-1"), await register(conn, "gpu-2")
    agents = SimulatedAgents(api, AT_ONCE)
    for token in ("gpu-1", "gpu-2"):
        await agents.enroll(named(token))
    agents.silence(silent)
    last = "SELECT last_heartbeat_at FROM farrier.node_agents WHERE node_id = $1"
    fell_silent_at = await conn.fetchval(last, silent)
    tasks = [await give_task(conn, node) for node in (silent, loud)]
    done = "SELECT status = 'succeeded' FROM farrier.node_tasks WHERE id = $1"
    async with anyio.create_task_group() as living:
        living.start_soon(agents.run)
        await until(conn, done, tasks[1])
        await until(conn, f"SELECT ({last}) > $2", loud, await conn.fetchval("SELECT farrier.now()"))
        assert await conn.fetchval(last, silent) == fell_silent_at
        assert not await conn.fetchval(done, tasks[0])
        agents.revive(silent)
        await until(conn, done, tasks[0])
        living.cancel_scope.cancel()


async def test_a_renewed_task_is_kept_and_an_expired_one_is_lost_to_a_new_lease(
    api: PostgresAgents, conn: Connection, db: pg.Database
) -> None:
    node = await register(conn, "gpu-1")
    await give_task(conn, node)
    agent = await api.enroll(named("gpu-1"), {})
    assert await api.claim([Enrolled(node, "not the key")], list(TaskType), MINUTE) == ()
    (task,) = await api.claim([agent], list(TaskType), MINUTE)
    await db.advance(0.5 * MINUTE)
    await api.renew(task, MINUTE)
    until_ = await conn.fetchval("SELECT lease_until FROM farrier.node_tasks")
    assert until_ == pytest.approx(await db.now() + MINUTE, abs=timedelta(seconds=5))
    await conn.execute("UPDATE farrier.node_tasks SET lease_token = gen_random_uuid()")
    with pytest.raises(RefusedByModel, match="not the current one"):
        await api.finish(task, succeeded=True, result={})
