"""A region's observer on a real database, with the real loop and client: what it sees, when, and whom it wakes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from farrier.sim.maas import ADMIN, Region, Status
from tests.support.maas_region import Caller, created
from tests.support.site import MINUTE, SECOND, Machine, Site

POLL = timedelta(seconds=5)

_SEEN = "SELECT *, detail::text AS told FROM farrier.node_observations WHERE node_id = $1"
_REGION = "SELECT *, cursor::text AS at FROM farrier.maas_regions"


async def in_region(site: Site, number: int = 1, status: Status = Status.DEPLOYED) -> Machine:
    """A node whose machine is in the region."""
    system_id = await created(Caller(site.maas.region), number)
    stand(site.maas.region, system_id, status)
    return await site.register(maas_id=system_id)


def stand(region: Region, system_id: str, status: Status) -> None:
    """Have a machine of ours in this status, by an event."""
    region.machines[system_id].owner = ADMIN.username
    region.move(region.machines[system_id], status)


async def seen(node: Machine) -> Any:
    return await node.site.conn.fetchrow(_SEEN, node.id)


async def region_row(site: Site) -> Any:
    return await site.conn.fetchrow(_REGION)


async def maas_id(node: Machine) -> str:
    found: str = await node.site.conn.fetchval("SELECT maas_id FROM farrier.nodes WHERE id = $1", node.id)
    return found


async def test_a_node_that_gets_a_machine_has_it_read_with_the_next_look(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    row = await seen(node)
    assert row["state"] == "deployed"
    assert row["stale_since"] is None
    assert row["read_at"] == row["since"]
    assert (await region_row(site))["state"] == "observing"
    assert (await region_row(site))["username"] == ADMIN.username


async def test_an_event_makes_a_change_seen_with_the_next_look(site: Site) -> None:
    node = await in_region(site)
    await site.wait(POLL)
    before = await seen(node)
    stand(site.maas.region, await maas_id(node), Status.READY)
    await site.wait(POLL)
    after = await seen(node)
    assert (after["state"], after["stale_since"]) == ("ready", None)
    assert after["since"] == after["read_at"] > before["read_at"]
    await site.wait(5 * MINUTE)
    assert (await seen(node))["since"] == after["since"]
    assert SECOND
