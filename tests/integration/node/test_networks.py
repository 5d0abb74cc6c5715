"""Nodes use segments and partitions: they allocate before the deployment, give back at the end, and lose nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.views.nodes import MembershipView, NodeAddress
from farrier.sim.faults import Fault
from tests.support import onboarded, pg, tenancy, woken
from tests.support.onboarded import begun, cleaned, deployed, until
from tests.support.site import MINUTE, SECOND, Machine
from tests.support.tenancy import PARTITION, SEGMENT, Tenancy

_DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
PORT = "0002c903000e0001"  # of the first node
STAGE = "apply_roce_phase2"
DOWN = Fault(status=500, times=None)


@pytest.fixture
async def lan(db: pg.Database) -> AsyncIterator[Tenancy]:
    """A site whose nodes use a segment and a partition, both of which are ready."""
    async with tenancy.opened(db) as opened:
        await opened.segment(gateways=["10.9.0.1"], mtu=9000)
        await opened.partition()
        yield opened


@pytest.fixture
async def every_lan(every_db: pg.Database) -> AsyncIterator[Tenancy]:
    """The site of `lan` on each supported server in turn, for tests of behaviour that is implemented in SQL."""
    async with tenancy.opened(every_db) as opened:
        await opened.segment(gateways=["10.9.0.1"], mtu=9000)
        await opened.partition()
        yield opened


async def test_a_node_has_its_address_and_its_membership_before_it_is_deployed(lan: Tenancy) -> None:
    node = await lan.active()
    assert await lan.addresses(node) == ["10.9.0.2"]
    assert (await lan.members(), list(lan.ports)) == ({PORT: "applied"}, [PORT])
    assert "address: tenant-a 10.9.0.2/24 via 10.9.0.1" in await onboarded.user_data_of(node)


async def test_the_node_view_shows_ports_addresses_and_memberships(every_lan: Tenancy, every_db: pg.Database) -> None:
    node = await every_lan.active()
    async with every_db.pool(1) as pool:
        (shown,) = (await PostgresQueries(pool).node(node.name)).rows
        (other,) = (await PostgresQueries(pool).node((await onboarded.manageable(every_lan.site)).name)).rows
    assert shown.ib_guids == (PORT,)
    assert shown.addresses == (NodeAddress(segment=SEGMENT, address="10.9.0.2", owner=node.name),)
    assert shown.memberships == (MembershipView(partition=PARTITION, guid=PORT, state="applied"),)
    assert (other.ib_guids, other.addresses, other.memberships) == (None, (), ())


async def test_a_segment_or_partition_in_use_is_not_deleted_and_the_answer_names_the_node(lan: Tenancy) -> None:
    node = await lan.active()
    for kind, name in (("network_segment", SEGMENT), ("ib_partition", PARTITION)):
        status, reason = await lan.asked(kind, name, "delete")
        assert status == "rejected" and node.name in reason


async def test_a_drain_ends_once_the_node_is_decommissioned_and_not_before(every_lan: Tenancy) -> None:
    node = await every_lan.active()
    for kind, name in (("network_segment", SEGMENT), ("ib_partition", PARTITION)):
        assert (await every_lan.asked(kind, name, "delete", drain=True))[0] == "accepted"
    await cleaned(await node.asked("decommission", mode="full_decommission"))
    await until(node, "release_maas_node", every=SECOND)
    assert await every_lan.addresses(node) == ["10.9.0.2"], "its machine may still run"
    await until(node, "deleted")
    assert await every_lan.addresses(node) == []
    await every_lan.until_gone("farrier.network_segments", SEGMENT)
    await every_lan.until_gone("farrier.ib_partitions", PARTITION)
    assert not every_lan.ports


@pytest.mark.parametrize("mode", ["soft_reset", "storage_cleanup"])
async def test_a_node_that_stays_in_service_keeps_its_address_and_membership(lan: Tenancy, mode: str) -> None:
    node = await lan.active()
    await cleaned(await node.asked("decommission", mode=mode))
    await until(node, "completed")
    assert (await lan.addresses(node), list(lan.ports)) == (["10.9.0.2"], [PORT])


async def test_a_reimaged_node_keeps_its_address_although_a_lower_one_is_free(lan: Tenancy) -> None:
    await lan.site.conn.fetchval("SELECT farrier.allocate_address($1, 'somebody')", SEGMENT)
    node = await lan.active()
    await cleaned(await node.asked("decommission", mode="reimage"))
    await until(node, "release_maas_node")
    await lan.site.conn.execute("SELECT farrier.release_address($1, '10.9.0.2', 'somebody')", SEGMENT)
    await deployed(node)
    assert (await lan.addresses(node), list(lan.ports)) == (["10.9.0.3"], [PORT])
    assert "10.9.0.3/24" in await onboarded.user_data_of(node)


async def test_a_reimage_that_retires_the_node_gives_back_address_and_membership(lan: Tenancy) -> None:
    node = await lan.active()
    await cleaned(await node.asked("decommission", mode="reimage", retire=True))
    await until(node, "completed")
    assert (await node.state())[0] == "retired"
    assert await lan.addresses(node) == []
    await lan.until_left()
    assert not lan.ports


async def test_a_node_waits_while_ufm_is_down_and_then_goes_on_by_itself(lan: Tenancy) -> None:
    lan.manager.faults.add(DOWN)
    node = await onboarded.begun(await lan.node())
    await until(node, STAGE)
    await lan.site.wait(2 * timedelta(hours=1))
    assert (await node.state())[1:] == ("running", STAGE), "an outage of UFM is no failure of the node"
    assert PORT in await lan.reason(node) and await lan.addresses(node) == ["10.9.0.2"]
    lan.manager.faults.clear()
    await deployed(node)
    assert list(lan.ports) == [PORT]


async def test_a_partition_enqueues_the_node_that_waits_for_it(every_lan: Tenancy) -> None:
    every_lan.manager.faults.add(DOWN)
    node = await onboarded.begun(await every_lan.node())
    await until(node, STAGE)
    assert PORT in await every_lan.reason(node)
    every_lan.manager.faults.clear()
    await woken.count(every_lan.site.conn)
    await every_lan.site.wait(2 * MINUTE)
    assert await woken.times(every_lan.site.conn, "node", node.id)
    assert (await node.state())[2] != STAGE


async def test_a_released_address_enqueues_the_node_that_waits_for_it(db: pg.Database) -> None:
    async with tenancy.opened(db, partitions=()) as lan:
        await lan.segment("10.9.0.0/30")
        for owner in ("x", "y"):
            await lan.site.conn.execute("SELECT farrier.allocate_address($1, $2)", SEGMENT, owner)
        node = await onboarded.begun(await lan.node())
        await until(node, STAGE)
        assert not await lan.addresses(node)
        await lan.site.conn.execute("SELECT farrier.release_address($1, '10.9.0.1', 'x')", SEGMENT)
        await lan.site.settled()
        assert await lan.addresses(node) == ["10.9.0.1"], "no time has passed"
        await lan.site.conn.execute("SELECT farrier.release_address($1, '10.9.0.2', 'y')", SEGMENT)


async def test_a_node_for_which_a_segment_is_full_waits_and_others_go_on(db: pg.Database) -> None:
    async with tenancy.opened(db, partitions=()) as lan:
        await lan.segment("10.9.0.0/30")
        nodes = [await lan.node() for _ in range(3)]
        async with lan.site.conn.transaction():
            for node in nodes:
                await node.tell("onboard", mode="deploy")
        for node in nodes:
            await until(node, STAGE, "wait_for_agent_enrollment")
        await lan.site.wait(120 * MINUTE)
        stages = [(await node.state())[2] for node in nodes]
        assert sorted(map(str, stages)) == [STAGE, *2 * ["wait_for_agent_enrollment"]]
        late = nodes[stages.index(STAGE)]
        assert "segment tenant-a has no free address" in await lan.reason(late)
        await lan.asked("network_segment", SEGMENT, "update", add_prefixes=["10.9.1.0/30"])
        await deployed(late)
        assert await lan.addresses(late) == ["10.9.1.1"]


async def test_a_segment_and_a_partition_made_later_enqueue_the_node_that_waits_for_them(db: pg.Database) -> None:
    async with tenancy.opened(db) as lan:
        node = await lan.begun()
        assert "segment tenant-a does not exist" in await lan.reason(node)
        assert "IB partition ib-a does not exist" in await lan.reason(node)
        await lan.segment()
        await lan.site.wait(2 * SECOND)
        assert "segment tenant-a does not exist" not in await lan.reason(node)
        await lan.partition()
        await lan.site.wait(2 * SECOND)
        await deployed(node)
        assert (await lan.addresses(node), list(lan.ports)) == (["10.9.0.1"], [PORT])


async def test_a_segment_of_another_site_stops_the_onboarding_for_an_operator(db: pg.Database) -> None:
    async with tenancy.opened(db, partitions=()) as lan:
        await lan.segment(site="south")
        node = await onboarded.begun(await lan.node())
        await until(node, "failed_manual_intervention")
        assert (await node.look())["failure_class"] == "invalid_config"
        detail = await lan.site.conn.fetchval(
            "SELECT failure_detail FROM farrier.node_lifecycle WHERE id = $1", node.id
        )
        assert "segment tenant-a belongs to site south, but the node belongs to site north" in detail
        assert await lan.addresses(node) == []


async def test_a_node_without_recorded_ports_waits_until_an_operator_sets_them(lan: Tenancy) -> None:
    node = await onboarded.begun(await onboarded.manageable(lan.site))
    await until(node, STAGE)
    assert "set_ib_ports" in await lan.reason(node)
    await lan.has_ports(node, "0x0002C903000E0009")
    await lan.site.wait(2 * SECOND)
    await deployed(node)
    assert await lan.members() == {"0002c903000e0009": "applied"}


async def test_a_node_without_ports_joins_no_partition(lan: Tenancy) -> None:
    node = await onboarded.manageable(lan.site)
    await lan.has_ports(node)
    await deployed(await begun(node))
    assert (await lan.addresses(node), await lan.members()) == (["10.9.0.2"], {})


async def test_ports_that_an_agent_reports_are_recorded_unless_an_operator_set_them(every_lan: Tenancy) -> None:
    node, given = await onboarded.manageable(every_lan.site), await every_lan.node()
    facts = '{"ib_guids": ["0x0002C903000EAAAA", "nonsense"]}'
    for each in (node, given):
        token = await every_lan.site.conn.fetchval("SELECT farrier.issue_bootstrap($1)", each.name)
        await every_lan.site.conn.execute("SELECT farrier.enroll_agent($1, $2::text::jsonb)", token, facts)
    known = "SELECT guids FROM farrier.node_ib_ports WHERE node = $1"
    assert await every_lan.site.conn.fetchval(known, node.id) == ["0002c903000eaaaa"]
    assert await every_lan.site.conn.fetchval(known, given.id) == [PORT]


async def test_a_port_belongs_to_one_node(lan: Tenancy) -> None:
    node, other = await lan.node(), await lan.node()
    with pytest.raises(pg.PostgresError, match=f"node {node.name} already has one of these ports"):
        await lan.has_ports(other, PORT)


@pytest.mark.parametrize("stage", ["wait_for_deployed", "wait_for_agent_enrollment"])
async def test_a_cancelled_onboarding_gives_back_address_and_membership(lan: Tenancy, stage: str) -> None:
    node = await begun(await lan.node())
    await until(node, stage)
    assert await lan.addresses(node)
    await node.asked("cancel")
    await until(node, "cancelled")
    await lan.until_left()
    assert (await lan.addresses(node), list(lan.ports)) == ([], [])


async def test_an_onboarding_that_is_restarted_keeps_one_address(lan: Tenancy) -> None:
    node = await begun(await lan.node())
    await until(node, "wait_for_deployed")
    for action in ("restart_clean", "rerun"):
        await node.asked("mark_manual_intervention_required")
        await node.asked(action)
        await deployed(node)
        assert (await lan.addresses(node), list(lan.ports)) == (["10.9.0.2"], [PORT])


async def test_a_deleted_node_gives_back_address_and_membership(lan: Tenancy) -> None:
    node = await begun(await lan.node())
    await until(node, "wait_for_deployed")
    await node.asked("delete")
    await until(node, "deleted")
    await lan.until_left()
    assert (await lan.addresses(node), list(lan.ports)) == ([], [])
    await lan.has_ports(await lan.node(), PORT)  # another node may have the same port afterwards


async def test_a_node_that_is_not_deployed_yet_does_not_hold_up_a_drain_of_its_segment(db: pg.Database) -> None:
    async with tenancy.opened(db) as lan:
        await lan.segment()
        node = await lan.begun()  # its onboarding waits, because the partition does not exist
        assert await lan.addresses(node) == ["10.9.0.1"]
        assert (await lan.asked("network_segment", SEGMENT, "delete", drain=True))[0] == "accepted"
        await lan.until_reason(node, "is being deleted")
        assert await lan.addresses(node) == []
        await lan.until_gone("farrier.network_segments", SEGMENT)


async def test_an_address_that_a_client_allocated_for_the_node_is_used(lan: Tenancy) -> None:
    node = await lan.node()
    await lan.site.conn.execute("SELECT farrier.allocate_address($1, $2, '10.9.0.77')", SEGMENT, node.name)
    await deployed(await begun(node))
    assert await lan.addresses(node) == ["10.9.0.77"]


async def test_an_open_allocation_delays_only_nodes_that_use_the_same_segment(lan: Tenancy, db: pg.Database) -> None:
    """The client holds the segment's lock; the loop does not wait for it, and runs the node again each second."""
    node = await lan.node()
    async with db.connect() as client:
        transaction = client.transaction()
        await transaction.start()
        await client.execute("SELECT farrier.allocate_address($1, 'vm-1')", SEGMENT)
        await node.tell("onboard", mode="deploy")
        await until(node, STAGE)
        await lan.site.wait(5 * SECOND)
        assert (await node.state())[1:] == ("running", STAGE) and await lan.members() == {}
        await transaction.rollback()
    await deployed(node)
    assert (await lan.addresses(node), await lan.members()) == (["10.9.0.2"], {PORT: "applied"})


async def test_the_controllers_role_suffices_for_nodes_that_use_networks(db: pg.Database) -> None:
    async with db.connect() as owner:
        await owner.execute("GRANT USAGE ON SCHEMA farrier_test TO farrier_controller")
        await owner.execute("GRANT UPDATE ON farrier_test.clock TO farrier_controller")
    await db.set_default("role", "farrier_controller")
    async with tenancy.opened(db, partitions=()) as lan:
        async with db.connect() as client:
            await client.execute("SET ROLE farrier_intents")
            await client.execute(
                tenancy.CREATE, "network_segment", SEGMENT, '{"site": "north", "prefixes": ["10.9.0.0/24"]}'
            )
            await lan.site.settled()
        assert await lan.site.conn.fetchval("SELECT current_user") == "farrier_controller"
        node = await begun(await onboarded.manageable(lan.site))
        await until(node, "wait_for_deployed")
        assert await lan.addresses(node) == ["10.9.0.1"]
        await node.asked("delete")
        await until(node, "deleted")
        assert await lan.addresses(node) == []


@pytest.mark.parametrize("many", [8, pytest.param(24, marks=pytest.mark.full)])
async def test_many_concurrent_nodes_get_one_address_each_without_a_deadlock(lan: Tenancy, many: int) -> None:
    """The nodes' commits lock rows that the commits of segment and partition lock, too."""
    nodes = [await lan.node() for _ in range(many)]
    before = await lan.site.conn.fetchval(_DEADLOCKS)
    async with lan.site.conn.transaction():
        for node in nodes:
            await node.tell("onboard", mode="deploy")
    for node in nodes:
        await until(node, "wait_for_agent_enrollment", every=10 * SECOND)
    held = [await lan.addresses(node) for node in nodes]
    assert {len(each) for each in held} == {1} and len({each[0] for each in held}) == len(nodes)
    assert set((await lan.members()).values()) == {"applied"} and len(lan.ports) == len(nodes)
    assert await lan.site.conn.fetchval(_DEADLOCKS) == before


# --- one commit of several runs


def changes(*runs: tuple[Machine, int], wants: Sequence[Machine] = ()) -> tuple[str, list[int], list[int]]:
    """The changes of a commit: runs, each revoking a token, and the nodes that use the segment; the runs and their
    versions."""
    made: dict[str, list[dict[str, object]]] = {
        "revoked": [{"run": node.id} for node, _ in runs],
        "networks": [{"run": node.id, "segments": [SEGMENT], "partitions": []} for node in wants],
    }
    return json.dumps(made), [node.id for node, _ in runs], [version for _, version in runs]


_EMPTY = ", ".join(["'{}'"] * 6)
_WRITE = (
    f"SELECT run, due_in FROM farrier.write_nodes_and_networks($1::text::jsonb, '{{}}', $2, $3, {_EMPTY}) ORDER BY run"
)
_VERSION = "SELECT version FROM farrier.nodes WHERE id = $1"
_TOKENS = "SELECT node_id FROM farrier.bootstrap_tokens WHERE revoked_at IS NOT NULL ORDER BY node_id"


async def with_tokens(lan: Tenancy, many: int) -> list[tuple[Machine, int]]:
    """Register nodes with a token each; returns them with their versions."""
    nodes = [await lan.site.register(bootstrap_token=f"token {number}") for number in range(many)]
    return [(node, await lan.site.conn.fetchval(_VERSION, node.id)) for node in nodes]


async def test_a_run_that_cannot_get_its_address_now_writes_nothing_and_other_runs_are_written(
    every_lan: Tenancy, every_db: pg.Database
) -> None:
    (first, one), (second, two) = await with_tokens(every_lan, 2)
    async with every_db.connect() as client, client.transaction():
        await client.execute("SELECT farrier.allocate_address($1, 'vm-1')", SEGMENT)
        unwritten = await every_lan.site.conn.fetch(_WRITE, *changes((first, one), (second, two), wants=[first]))
        assert [tuple(row) for row in unwritten] == [(first.id, SECOND)]
        assert [row["node_id"] for row in await every_lan.site.conn.fetch(_TOKENS)] == [second.id]
        await client.execute("SELECT farrier.release_address($1, '10.9.0.2', 'vm-1')", SEGMENT)


async def test_a_run_on_an_older_version_takes_no_address(every_lan: Tenancy) -> None:
    (first, one), (second, two) = await with_tokens(every_lan, 2)
    runs = ((first, one - 1), (second, two))
    unwritten = await every_lan.site.conn.fetch(_WRITE, *changes(*runs, wants=[first, second]))
    assert [row["run"] for row in unwritten] == [first.id]
    assert (await every_lan.addresses(first), await every_lan.addresses(second)) == ([], ["10.9.0.2"])


async def test_a_segment_that_is_not_ready_is_skipped_without_an_error(every_db: pg.Database) -> None:
    """No loop runs here, so the segment does not become ready."""
    async with every_db.connect() as conn:
        create = "INSERT INTO farrier.resource_intents (kind, resource, action, params) VALUES ($1, $2, 'create', $3)"
        await conn.execute(create, "network_segment", SEGMENT, '{"site": "north", "prefixes": ["10.9.0.0/24"]}')
        node = await conn.fetchval("SELECT farrier.register_node('gpu-1', site => 'north')")
        await conn.execute("SELECT farrier.use_networks($1, ARRAY[$2], '{}')", node, SEGMENT)
        assert await conn.fetchval("SELECT state FROM farrier.network_segments") == "provisioning"
        assert await conn.fetchval("SELECT count(*) FROM farrier.segment_addresses") == 0


async def test_a_repeated_write_of_a_run_takes_no_second_address(every_lan: Tenancy) -> None:
    ((node, version),) = await with_tokens(every_lan, 1)
    for _ in range(2):
        assert await every_lan.site.conn.fetch(_WRITE, *changes((node, version), wants=[node])) == []
    assert await every_lan.addresses(node) == ["10.9.0.2"]


async def test_a_node_that_is_deleted_by_hand_gives_back_address_and_membership(every_lan: Tenancy) -> None:
    """Tested by an UPDATE by hand that marks the node's row as deleted."""
    node = await every_lan.active()
    await cleaned(await node.asked("decommission", mode="full_decommission"))
    await until(node, "release_maas_node", every=SECOND)
    assert await every_lan.addresses(node) and await every_lan.members()
    await every_lan.site.conn.execute("ALTER TABLE farrier.nodes DISABLE TRIGGER USER")
    await every_lan.site.conn.execute("ALTER TABLE farrier.nodes ENABLE TRIGGER follow_node")
    await every_lan.site.conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE id = $1", node.id)
    assert await every_lan.addresses(node) == [] and await every_lan.members() == {PORT: "leaving"}
    await every_lan.site.conn.execute("UPDATE farrier.nodes SET status = 'retired' WHERE id = $1", node.id)
    await every_lan.site.conn.execute("ALTER TABLE farrier.nodes ENABLE TRIGGER USER")
