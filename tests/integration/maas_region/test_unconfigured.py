"""A region whose site is removed from the settings: it is reported, its alerts end, and it can be deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.handlers.maas_region.handler import UNCONFIGURED_AFTER
from farrier.io.kinds import maas_region as region_rows
from farrier.sim.maas import Fault
from tests.support import pg
from tests.support.maas_region import Caller, created
from tests.support.site import SECOND, Site

POLL = timedelta(seconds=5)
_REGION = "SELECT state FROM farrier.maas_regions WHERE name = $1 ORDER BY id DESC LIMIT 1"
_MOVES = """
    SELECT from_value, to_value FROM farrier.history
     WHERE kind = 'maas_region' AND from_value IS NOT NULL ORDER BY version
"""
_WAKES = "SELECT count(*) FROM farrier.wakes WHERE kind = 'maas_region'"


async def state(site: Site) -> Any:
    return await site.conn.fetchval(_REGION, site.maas.config.name)


async def unconfigured(site: Site) -> None:
    """Remove the site from the only controller's settings, and let the time pass after which this is reported."""
    site.maas.handler.use_sites({})
    await site.wait(UNCONFIGURED_AFTER)
    await site.wait(POLL)


async def delete(site: Site) -> tuple[str, str]:
    """Ask to delete the region; returns the status of the answer and its reason."""
    intent = await site.conn.fetchval(
        "SELECT farrier.resource_intent('maas_region', $1, 'delete')", site.maas.config.name
    )
    await site.wait(POLL)
    (answer,) = await site.conn.fetch("SELECT status, reason FROM farrier.resource_intents WHERE id = $1", intent)
    return answer["status"], answer["reason"]


async def test_a_region_without_a_site_is_unconfigured_after_ten_minutes_until_the_site_is_back(site: Site) -> None:
    await site.wait(POLL)
    site.maas.handler.use_sites({})
    await site.wait(UNCONFIGURED_AFTER - 10 * SECOND)
    assert await state(site) == "observing"
    await site.wait(20 * SECOND)
    assert await state(site) == "unconfigured"
    site.maas.handler.use_sites({site.maas.config.name: site.maas.config})
    await site.wait(POLL)
    await site.wait(POLL)
    assert await state(site) == "observing"
    assert [tuple(row) for row in await site.conn.fetch(_MOVES)] == [
        ("starting", "observing"),
        ("observing", "unconfigured"),
        ("unconfigured", "observing"),
    ]


async def test_a_region_that_fails_for_long_is_not_unconfigured(site: Site) -> None:
    site.maas.region.faults.add(Fault(status=500, times=None))
    await site.wait(POLL)
    await site.wait(UNCONFIGURED_AFTER * 2)
    assert await state(site) == "failing"


async def test_a_failing_region_whose_site_is_gone_fails_no_more_and_can_be_deleted(site: Site) -> None:
    site.maas.region.faults.add(Fault(status=500, times=None))
    await site.wait(POLL)
    status, reason = await delete(site)
    assert status == "rejected" and "delete is accepted in state unconfigured; this MAAS region is failing; " in reason
    await unconfigured(site)
    status, _ = await delete(site)
    assert (status, await state(site)) == ("accepted", "gone")
    assert await site.conn.fetchval(_WAKES) == 0
    assert tuple((await site.conn.fetch(_MOVES))[-1]) == ("unconfigured", "gone")


async def test_a_region_with_machines_of_nodes_is_not_deleted_and_names_the_nodes(site: Site) -> None:
    node = await site.register(maas_id=await created(Caller(site.maas.region), 1))
    await unconfigured(site)
    status, reason = await delete(site)
    assert status == "rejected" and node.name in reason
    assert await state(site) == "unconfigured"


async def test_a_client_cannot_create_a_region(site: Site) -> None:
    with pytest.raises(pg.PostgresError, match="unknown action 'create' of kind maas_region"):
        await site.conn.execute(
            "INSERT INTO farrier.resource_intents (kind, resource, action) VALUES ('maas_region', 'west', 'create')"
        )


async def test_a_deleted_site_can_be_added_again(db: pg.Database, site: Site) -> None:
    await unconfigured(site)
    await delete(site)
    config = site.maas.config
    async with db.pool() as connections:
        await region_rows.use(connections, {config.name: config})
    assert await state(site) == "starting"
