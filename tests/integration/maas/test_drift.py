"""A node in service whose machine in MAAS contradicts that: when it leaves service, why, and when it returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from farrier.sim.maas import ADMIN, Fault, Status
from farrier.sim.maas.records import Machine as Record
from tests.support.onboarded import active, manageable, record
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site
from tests.support.wire import Wire

# Half of the time between two heartbeats.
STEP = 30 * SECOND
Human = Callable[[Site, Record], None]


def releases(site: Site, machine: Record) -> None:
    """Release the machine, as an operator does by mistake."""
    machine.owner = None
    site.maas.region.move(machine, Status.RELEASING)
    site.maas.region.move(machine, Status.READY)


def marks_broken(site: Site, machine: Record) -> None:
    site.maas.region.move(machine, Status.BROKEN)


def rescues(site: Site, machine: Record) -> None:
    site.maas.region.move(machine, Status.ENTERING_RESCUE_MODE)


def deploys_again(site: Site, machine: Record) -> None:
    """Deploy the machine again by hand for farrier's user."""
    machine.owner = ADMIN.username
    site.maas.region.move(machine, Status.DEPLOYED)


async def lives(node: Machine, time: timedelta) -> str:
    """Let time pass in small steps, with a heartbeat in each minute; returns the node's status."""
    passed = timedelta(0)
    while passed < time:
        if not passed % MINUTE:
            await node.beat()
        step = min(STEP, time - passed)
        await node.site.wait(step)
        passed += step
    return (await node.state())[0] or ""


async def seen_state(node: Machine) -> str:
    state: str = await node.site.conn.fetchval(
        "SELECT state FROM farrier.node_observations WHERE node_id = $1", node.id
    )
    return state


async def seen_for(node: Machine) -> timedelta:
    """The time between the first and the last reading that showed the current state."""
    apart: timedelta = await node.site.conn.fetchval(
        "SELECT read_at - since FROM farrier.node_observations WHERE node_id = $1", node.id
    )
    return apart


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("human", [releases, marks_broken, rescues])
async def test_a_contradiction_takes_two_readings_a_minute_apart_and_no_request(
    site: Site, wire: Wire, human: Human
) -> None:
    node = await active(site)
    wire.sent.clear()
    human(site, await record(node))
    assert await lives(node, 50 * SECOND) == "active"
    assert await lives(node, 150 * SECOND) == "quarantined"
    assert await node.quarantine() == "region/disagreement"
    assert await seen_for(node) >= MINUTE
    assert wire.sent == []


async def test_a_deleted_machine_has_to_be_missed_twice_before_its_node_leaves_service(site: Site) -> None:
    """No event reports a deletion: the sweep misses the machine, which is then read by its id."""
    node = await active(site)
    site.maas.region.forget(await record(node))
    while await seen_state(node) != "absent":
        await site.wait(MINUTE)
        await node.beat()
        assert (await node.state())[0] == "active"
    assert await lives(node, 50 * SECOND) == "active"
    assert await lives(node, 150 * SECOND) == "quarantined"
    assert await node.quarantine() == "region/machine_deleted"
    assert await seen_for(node) >= MINUTE


async def test_a_contradiction_that_lasts_for_one_reading_moves_nothing(site: Site) -> None:
    node = await active(site)
    machine = await record(node)
    marks_broken(site, machine)
    assert await lives(node, 30 * SECOND) == "active"
    deploys_again(site, machine)
    assert await lives(node, 5 * MINUTE) == "active"
    assert await node.path() == ["enrolling", "active"]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("human", [releases, marks_broken, rescues])
async def test_a_node_returns_to_service_once_its_machine_is_deployed_again(site: Site, human: Human) -> None:
    node = await active(site)
    machine = await record(node)
    human(site, machine)
    assert await lives(node, 3 * MINUTE) == "quarantined"
    assert await lives(node, 5 * MINUTE) == "quarantined"
    deploys_again(site, machine)
    assert await lives(node, 50 * SECOND) == "quarantined", "a single reading does not confirm the return either"
    assert await lives(node, 150 * SECOND) == "active"


async def test_a_region_that_is_down_for_an_hour_quarantines_no_node(site: Site) -> None:
    nodes = [await active(site), await active(site, macs=["52:54:00:00:00:02"])]
    site.maas.region.faults.add(Fault(status=502, body=b"<html>Bad Gateway</html>", times=None))
    for minute in range(0, 70, 2):
        if minute == 60:
            site.maas.region.faults.clear()
        await site.wait(2 * MINUTE)
        for node in nodes:
            await node.beat()
    assert [(await node.state())[0] for node in nodes] == ["active", "active"]
    for node in nodes:
        assert "quarantined" not in await node.path()


async def test_a_reading_from_before_an_outage_does_not_confirm_a_later_one(site: Site) -> None:
    """The first reading contradicts the status; then the region cannot be read until the machine is as before."""
    node = await active(site)
    machine = await record(node)
    marks_broken(site, machine)
    await lives(node, 10 * SECOND)
    site.maas.region.faults.add(Fault(status=502, body=b"", times=None))
    assert await lives(node, 10 * MINUTE) == "active"
    deploys_again(site, machine)
    site.maas.region.faults.clear()
    assert await lives(node, 5 * MINUTE) == "active"
    assert await node.path() == ["enrolling", "active"]


async def test_a_contradiction_from_before_the_region_was_lost_is_confirmed_once_it_is_back(site: Site) -> None:
    node = await active(site)
    marks_broken(site, await record(node))
    await lives(node, 10 * SECOND)
    site.maas.region.faults.add(Fault(status=502, body=b"", times=None))
    assert await lives(node, 10 * MINUTE) == "active"
    site.maas.region.faults.clear()
    assert await lives(node, 3 * MINUTE) == "quarantined"


async def test_a_machine_renamed_by_hand_is_the_same_machine(site: Site) -> None:
    node = await active(site)
    (await record(node)).hostname = "renamed"
    await site.wait(HOUR)
    await node.beat()
    assert await lives(node, MINUTE) == "active"
    assert (await manageable(site, macs=["52:54:00:00:00:09"])).id != node.id
