"""Simulated agents against a server for agents, as real ones call it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest

from farrier.errors import RefusedByModel
from farrier.io.connections.pool import Connection
from farrier.model.node.snapshot import TaskType
from farrier.sim.agents import Agent, AgentsClient, Pace, SimulatedAgents, UnknownKey
from farrier.sim.bmc import fake_systems
from farrier.sim.fleet import natures
from farrier.sim.installs import Installations
from farrier.sim.maas import Region, Status, components, show
from farrier.sim.maas.records import Interface, Machine
from tests.support import again, pg
from tests.support.door import client_on
from tests.support.tokens import named

MINUTE = timedelta(minutes=1)
AT_ONCE = Pace(
    heartbeat_every=timedelta(milliseconds=10),
    task_takes=timedelta(milliseconds=1),
    task_lease=MINUTE,
)


@pytest.fixture
async def api(db: pg.Database) -> AsyncIterator[AgentsClient]:
    async with db.pool() as connections, client_on(connections) as client:
        yield client


async def register(conn: Connection, name: str) -> int:
    """Register a node that waits for its agent, with the token that is derived from its name."""
    node: int = await conn.fetchval("SELECT farrier.register_node($1, bootstrap_token => $2)", name, named(name))
    return node


async def give_task(conn: Connection, node: int, type_: TaskType = TaskType.DRAIN) -> int:
    """Insert a queued task, as the controller does."""
    async with conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")  # the guards would refuse it
        workflow = await conn.fetchval(
            "INSERT INTO farrier.node_decommissions (node_id, mode) VALUES ($1, 'soft_reset') RETURNING id", node
        )
        task: int = await conn.fetchval(
            "INSERT INTO farrier.node_tasks (node_id, workflow_id, type) VALUES ($1, $2, $3) RETURNING id",
            node,
            workflow,
            type_,
        )
        return task


@asynccontextmanager
async def running(agents: SimulatedAgents | Installations) -> AsyncIterator[None]:
    async with anyio.create_task_group() as living:
        living.start_soon(agents.run)
        yield
        living.cancel_scope.cancel()


async def test_a_token_enrolls_a_simulated_agent_once(api: AgentsClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    agents = SimulatedAgents(api)
    assert await agents.enroll(named("gpu-1")) == "gpu-1"
    assert await conn.fetchval("SELECT by_door AND last_heartbeat_at IS NOT NULL FROM farrier.node_agents")
    with pytest.raises(RefusedByModel, match="was used"):
        await agents.enroll(named("gpu-1"))


async def test_an_agent_ends_when_another_one_has_enrolled(api: AgentsClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    agents = SimulatedAgents(api, AT_ONCE)
    await agents.enroll(named("gpu-1"))
    await api.enroll(await conn.fetchval("SELECT farrier.issue_bootstrap('gpu-1')"), {})
    async with running(agents):
        while len(agents):
            await again.later()


async def test_an_agent_does_the_task_of_its_node_and_of_no_other(
    api: AgentsClient, conn: Connection, db: pg.Database
) -> None:
    mine, other = await register(conn, "gpu-1"), await register(conn, "gpu-2")
    task, others_task = await give_task(conn, mine), await give_task(conn, other)
    agents = SimulatedAgents(api, AT_ONCE)
    await agents.enroll(named("gpu-1"))
    async with running(agents):
        await db.until("SELECT status = 'succeeded' FROM farrier.node_tasks WHERE id = $1", task)
    assert await conn.fetchval("SELECT claimed_by FROM farrier.node_tasks WHERE id = $1", task) == "agent of gpu-1"
    assert await conn.fetchval("SELECT status FROM farrier.node_tasks WHERE id = $1", others_task) == "queued"


async def test_the_evidence_of_an_erasure_names_every_disk_that_the_facts_name(
    api: AgentsClient, conn: Connection, db: pg.Database
) -> None:
    task = await give_task(conn, await register(conn, "gpu-1"), TaskType.CLEANUP_STORAGE)
    agents = SimulatedAgents(api, AT_ONCE)
    await agents.enroll(named("gpu-1"), "gpu-1")
    async with running(agents):
        await db.until("SELECT status = 'succeeded' FROM farrier.node_tasks WHERE id = $1", task)
    named_in = "SELECT array_agg(x ->> 'serial' ORDER BY x ->> 'serial') FROM jsonb_array_elements"
    disks = await conn.fetchval(f"{named_in}((SELECT facts -> 'disks' FROM farrier.node_agents)) x")
    erased = await conn.fetchval(
        f"{named_in}((SELECT evidence -> 'devices' FROM farrier.node_tasks WHERE id = $1)) x", task
    )
    assert len(disks) > 1
    assert disks == erased


async def test_the_agent_of_an_installation_reports_the_machine_and_the_disks_that_its_region_found(
    api: AgentsClient, conn: Connection, db: pg.Database
) -> None:
    name = "not-on-the-list"
    await register(conn, name)
    region, systems = Region(), fake_systems(1)
    region.natures = natures(systems)
    installs = Installations(region, SimulatedAgents(api, AT_ONCE))
    user_data = f'#cloud-config\ncontent: "{named(name)}"\n'
    machine = Machine(system_id=region.next_system_id(), hostname=name, status=Status.DEPLOYING, user_data=user_data)
    machine.interfaces.append(Interface(id=1, name="eno1", mac_address=systems[0].mac))
    region.keep(machine)
    components.look(region, machine)
    async with running(installs):
        await again.later()
        region.move(machine, Status.DEPLOYED)
        await db.until("SELECT EXISTS (SELECT FROM farrier.node_agents)")
    reported = await conn.fetchval(
        "SELECT jsonb_path_query_array(facts, '$.disks[*].serial')::text FROM farrier.node_agents"
    )
    assert json.loads(reported) == [disk.serial for disk in machine.disks] != []
    shown = show.machine(region, machine)
    assert shown["hardware_uuid"] == systems[0].uuid, "as its BMC reports it"
    hardware = shown["hardware_info"]
    assert isinstance(hardware, dict)
    assert hardware["system_serial"] == await conn.fetchval("SELECT serial FROM farrier.node_agents")


async def test_a_silent_agent_neither_beats_nor_works_until_it_is_revived(
    api: AgentsClient, conn: Connection, db: pg.Database
) -> None:
    silent, loud = await register(conn, "gpu-1"), await register(conn, "gpu-2")
    off: set[str] = set()
    agents = SimulatedAgents(api, AT_ONCE, off=off)
    for token in ("gpu-1", "gpu-2"):
        await agents.enroll(named(token), f"serial of {token}")
    off.add("serial of gpu-1")
    last = "SELECT last_heartbeat_at FROM farrier.node_agents WHERE node_id = $1"
    fell_silent_at = await conn.fetchval(last, silent)
    tasks = [await give_task(conn, node) for node in (silent, loud)]
    done = "SELECT status = 'succeeded' FROM farrier.node_tasks WHERE id = $1"
    async with running(agents):
        await db.until(done, tasks[1])
        await db.until(f"SELECT ({last}) > $2", loud, await conn.fetchval("SELECT farrier.now()"))
        assert await conn.fetchval(last, silent) == fell_silent_at
        assert not await conn.fetchval(done, tasks[0])
        off.discard("serial of gpu-1")
        await db.until(done, tasks[0])


async def test_a_renewed_task_is_kept_and_an_expired_one_is_lost_to_a_new_lease(
    api: AgentsClient, conn: Connection, db: pg.Database
) -> None:
    await give_task(conn, await register(conn, "gpu-1"))
    agent = await api.enroll(named("gpu-1"), {})
    with pytest.raises(UnknownKey):
        await api.claim(Agent("gpu-1", "not the key", agent.boot), ("node.drain",), MINUTE)
    task = await api.claim(agent, ("node.drain",), MINUTE)
    assert task is not None
    await db.advance(0.5 * MINUTE)
    await api.renew(agent, task, MINUTE)
    until_ = await conn.fetchval("SELECT lease_until FROM farrier.node_tasks")
    assert until_ == pytest.approx(await db.now() + MINUTE, abs=timedelta(seconds=5))
    await conn.execute("UPDATE farrier.node_tasks SET lease_token = gen_random_uuid()")
    with pytest.raises(RefusedByModel, match="not the current one"):
        await api.finish(agent, task, result="")
