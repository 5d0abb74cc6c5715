"""The simulated service that registers a fleet over SQL, and its view of the nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from farrier.errors import RefusedByModel
from farrier.io.calls.fleet import PostgresFleet
from farrier.io.calls.requests import PostgresRequests
from farrier.io.connections.pool import Pool
from farrier.io.queries.lists import PostgresQueries
from farrier.model.intents.actions import API_MAX, Action
from farrier.model.intents.requests import Registration
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.views.fleet import NodeGlance
from farrier.sim.agents import SimulatedAgents
from farrier.sim.fleet import SimulatedFleet
from tests.support import pg, proxy
from tests.support.door import client_on
from tests.support.tokens import named

BARE = Registration(name="gpu-1", bootstrap_token=named("one"), macs=("52:54:00:00:00:01",))
FULL = Registration(
    name="gpu-2",
    bootstrap_token=named("two"),
    bmc_address="https://192.0.2.1/redfish/v1/Systems/2",
    bmc_credential="file:/run/creds/2",
    macs=("52:54:00:00:00:02",),
    labels={"rack": "r1"},
    site="demo",
    model="simulated",
)


@pytest.fixture
async def api(db: pg.Database) -> AsyncIterator[PostgresFleet]:
    async with db.pool() as connections:
        yield PostgresFleet(connections)


def simulated(connections: Pool, dsn: str, agents: SimulatedAgents) -> SimulatedFleet:
    return SimulatedFleet(
        [BARE],
        api=PostgresFleet(connections),
        requests=PostgresRequests(connections, dsn, requested_by="the test"),
        queries=PostgresQueries(connections),
        agents=agents,
        after=0,
    )


async def register(db: pg.Database, *nodes: Registration) -> None:
    async with db.pool() as connections:
        await PostgresRequests(connections, db.dsn).register(nodes)


async def test_registered_nodes_wait_for_their_agents(api: PostgresFleet, db: pg.Database) -> None:
    assert await api.glance(0) == ()
    await register(db, BARE, FULL)
    first, second = await api.glance(0)
    assert (first.name, first.status, first.management) == (
        "gpu-1",
        NodeStatus.BOOTSTRAP_ISSUED,
        Management.UNMANAGED,
    )
    assert (second.name, second.management) == ("gpu-2", Management.ENROLL)
    assert await api.glance(first.id) == (second,)


async def test_one_invalid_node_prevents_the_whole_registration(api: PostgresFleet, db: pg.Database) -> None:
    with pytest.raises(RefusedByModel, match="is not valid"):
        await register(db, BARE, msgspec.structs.replace(FULL, name="no such name"))
    assert await api.glance(0) == ()


async def test_a_fleet_submits_intents_as_its_client_and_logs_refusals(api: PostgresFleet, db: pg.Database) -> None:
    await register(db, BARE)
    (node,) = await api.glance(0)
    async with db.pool() as connections, client_on(connections) as client:
        fleet = simulated(connections, db.dsn, SimulatedAgents(client))
        assert await fleet.ask(node, Action.QUARANTINE, reason="smoke")
        with capture_logs() as logs:
            assert await fleet.ask(node, Action.QUARANTINE)
    async with db.connect() as conn:
        asked = await conn.fetch("SELECT action, requested_by, api_version FROM farrier.intents")
    assert [tuple(record) for record in asked] == [("quarantine", "the test", API_MAX)]
    (line,) = logs
    assert line["event"] == "fleet.refused" and "parameter reason is missing" in line["error"]


async def test_a_fleet_leaves_the_nodes_that_others_registered_to_them(api: PostgresFleet, db: pg.Database) -> None:
    await register(db, BARE, FULL)
    async with db.pool() as connections, client_on(connections) as client:
        mine = await simulated(connections, db.dsn, SimulatedAgents(client)).glance()
    assert [node.name for node in mine] == ["gpu-1"]


@pytest.mark.parametrize("message", ["farrier.register_node", "gpu-1", "enroll_agent", "failure_class"])
async def test_a_fleet_arrives_although_its_connection_breaks(message: str, db: pg.Database) -> None:
    """The connection breaks before a registration, after it (its result is lost), at an enrolment, and in a query."""
    async with (
        proxy.before(db.dsn) as between,
        pg.Database(between.dsn).pool(2) as connections,
        client_on(connections) as client,
    ):
        agents = SimulatedAgents(client)
        fleet = simulated(connections, between.dsn, agents)
        between.cut_after(message.encode())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fleet.arrive, timedelta(0))
            with anyio.fail_after(pg.PATIENCE.total_seconds()):
                while not (agents and fleet.seen):
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert between.cuts == 1


async def test_moves_of_nodes_are_returned_newest_first(db: pg.Database) -> None:
    await register(db, BARE)
    await register(db, FULL)
    async with db.pool() as connections, client_on(connections) as client:
        moves = await simulated(connections, db.dsn, SimulatedAgents(client)).moves(3)
    assert [move.name for move in moves] == ["gpu-2", "gpu-2", "gpu-1"]
    assert {(move.layer, move.source_state, move.target_state) for move in moves[:2]} == {
        ("status", None, "bootstrap_issued"),
        ("management", None, "enroll"),
    }


@pytest.mark.parametrize(
    ("status", "management", "arrived"),
    [
        (NodeStatus.ACTIVE, Management.MANAGEABLE, True),
        (NodeStatus.ACTIVE, Management.UNMANAGED, True),
        (NodeStatus.ACTIVE, Management.VERIFYING, False),
        (NodeStatus.ENROLLING, Management.MANAGEABLE, False),
    ],
)
def test_a_node_has_arrived_when_it_is_active_and_its_bmc_usable(
    status: NodeStatus, management: Management, arrived: bool
) -> None:
    assert NodeGlance(1, "gpu-1", status, management, "").arrived is arrived
