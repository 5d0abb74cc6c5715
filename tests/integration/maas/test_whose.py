"""Machines that another user made, holds, locked or marked are not changed; the loss of a machine is detected."""

from __future__ import annotations

from datetime import timedelta

from farrier.sim.maas import ADMIN, OPERATOR, Region, Status
from farrier.sim.maas.records import Machine as Record
from tests.support import pg
from tests.support import site as sites
from tests.support.maas_region import Caller
from tests.support.onboarded import QUICK, UNSYNCED, active, begun, deployed, manageable, record, until
from tests.support.site import MINUTE, SECOND, Machine, Site
from tests.support.wire import Wire


async def failure(node: Machine) -> tuple[str, str]:
    """Class and detail of the failure at which the node's workflow stopped."""
    query = "SELECT failure_class, failure_detail FROM farrier.node_lifecycle WHERE id = $1"
    (row,) = await node.site.conn.fetch(query, node.id)
    return row["failure_class"], row["failure_detail"]


async def test_a_new_database_does_not_take_machines_of_an_earlier_database_for_its_own(
    pg_server: pg.Server, db: pg.Database
) -> None:
    """In the new database the nodes are registered in the same order, so that all have the same ids."""
    region = Region(durations=QUICK)
    async with sites.opened(db, region=Wire(region), config=UNSYNCED) as site:
        await site.settled()
        machine = await record(await active(site))
    wire = Wire(region)
    async with pg_server.database() as anew, sites.opened(anew, region=wire, config=UNSYNCED) as site:
        await site.settled()
        node = await begun(await manageable(site))
        await site.settled()
        assert (await failure(node))[0] == "state_disagreement"
        assert (await node.ask("cancel")).status == "accepted"
        for _ in range(3):
            await site.wait(MINUTE)
        assert (await node.state())[1] == "cancelled"
        assert [op for op in wire.ops if op in ("release", "abort", "delete", "power_off")] == []
        assert (machine.status, machine.owner) == (Status.DEPLOYED, ADMIN.username)


async def test_a_deployment_that_an_administrator_made_with_farriers_key_survives_a_cancel(
    site: Site, wire: Wire
) -> None:
    node = await deployed(await begun(await manageable(site)))
    machine, region = await record(node), site.maas.region
    human = Caller(region)
    await human.post(f"machines/{machine.system_id}/?op=release", comment="by hand")
    region.advance(5 * MINUTE)
    await human.post(f"machines/{machine.system_id}/?op=deploy", comment="a tenant's")
    region.advance(5 * MINUTE)
    for _ in range(1001):
        region.note(machine, "Node status event")
    before = len(wire.ops)
    await node.ask("cancel")
    for _ in range(3):
        await site.wait(MINUTE)
    assert machine.status is Status.DEPLOYED and "release" not in wire.ops[before:]


async def test_a_node_whose_machine_another_user_installed_is_quarantined_until_farrier_holds_it(site: Site) -> None:
    """Release and deployment happen between two readings, so that every reading shows the machine as deployed."""
    node = await active(site)
    machine = await record(node)
    installs(site, machine, OPERATOR.username)
    await lives(node, 2 * MINUTE)
    assert (await node.state())[0] == "quarantined" and await node.quarantine() == "region/disagreement"
    await lives(node, 5 * MINUTE)
    assert (await node.state())[0] == "quarantined", "farrier's user also has to hold the machine"
    installs(site, machine, ADMIN.username)
    await lives(node, 2 * MINUTE)
    assert (await node.state())[0] == "active"


def installs(site: Site, machine: Record, username: str) -> None:
    for status in (Status.RELEASING, Status.READY, Status.DEPLOYING, Status.DEPLOYED):
        site.maas.region.move(machine, status)
    machine.owner = username


async def lives(node: Machine, time: timedelta) -> None:
    """Let time pass, with heartbeats."""
    for _ in range(time // (30 * SECOND)):
        await node.beat()
        await node.site.wait(30 * SECOND)


async def test_a_machine_that_a_user_marked_broken_waits_for_an_operator(site: Site, wire: Wire) -> None:
    node = await begun(await manageable(site))
    await until(node, "wait_for_ready", every=SECOND)
    machine, region = await record(node), site.maas.region
    await Caller(region).post(f"machines/{machine.system_id}/?op=abort")
    region.advance(MINUTE)
    machine.error_description = "coolant leak, do not power on"
    region.move(machine, Status.BROKEN)
    await until(node, "failed_manual_intervention")
    kind, detail = await failure(node)
    assert kind == "commissioning_failed" and "coolant leak, do not power on" in detail
    assert wire.ops.count("commission") == 1 and machine.status is Status.BROKEN
    assert (await node.ask("retry_stage")).status == "accepted"
    await site.settled()
    assert wire.ops.count("commission") == 2
